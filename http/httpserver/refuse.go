package httpserver

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/overload"
	"parley/http/rest"
)

var (
	errErased      = parley.Refuse(parley.Unauthenticated, "not_authenticated", "The organization was erased.")
	errMethod      = rest.Protocol(fasthttp.StatusMethodNotAllowed, "method_not_allowed", "The resource does not take this method.")
	errHeadersSize = rest.Protocol(fasthttp.StatusRequestHeaderFieldsTooLarge, "headers_too_large", "The request line and headers are larger than 16 KiB.")
	errStranger    = rest.Protocol(fasthttp.StatusRequestEntityTooLarge, "payload_too_large", "A body of more than 16 KiB needs a valid bearer token.")
	errTooSlow     = rest.Protocol(fasthttp.StatusRequestTimeout, "request_timeout", "The request did not arrive in time.")
	errUnparsable  = rest.Protocol(fasthttp.StatusBadRequest, "", "The request is not valid HTTP.")
)

// answers is what every answer needs, and a refusal has.
type answers struct {
	routes       []rest.Route
	logger       *slog.Logger
	clock        parley.Clock
	newRequestID func() string
	observe      func(Answer)
	errorPage    func(string, *rest.Problem, string) rest.HTML
	damaged      func(reads bool) *parley.Refusal
	overload     *overload.Limiter
	origins      *Origins
	draining     chan struct{}
}

// refuse answers with an error. Headers that the handler has set are kept.
func (s *answers) refuse(ctx *fasthttp.RequestCtx, r *rest.Route, id string, err error) {
	p := rest.ProblemOf(err)
	if p.Status == fasthttp.StatusInternalServerError {
		s.logger.Error("request failed", "request_id", id, "method", string(ctx.Method()), "route", r.Label(), "error", err)
		if s.damaged != nil {
			if reason := s.damaged(ctx.IsGet() || ctx.IsHead()); reason != nil {
				p = rest.ProblemOf(reason)
			}
		}
	}
	s.note(ctx, &p)
	if r != nil && r.Access == rest.Basic {
		p = p.AsOAuth()
	}
	if r != nil && r.BadRequest {
		p = p.AsBadRequest()
	}
	h := &ctx.Response.Header
	if r != nil && r.Access == rest.Public { // caches would keep a 404 for a while, although the resource may appear
		h.Set(fasthttp.HeaderCacheControl, "no-store")
	}
	switch p.Status {
	case fasthttp.StatusUnauthorized:
		h.Set(fasthttp.HeaderWWWAuthenticate, rest.Challenge(r, p, len(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)) > 0))
	case fasthttp.StatusForbidden:
		if p.Code == rest.ErrScope.Code {
			h.Set(fasthttp.HeaderWWWAuthenticate, rest.ScopeChallenge(r))
		}
	case fasthttp.StatusTooManyRequests, fasthttp.StatusServiceUnavailable:
		h.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(p.RetryAfter()))
	}
	if allowed, ok := p.Extra["limit"].(int); ok && p.Extra["rate"] != nil { // a rate that is judged after the route's
		for i, n := range [...]int{allowed, 0, p.RetryAfter()} {
			h.Set(rest.RateHeaders[i], strconv.Itoa(n))
		}
	}
	if s.errorPage != nil && r.RefusedAsPage(ctx.Request.Header.Peek(fasthttp.HeaderAccept)) {
		ctx.SetStatusCode(p.Status)
		page := s.errorPage(string(ctx.URI().PathOriginal()), &p, id)
		h.Set("Content-Security-Policy", page.Policy)
		rest.AddVary(h, fasthttp.HeaderAccept)
		h.Set(fasthttp.HeaderCacheControl, "no-store")
		ctx.SetContentType(rest.HTMLMedia)
		ctx.SetBody(page.Body)
		return
	}
	s.write(ctx, r, p, id)
}

// write answers with a problem.
func (s *answers) write(ctx *fasthttp.RequestCtx, r *rest.Route, p rest.Problem, id string) {
	status, body, own := s.protocolOf(ctx, r).Refusal(p, id)
	if !own {
		status, body = p.Status, p.Body(id)
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType(rest.JSONMedia)
	ctx.SetBody(body)
}

// protocolOf returns the route whose protocol gives a refusal its form: r or, for a request
// that was refused before its route was known, that of its path.
func (s *answers) protocolOf(ctx *fasthttp.RequestCtx, r *rest.Route) *rest.Route {
	if r != nil || !ctx.IsPost() {
		return r
	}
	path := ctx.URI().PathOriginal()
	at := slices.IndexFunc(s.routes, func(r rest.Route) bool {
		folder, _, _ := strings.Cut(r.Path, "{")
		return r.OwnRefusals() && bytes.HasPrefix(path, []byte(folder))
	})
	if at < 0 {
		return nil
	}
	return &s.routes[at]
}

// delay waits before a refusal is sent if there are many refusals; otherwise it returns
// at once.
func (s *answers) delay(conn net.Conn, err error) {
	if s.overload.ToDelay(s.clock(), err) {
		defer connlimit.Park(conn)()
		s.overload.Delay(s.draining)
	}
}

// concealStep is far more than what takes longer for a thing that a caller may not know of than for
// one that does not exist.
const concealStep = 2 * time.Millisecond

// conceal makes the time until an answer of "not found" say nothing about why: it is a multiple of
// concealStep.
func (s *answers) conceal(ctx *fasthttp.RequestCtx, err error) {
	if errors.Is(err, parley.ErrNotFound) {
		sleep(concealStep - s.clock().Sub(ctx.Time())%concealStep)
	}
}

// refused is the problem that a request was answered with.
type refused struct{ code, quota string }

// note keeps the problem of the answer for the observer.
func (s *answers) note(ctx *fasthttp.RequestCtx, p *rest.Problem) {
	if s.observe == nil {
		return
	}
	quota, _ := p.Extra["quota"].(string)
	ctx.SetUserValue(refusedKey, &refused{p.Code, quota})
}

// tell calls the observer with an answer.
func (s *answers) tell(ctx *fasthttp.RequestCtx, id string, began time.Time) {
	a := Answer{RequestID: id, Status: ctx.Response.StatusCode(), Began: began, ctx: ctx}
	a.Route, _ = ctx.UserValue(routeKey).(*rest.Route)
	if r, ok := ctx.UserValue(refusedKey).(*refused); ok {
		a.Code, a.Quota = r.code, r.quota
	}
	if !began.IsZero() {
		a.Took = s.clock().Sub(began)
	}
	s.observe(a)
}

// noRoom returns the whole answer to a connection that is rejected.
func (s *answers) noRoom() []byte {
	id, p := s.newRequestID(), rest.ProblemOf(parley.ErrOverloaded)
	body := p.Body(id)
	b := []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + rest.JSONMedia + "\r\nConnection: close\r\n" +
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Request-Id: " + id +
		"\r\nRetry-After: " + strconv.Itoa(p.RetryAfter()) + "\r\n" + s.origins.unreadHead() + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	return append(b, body...)
}
