package parley

import (
	"errors"
	"maps"
)

// Reason is the class of a refusal. Only the outermost layer translates it, for example
// into an HTTP status.
type Reason uint8

const (
	Internal Reason = iota
	Invalid
	Unprocessable
	Unauthenticated
	BadToken
	Forbidden
	BadSignature
	NotFound
	Conflict
	Gone
	RateLimited
	Unavailable
)

// Refusal is an error that the caller of the API caused or can react to, with a stable
// code and a sentence for people. Refusals are package variables beside the rule that
// returns them; With adds details of one case.
type Refusal struct {
	Reason Reason
	// Code is a stable snake_case identifier.
	Code string
	// Text is one sentence for a person.
	Text string
	// Extra are further members of the answer, such as current_status.
	Extra map[string]any
	// OfOne is set if a limit of one caller, agent or list was reached, which says
	// nothing about the load of the server.
	OfOne bool
	// distinct is set on what Distinct returned, and on its copies.
	distinct *Refusal
}

// Refuse returns a new refusal.
func Refuse(reason Reason, code, text string) *Refusal {
	return &Refusal{Reason: reason, Code: code, Text: text}
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Text }

// Is reports whether target is a refusal with the same reason and code, so that
// errors.Is also matches a refusal with extra members or another text. If target is one
// that Distinct returned, only that one and its copies match.
func (r *Refusal) Is(target error) bool {
	other := (*Refusal)(nil)
	return errors.As(target, &other) && other.Reason == r.Reason && other.Code == r.Code &&
		(other.distinct == nil || other.distinct == r.distinct)
}

// Distinct returns a copy of the refusal that callers can tell apart from all others with
// the same reason and code: errors.Is finds the original in the copy, but the copy in no
// other refusal.
func (r *Refusal) Distinct() *Refusal {
	c := *r
	c.distinct = &c
	return &c
}

// DistinctAs returns a copy of the refusal in which errors.Is finds original, which
// Distinct returned. The two have the same reason and code. A decoder uses it, because
// what makes a refusal distinct is lost when it is encoded.
func (r *Refusal) DistinctAs(original *Refusal) *Refusal {
	c := *r
	c.distinct = original.distinct
	return &c
}

// With returns a copy of the refusal with one more member in Extra.
func (r *Refusal) With(key string, value any) *Refusal {
	c := *r
	c.Extra = maps.Clone(r.Extra)
	if c.Extra == nil {
		c.Extra = map[string]any{}
	}
	c.Extra[key] = value
	return &c
}

// Saying returns a copy of the refusal with another text.
func (r *Refusal) Saying(text string) *Refusal {
	c := *r
	c.Text = text
	return &c
}

// ForOne returns a copy of the refusal with OfOne set.
func (r *Refusal) ForOne() *Refusal {
	c := *r
	c.OfOne = true
	return &c
}

// OverQuota returns a copy of the refusal with the members of every quota_exceeded: the
// quota's name, its limit, how much is used, and when it resets, nil if it does not.
func (r *Refusal) OverQuota(quota string, limit, used int, resets any) *Refusal {
	return r.With("quota", quota).With("limit", limit).With("used", used).With("resets_at", resets)
}

// IsRefusal reports whether an error is a Refusal, which the caller may see.
// Any other error is a defect of the server.
func IsRefusal(err error) bool {
	refusal := (*Refusal)(nil)
	return errors.As(err, &refusal)
}

// Refusals that more than one package returns.
var (
	// ErrOverloaded means that the request had no effect; it is safe to retry.
	ErrOverloaded = Refuse(Unavailable, "overloaded", "The server is at capacity; nothing was done. Try again shortly.")
	// ErrOutcomeUnknown means that the request may or may not have taken effect.
	ErrOutcomeUnknown = Refuse(Unavailable, "outcome_unknown", "The outcome is unknown. Repeat the request with the same Idempotency-Key.")
	ErrNotFound       = Refuse(NotFound, "not_found", "There is no such resource.")
	ErrGone           = Refuse(Gone, "gone", "The resource has been permanently removed.")
	ErrNotOwner       = Refuse(Forbidden, "not_owner", "Your organization has no part in this resource.")
	// ErrIncomingPolicy rejects messages that the recipient takes through groups only, and
	// those of whom it blocks, alike.
	ErrIncomingPolicy = Refuse(Forbidden, "incoming_policy", "The recipient's incoming policy allows messages through groups only.")
	// ErrIsolatedAgent rejects messages between a member of an isolated group and an
	// agent outside. // spec: Join request and membership
	ErrIsolatedAgent = Refuse(Forbidden, "isolated_agent", "Sender and recipient may not talk: one of them is confined to a group that the other is not in.")
	// ErrQuotaExceeded carries quota, limit, used and resets_at.
	ErrQuotaExceeded = Refuse(Forbidden, "quota_exceeded", "Your organization has used up its quota.")
	// ErrInternal is the answer to a request that failed because of a defect.
	ErrInternal = Refuse(Internal, "internal", "Internal error.")
)

// ErrInvalidCursor is the refusal of a cursor that this service did not issue for this
// list with these filters.
var ErrInvalidCursor = Refuse(Invalid, "invalid_cursor", "The cursor is not one that this list has given out.")
