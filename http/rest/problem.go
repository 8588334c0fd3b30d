package rest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"parley/client/parley"
)

// Only this file maps a refusal to a status, a class name and a body. // spec: Errors

// answers maps every reason to its status and to the class name in the specification's
// table.
var answers = map[parley.Reason]struct {
	status int
	class  string
}{
	parley.Internal:        {fasthttp.StatusInternalServerError, "InternalError"},
	parley.Invalid:         {fasthttp.StatusBadRequest, classInvalid},
	parley.Unprocessable:   {fasthttp.StatusUnprocessableEntity, classInvalid},
	parley.Unauthenticated: {fasthttp.StatusUnauthorized, "AuthenticationError"},
	parley.BadToken:        {fasthttp.StatusUnauthorized, "InvalidTokenError"},
	parley.Forbidden:       {fasthttp.StatusForbidden, "AuthorizationError"},
	parley.BadSignature:    {fasthttp.StatusForbidden, "SignatureVerificationError"},
	parley.NotFound:        {fasthttp.StatusNotFound, "NotFoundError"},
	parley.Conflict:        {fasthttp.StatusConflict, "ConflictError"},
	parley.Gone:            {fasthttp.StatusGone, "GoneError"},
	parley.RateLimited:     {fasthttp.StatusTooManyRequests, "RateLimitError"},
	parley.Unavailable:     {fasthttp.StatusServiceUnavailable, "UnavailableError"},
}

// classInvalid is the specification's class name for invalid input. The HTTP statuses
// that the specification's table lacks (405, 408, 413, 415, 431) use it too, so that
// clients see no class outside that table except UnavailableError. Their codes
// distinguish them.
const classInvalid = "validation_error"

// ProtocolError is a refusal by HTTP rather than by a rule.
type ProtocolError struct {
	status     int
	code, text string
}

// Protocol returns a ProtocolError. An empty code means that of invalid input.
func Protocol(status int, code, text string) *ProtocolError {
	return &ProtocolError{status, cmp.Or(code, classInvalid), text}
}

func (e *ProtocolError) Error() string { return e.code + ": " + e.text }

