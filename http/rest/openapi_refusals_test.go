package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// operation is what the document states about a route beyond what follows from the route
// itself: its name, the codes its handler refuses with, and the headers of its answer.
type operation struct {
	// ID is the operationId.
	ID string
	// Refuses lists codes, separated by blanks. refusalsOf adds those that follow from
	// the route (its access, parameters and body). A code that has two statuses stands for
	// the first in statusCodes; with the other it is written code/status.
	Refuses string
	// Headers lists headers of the answer, separated by blanks.
	Headers string
	// Again describes the answer to a repeat, whose status is 200 instead of the route's;
	// empty if it is the same.
	Again string
	// Bodies maps statuses to their body type, if it is not Error.
	Bodies map[int]reflect.Type
}

// statusCodes are the codes of refusals by their status. A route cannot declare a code
// that is missing here.
var statusCodes = []struct {
	status int
	codes  []string
}{
	{fasthttp.StatusBadRequest, []string{"agent_required", "invalid_cursor", "invalid_request", "pow_invalid", "unsupported_grant_type"}},
	{fasthttp.StatusUnauthorized, []string{"invalid_client", "invalid_token", "not_authenticated", "token_expired"}},
	{fasthttp.StatusForbidden, []string{
		"electorate_empty", "incoming_policy", "insufficient_scope", "invitation_required", "isolated_agent", "not_admin", "not_in_electorate", "not_member", "not_owner",
		"outgoing_policy", "quota_exceeded", "registration_closed", "role_not_allowed", "signature_invalid", "suspended", "svid_invalid", "svid_not_configured", "trust_tier_required",
	}},
	{fasthttp.StatusNotFound, []string{"not_found"}},
	{fasthttp.StatusConflict, []string{
		"agent_required", "already_invited", "already_member", "challenge_used", "conversation_closed", "duplicate_webhook", "epoch_conflict", "frozen",
		"idempotency_mismatch", "invalid_transition", "isolated_immutable", "isolation_conflict", "last_credential", "legal_hold", "mls_commit_required",
		"mls_pending", "mls_removal_pending", "name_immutable", "name_taken", "request_closed", "slug_immutable", "slug_taken",
	}},
	{fasthttp.StatusGone, []string{"challenge_expired", "gone"}},
	{fasthttp.StatusRequestEntityTooLarge, []string{"payload_too_large"}},
	{fasthttp.StatusUnsupportedMediaType, []string{"unsupported_media_type"}},
	{fasthttp.StatusUnprocessableEntity, []string{"binding_stale", "card_security_fields", "key_package_invalid", "last_admin", "no_recipients", "self_message", "ssrf_blocked", "validation_error"}},
	{fasthttp.StatusTooManyRequests, []string{"rate_limited"}},
	{fasthttp.StatusServiceUnavailable, []string{"outcome_unknown", "overloaded"}},
}

// statusOfCode returns the status of a code, 0 if the code is unknown.
func statusOfCode(code string) int {
	for _, s := range statusCodes {
		if slices.Contains(s.codes, code) {
			return s.status
		}
	}
	return 0
}

// refusal is one status that a route refuses with, and its codes.
type refusal struct {
	status int
	codes  []string
}

// refusalWords begin the names of responses that several routes share.
var refusalWords = map[int]string{
	fasthttp.StatusBadRequest: "BadRequest", fasthttp.StatusForbidden: "Forbidden", fasthttp.StatusConflict: "Conflict", fasthttp.StatusGone: "Gone",
	fasthttp.StatusUnprocessableEntity: "Unprocessable",
}

// name returns the name of a refusal as a shared response: its status and its codes.
func (r refusal) name() string {
	name := refusalWords[r.status]
	for _, code := range r.codes {
		if camel(code) != name { // gone is the only code of 410 Gone on most routes
			name += camel(code)
		}
	}
	return name
}

// often returns the refusals that several routes have, in the order of their names, and
// notes them as shared. Generators make types for each response: those of a shared one once.
func (b *schemas) often(routes []Route) (all []refusal) {
	times := map[string]int{}
	for i := range routes {
		r := &routes[i]
		for _, refused := range refusalsOf(r, b.about(r)) {
			if r.OwnRefusals() || refusalWords[refused.status] == "" {
				continue
			}
			if times[refused.name()]++; times[refused.name()] == 2 {
				all = append(all, refused)
				b.shared[refused.name()] = true
			}
		}
	}
	slices.SortFunc(all, func(x, y refusal) int { return strings.Compare(x.name(), y.name()) })
	return all
}

// refusalsOf returns all refusals of a route by status: those that follow from the route
// and those of its handler.
func refusalsOf(r *Route, op operation) []refusal {
	codes := append(impliedCodes(r), strings.Fields(op.Refuses)...)
	var all []refusal
	for _, s := range statusCodes {
		found := refusal{status: s.status}
		for _, code := range s.codes {
			declared := statusOfCode(code) == s.status && slices.Contains(codes, code) || slices.Contains(codes, code+"/"+strconv.Itoa(s.status))
			if declared && !(code == classInvalid && r.BadRequest) {
				found.codes = append(found.codes, code)
			}
		}
		if s.status == fasthttp.StatusBadRequest && r.BadRequest {
			found.codes = append(found.codes, classInvalid)
		}
		if found.codes != nil {
			all = append(all, found)
		}
	}
	return all
}

// impliedCodes returns the codes that follow from a route's access and from its inputs.
func impliedCodes(r *Route) []string {
	secured, writes := r.Access.NeedsToken(), r.Method != fasthttp.MethodGet
	named := func(fields []field, name string) bool {
		return slices.ContainsFunc(fields, func(f field) bool { return f.names[0] == name })
	}
	acting := slices.ContainsFunc(r.plan.header, func(f field) bool {
		return strings.HasPrefix(f.name, "X-") && strings.HasSuffix(f.name, "-Agent")
	})
	var codes []string
	for _, c := range []struct {
		applies bool
		codes   string
	}{
		{secured, "not_authenticated token_expired invalid_token"},
		{secured && !r.OpenToSuspended(), "suspended"},
		{secured && r.Access != Read, "insufficient_scope"},
		{r.Access.NeedsTier1(), "trust_tier_required"},
		{r.Access == Basic, "invalid_client invalid_request unsupported_grant_type"},
		{acting, "not_owner"},
		{named(r.plan.header, "idempotency-key"), "idempotency_mismatch"},
		{named(r.plan.query, "cursor"), "invalid_cursor"},
		{len(r.plan.path) > 0, "not_found"},
		{r.plan.body != nil, "payload_too_large"},
		{r.plan.body != nil && r.Access != Basic, "unsupported_media_type"},
		{(r.plan.body != nil || len(r.plan.path)+len(r.plan.query)+len(r.plan.header) > 0) && r.Access != Basic, "validation_error"},
		{!r.Probe, "rate_limited overloaded"},
		{secured && writes, "outcome_unknown"},
	} {
		if c.applies {
			codes = append(codes, strings.Fields(c.codes)...)
		}
	}
	return codes
}
