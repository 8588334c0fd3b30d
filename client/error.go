package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Code is a stable error code. It is an error itself, so that errors.Is(err,
// client.NameTaken) distinguishes refusals.
type Code string

// Codes of the service.
const (
	ValidationError      Code = "validation_error"
	InvalidCursor        Code = "invalid_cursor"
	MethodNotAllowed     Code = "method_not_allowed"
	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	NotAuthenticated     Code = "not_authenticated"
	TokenExpired         Code = "token_expired"
	InvalidToken         Code = "invalid_token"
	InvalidClient        Code = "invalid_client"
	TrustTierRequired    Code = "trust_tier_required"
	NotOwner             Code = "not_owner"
	NotMember            Code = "not_member"
	NotAdmin             Code = "not_admin"
	RoleNotAllowed       Code = "role_not_allowed"
	InsufficientScope    Code = "insufficient_scope"
	IncomingPolicy       Code = "incoming_policy"
	OutgoingPolicy       Code = "outgoing_policy"
	IsolatedAgent        Code = "isolated_agent"
	InvitationRequired   Code = "invitation_required"
	NotInElectorate      Code = "not_in_electorate"
	ElectorateEmpty      Code = "electorate_empty"
	QuotaExceeded        Code = "quota_exceeded"
	SignatureInvalid     Code = "signature_invalid"
	NotFound             Code = "not_found"
	NameTaken            Code = "name_taken"
	SlugTaken            Code = "slug_taken"
	SlugImmutable        Code = "slug_immutable"
	NameImmutable        Code = "name_immutable"
	IsolatedImmutable    Code = "isolated_immutable"
	InvalidTransition    Code = "invalid_transition"
	ConversationClosed   Code = "conversation_closed"
	AlreadyMember        Code = "already_member"
	AlreadyInvited       Code = "already_invited"
	RequestClosed        Code = "request_closed"
	IsolationConflict    Code = "isolation_conflict"
	IdempotencyMismatch  Code = "idempotency_mismatch"
	SelfMessage          Code = "self_message"
	LastAdmin            Code = "last_admin"
	NoRecipients         Code = "no_recipients"
	AgentRequired        Code = "agent_required"
	Gone                 Code = "gone"
	RateLimited          Code = "rate_limited"
	Overloaded           Code = "overloaded"
	OutcomeUnknown       Code = "outcome_unknown"
	PowInvalid           Code = "pow_invalid"
	ChallengeExpired     Code = "challenge_expired"
	ChallengeUsed        Code = "challenge_used"
	BindingStale         Code = "binding_stale"
	CardSecurityFields   Code = "card_security_fields"
	DuplicateWebhook     Code = "duplicate_webhook"
	EpochConflict        Code = "epoch_conflict"
	Frozen               Code = "frozen"
	HeadersTooLarge      Code = "headers_too_large"
	KeyPackageInvalid    Code = "key_package_invalid"
	InvalidRequest       Code = "invalid_request"
	LastCredential       Code = "last_credential"
	MLSCommitRequired    Code = "mls_commit_required"
	MLSPending           Code = "mls_pending"
	MLSRemovalPending    Code = "mls_removal_pending"
	RequestTimeout       Code = "request_timeout"
	SSRFBlocked          Code = "ssrf_blocked"
	LegalHold            Code = "legal_hold"
	Suspended            Code = "suspended"
	RegistrationClosed   Code = "registration_closed"
	SVIDInvalid          Code = "svid_invalid"
	SVIDNotConfigured    Code = "svid_not_configured"
	UnsupportedGrantType Code = "unsupported_grant_type"
	Internal             Code = "internal"
)

func (c Code) Error() string { return string(c) }

// Error is a refusal by the server.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Class is the class in the specification's table, such as ConflictError.
	Class string
	// Code is the stable code, which errors.Is compares.
	Code Code
	// Detail is one sentence for a person.
	Detail string
	// RequestID identifies the request in the operator's log.
	RequestID string
	// Fields are the faults of a 422, otherwise nil.
	Fields []api.FieldError
	// RetryAfter is how long the server asks to wait, 0 if it does not.
	RetryAfter time.Duration
	// Extra are further details, such as current_status and allowed.
	Extra map[string]any

	body []byte
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Detail)
	if e.Code == "" {
		text = fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	}
	if quota, ok := e.Extra["quota"]; ok {
		text += fmt.Sprintf(" Quota %v: %v of %v used.", quota, e.Extra["used"], e.Extra["limit"])
	}
	if status, ok := e.Extra["current_status"]; ok {
		text += fmt.Sprintf(" It is %v.", status)
	}
	if allowed, ok := e.Extra["allowed"].([]any); ok && len(allowed) > 0 {
		text += fmt.Sprintf(" Allowed are %v.", allowed)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" Try again in %v.", e.RetryAfter)
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Is matches a Code, and a parley.Refusal by its code.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	var refusal *parley.Refusal
	return errors.As(target, &refusal) && Code(refusal.Code) == e.Code
}

// readError returns the Error of a response whose body was read.
func readError(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-ID"), RetryAfter: retryAfter(resp.Header), body: body}
	var shape struct {
		Description string `json:"error_description"`
		RequestID   string `json:"request_id"`
	}
	var plain api.Error
	var bridged struct {
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}
	if json.Unmarshal(body, &shape) != nil {
		return e
	}
	if e.RequestID == "" {
		e.RequestID = shape.RequestID
	}
	var invalid api.Invalid
	if json.Unmarshal(body, &plain) == nil {
		e.Class, e.Code, e.Detail, e.Extra = plain.Error, Code(plain.Code), plain.Detail, plain.Extra
	} else if json.Unmarshal(body, &invalid) == nil {
		e.Class, e.Code, e.Fields, e.Detail = invalid.Error, Code(invalid.Code), invalid.Detail, sentences(invalid.Detail)
	} else if json.Unmarshal(body, &bridged) == nil { // of the A2A bridge, where error is an object
		e.Code, e.Detail = Code(bridged.Code), bridged.Detail
	}
	if e.Code == "" && shape.Description != "" { // a token error of another server
		e.Code, e.Detail = Code(e.Class), shape.Description
	}
	return e
}

func sentences(fields []api.FieldError) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

// retryAfter parses the integer form of the header, the only one the service sends.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*60*60)) * time.Second
}