var (
	// ErrNoRoute rejects a path that no route has.
	ErrNoRoute = parley.ErrNotFound
	// ErrTier rejects a caller whose organization has not enough trust.
	ErrTier = parley.Refuse(parley.Forbidden, "trust_tier_required", "Your organization needs trust tier 1 for this.")
	// ErrScope rejects a token whose credential has a scope that the route does not admit.
	ErrScope = parley.Refuse(parley.Forbidden, "insufficient_scope", "The credential that the token was made for does not have the scope that this needs.")
	// ErrSuspended rejects all but reads, the export and the erasure.
	ErrSuspended = parley.Refuse(parley.Forbidden, "suspended", "The operator has suspended your organization. It can read, and do nothing else.")
	// ErrDraining rejects what would begin, or wait, while the server stops.
	ErrDraining = parley.Refuse(parley.Unavailable, "draining", "The server is stopping.")
	// ErrHeld rejects a caller that holds too much memory.
	ErrHeld      = parley.ErrOverloaded.ForOne().Saying("What is under way for you holds as much of the server's memory as it may; nothing was done. Try again shortly.")
	errMediaType = Protocol(fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be application/json.")
	errCoding    = Protocol(fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body must not be compressed.")
)

// Problem is an error in the form of its answer.
type Problem struct {
	Status int
	class  string
	Code   string
	detail any // a sentence, or the list of faults of a 422
	Extra  map[string]any
}

// ProblemOf translates an error. An unknown error is a defect, whose details are not
// shown to the caller.
func ProblemOf(err error) Problem {
	var (
		refusal  *parley.Refusal
		schema   *SchemaError
		protocol *ProtocolError
	)
	switch {
	case errors.As(err, &schema):
		return Problem{Status: fasthttp.StatusUnprocessableEntity, class: classInvalid, Code: classInvalid, detail: schema.Faults}
	case errors.As(err, &protocol):
		return Problem{Status: protocol.status, class: classInvalid, Code: protocol.code, detail: protocol.text}
	case errors.As(err, &refusal) && refusal.Reason != parley.Internal:
		return problemOfRefusal(refusal)
	default:
		return Problem{Status: fasthttp.StatusInternalServerError, class: "InternalError", Code: parley.ErrInternal.Code, detail: parley.ErrInternal.Text}
	}
}

func problemOfRefusal(r *parley.Refusal) Problem {
	a, known := answers[r.Reason]
	if !known {
		a = answers[parley.Internal]
	}
	p := Problem{Status: a.status, class: a.class, Code: r.Code, detail: r.Text, Extra: maps.Clone(r.Extra)}
	switch r.Reason {
	case parley.Unprocessable:
		p.detail = []FieldError{{Loc: locOf(r.Extra["loc"]), Msg: r.Text, Type: FaultValue}}
		delete(p.Extra, "loc")
		if r.Code == "ssrf_blocked" {
			p.class = r.Code
		}
	case parley.RateLimited, parley.Unavailable:
		if p.Extra == nil {
			p.Extra = map[string]any{}
		}
		p.Extra["retry_after"] = wholeSeconds(p.Extra["retry_after"])
	}
	return p
}

// locOf returns the location of a fault: the refusal's "loc" (a path of names and
// indices, or one member of the body), else the body.
func locOf(loc any) []any {
	switch loc := loc.(type) {
	case []any:
		return loc
	case []string:
		out := make([]any, len(loc))
		for i := range loc {
			out[i] = loc[i]
		}
		return out
	case string:
		return []any{"body", loc}
	default:
		return []any{"body"}
	}
}

// wholeSeconds rounds a wait up to whole seconds, at least one.
func wholeSeconds(wait any) int {
	seconds := 1
	switch wait := wait.(type) {
	case time.Duration:
		seconds = int((wait + time.Second - 1) / time.Second)
	case int:
		seconds = wait
	case int64:
		seconds = int(wait)
	}
	return max(seconds, 1)
}

// Challenge returns the WWW-Authenticate header of a 401: by RFC 6750 for tokens, with
// the error only if the caller sent a token, by RFC 7617 for credentials.
func Challenge(r *Route, p Problem, tried bool) string {
	if r != nil && r.Access == Basic {
		return `Basic realm="parley", charset="UTF-8"`
	}
	if !tried {
		return `Bearer realm="parley"`
	}
	description, _ := p.detail.(string)
	return `Bearer realm="parley", error="invalid_token", error_description="` + strings.NewReplacer(`"`, "'", `\`, "/").Replace(description) + `"`
}

// ScopeChallenge returns the WWW-Authenticate header of a 403 for lack of scope.
// // source: RFC 6750 section 3.1
func ScopeChallenge(r *Route) string {
	scopes := make([]string, 0, len(parley.Scopes))
	if r != nil {
		for _, scope := range r.Access.Scopes() {
			scopes = append(scopes, string(scope))
		}
	}
	return `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
}

// AsOAuth returns the problem in the form of RFC 6749 section 5.2 for the token endpoint:
// error is the code, and a request that does not match its schema is an invalid_request.
func (p Problem) AsOAuth() Problem {
	switch p.Status {
	case fasthttp.StatusUnprocessableEntity, fasthttp.StatusUnsupportedMediaType:
		text := "The request does not match its schema."
		if p.Status == fasthttp.StatusUnsupportedMediaType {
			text = "The body must be application/x-www-form-urlencoded or application/json."
		}
		if faults, ok := p.detail.([]FieldError); ok && len(faults) > 0 {
			text = faults[0].Msg
		}
		p = Problem{Status: fasthttp.StatusBadRequest, Code: "invalid_request", detail: text}
	case fasthttp.StatusBadRequest, fasthttp.StatusUnauthorized:
	default:
		return p
	}
	p.class = p.Code
	p.Extra = maps.Clone(p.Extra)
	if p.Extra == nil {
		p.Extra = map[string]any{}
	}
	p.Extra["error_description"] = p.detail
	return p
}

// AsBadRequest returns the problem of input that does not match its schema as a 400 whose
// detail is a sentence, and other problems unchanged.
func (p Problem) AsBadRequest() Problem {
	faults, ok := p.detail.([]FieldError)
	if !ok || p.Status != fasthttp.StatusUnprocessableEntity || len(faults) == 0 {
		return p
	}
	return Problem{Status: fasthttp.StatusBadRequest, class: classInvalid, Code: classInvalid, detail: faults[0].String()}
}

// Detail returns the sentence of a problem, or that of its first fault.
func (p *Problem) Detail() string {
	if faults, ok := p.detail.([]FieldError); ok {
		if len(faults) == 0 {
			return ""
		}
		return faults[0].String()
	}
	text, _ := p.detail.(string)
	return text
}

// Faults returns the faults of a request that does not match its schema, nil for other
// problems.
func (p *Problem) Faults() []FieldError {
	faults, _ := p.detail.([]FieldError)
	return faults
}

// Body renders the problem. The extra members come last, sorted by name, and cannot
// shadow the four fixed members.
func (p Problem) Body(id string) []byte {
	fixed := []struct {
		name  string
		value any
	}{{"detail", p.detail}, {"error", p.class}, {"code", p.Code}, {"request_id", id}}
	b := []byte{'{'}
	member := func(name string, value any) {
		text, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name)
		b = append(append(b, ':'), text...)
	}
	for _, f := range fixed {
		member(f.name, f.value)
		delete(p.Extra, f.name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		member(name, p.Extra[name])
	}
	return append(b, '}')
}

// RetryAfter returns the number of seconds after which to try again, at least one.
func (p *Problem) RetryAfter() int { return wholeSeconds(p.Extra["retry_after"]) }
