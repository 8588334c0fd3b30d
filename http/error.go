package http

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/http/connlimit"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"parley"
)

// This file is the only place where a refusal gets a status, a class name and
// a body. // spec: Errors

// answers gives every reason its status and the class name of the
// specification's table.
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

// classInvalid is the specification's name for invalid input. The answers of
// HTTP itself that the specification's table does not name (405, 408, 413,
// 415, 431) bear it too, so that a client meets no class beyond that table but
// UnavailableError; their codes tell them apart.
const classInvalid = "validation_error"

// protocolError is a refusal by HTTP rather than by a rule.
type protocolError struct {
	status int
	code   string
	text   string
}

func (e *protocolError) Error() string { return e.code + ": " + e.text }

var (
	errNoRoute     = parley.ErrNotFound
	errTier        = parley.Refuse(parley.Forbidden, "trust_tier_required", "Your organization needs trust tier 1 for this.")
	errHeld        = parley.ErrOverloaded.ForOne().Saying("What is under way for you holds as much of the server's memory as it may; nothing was done. Try again shortly.")
	errSuspended   = parley.Refuse(parley.Forbidden, "suspended", "The operator has suspended your organization. It can read, and do nothing else.")
	errMethod      = &protocolError{fasthttp.StatusMethodNotAllowed, "method_not_allowed", "The resource does not take this method."}
	errMediaType   = &protocolError{fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be application/json."}
	errCoding      = &protocolError{fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body must not be compressed."}
	errTooLarge    = &protocolError{fasthttp.StatusRequestEntityTooLarge, "payload_too_large", "The body is larger than 1 MiB."}
	errHeadersSize = &protocolError{fasthttp.StatusRequestHeaderFieldsTooLarge, "headers_too_large", "The request line and headers are larger than 16 KiB."}
	errStranger    = &protocolError{fasthttp.StatusRequestEntityTooLarge, "payload_too_large", "A body of more than 16 KiB needs a valid bearer token."}
	errTooSlow     = &protocolError{fasthttp.StatusRequestTimeout, "request_timeout", "The request did not arrive in time."}
	errUnparsable  = &protocolError{fasthttp.StatusBadRequest, classInvalid, "The request is not valid HTTP."}
)

// problem is an error on its way to the wire.
type problem struct {
	status int
	class  string
	code   string
	detail any // a sentence, or the list of faults of a 422
	extra  map[string]any
}

// problemOf translates. What it does not know is a defect, of which the caller
// learns nothing.
func problemOf(err error) problem {
	var (
		refusal  *parley.Refusal
		schema   *schemaError
		protocol *protocolError
	)
	switch {
	case errors.As(err, &schema):
		return problem{status: fasthttp.StatusUnprocessableEntity, class: classInvalid, code: classInvalid, detail: schema.faults}
	case errors.As(err, &protocol):
		return problem{status: protocol.status, class: classInvalid, code: protocol.code, detail: protocol.text}
	case errors.As(err, &refusal) && refusal.Reason != parley.Internal:
		return problemOfRefusal(refusal)
	default:
		return problem{status: fasthttp.StatusInternalServerError, class: "InternalError", code: parley.ErrInternal.Code, detail: parley.ErrInternal.Text}
	}
}

func problemOfRefusal(r *parley.Refusal) problem {
	a, known := answers[r.Reason]
	if !known {
		a = answers[parley.Internal]
	}
	p := problem{status: a.status, class: a.class, code: r.Code, detail: r.Text, extra: maps.Clone(r.Extra)}
	switch r.Reason {
	case parley.Unprocessable:
		p.detail = []FieldError{{Loc: locOf(r.Extra["loc"]), Msg: r.Text, Type: faultValue}}
		delete(p.extra, "loc")
		if r.Code == "ssrf_blocked" {
			p.class = r.Code
		}
	case parley.RateLimited, parley.Unavailable:
		if p.extra == nil {
			p.extra = map[string]any{}
		}
		p.extra["retry_after"] = wholeSeconds(p.extra["retry_after"])
	}
	return p
}

// locOf is where a rule found fault: what the refusal says under "loc" (a path
// of names and indices, or one member of the body), else the body.
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

// refuse answers an error. Headers that the handler has set stay.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, r *Route, id string, err error) {
	p := problemOf(err)
	s.note(ctx, &p)
	if p.status == fasthttp.StatusInternalServerError {
		s.logger.Error("request failed", "request_id", id, "method", string(ctx.Method()), "route", routeLabel(r), "error", err)
	}
	if r != nil && r.Access == basic {
		p = p.asOAuth()
	}
	h := &ctx.Response.Header
	switch p.status {
	case fasthttp.StatusUnauthorized:
		h.Set(fasthttp.HeaderWWWAuthenticate, challenge(r, p, len(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)) > 0))
	case fasthttp.StatusTooManyRequests, fasthttp.StatusServiceUnavailable:
		h.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(wholeSeconds(p.extra["retry_after"])))
	}
	ctx.SetStatusCode(p.status)
	ctx.SetContentType(jsonMedia)
	ctx.SetBody(p.body(id))
}

// delay returns when the refusal is to be answered: at once, unless there are many.
func (s *Server) delay(conn net.Conn, err error) {
	if s.overload.ToDelay(s.clock(), err) {
		defer connlimit.Park(conn)()
		s.overload.Delay(s.draining)
	}
}

// challenge is the WWW-Authenticate of a 401: RFC 6750 for tokens, where the
// error is named only to those who sent one, RFC 7617 for credentials.
func challenge(r *Route, p problem, tried bool) string {
	if r != nil && r.Access == basic {
		return `Basic realm="parley", charset="UTF-8"`
	}
	if !tried {
		return `Bearer realm="parley"`
	}
	description, _ := p.detail.(string)
	return `Bearer realm="parley", error="invalid_token", error_description="` + strings.NewReplacer(`"`, "'", `\`, "/").Replace(description) + `"`
}

// asOAuth is the shape of RFC 6749 section 5.2 for the token endpoint: error is
// the code, and a request that does not match its schema is an invalid_request.
func (p problem) asOAuth() problem {
	switch p.status {
	case fasthttp.StatusUnprocessableEntity, fasthttp.StatusUnsupportedMediaType:
		text := "The request does not match its schema."
		if p.status == fasthttp.StatusUnsupportedMediaType {
			text = "The body must be application/x-www-form-urlencoded or application/json."
		}
		if faults, ok := p.detail.([]FieldError); ok && len(faults) > 0 {
			text = faults[0].Msg
		}
		p = problem{status: fasthttp.StatusBadRequest, code: "invalid_request", detail: text}
	case fasthttp.StatusBadRequest, fasthttp.StatusUnauthorized:
	default:
		return p
	}
	p.class = p.code
	p.extra = maps.Clone(p.extra)
	if p.extra == nil {
		p.extra = map[string]any{}
	}
	p.extra["error_description"] = p.detail
	return p
}

// body renders the problem; the extras come last, in the order of their names,
// and cannot shadow the four fixed members.
func (p problem) body(id string) []byte {
	fixed := []struct {
		name  string
		value any
	}{{"detail", p.detail}, {"error", p.class}, {"code", p.code}, {"request_id", id}}
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
		delete(p.extra, f.name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.extra)) {
		member(name, p.extra[name])
	}
	return append(b, '}')
}

func routeLabel(r *Route) string {
	if r == nil {
		return "none"
	}
	return r.Path
}

// noRoom is the whole answer to a connection that is refused.
func (s *Server) noRoom() []byte {
	id, p := s.newRequestID(), problemOf(parley.ErrOverloaded)
	body := p.body(id)
	b := []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + jsonMedia + "\r\nConnection: close\r\n" +
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Request-Id: " + id +
		"\r\nRetry-After: " + strconv.Itoa(wholeSeconds(p.extra["retry_after"])) + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	return append(b, body...)
}
