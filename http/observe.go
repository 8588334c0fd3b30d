package http

import (
	"time"

	"github.com/valyala/fasthttp"

	"parley"
	"parley/actors"
	"parley/actors/record"
	"parley/http/connlimit"
	"parley/http/limit"
)

// Answer is what a Server tells of a request that it has answered. It holds
// nothing that a client sent but the request id, which is safe to log: no path,
// which may be a secret, no header, no body.
type Answer struct {
	// Route is the line of the table, nil where none matched.
	Route *Route
	// RequestID is what X-Request-ID said.
	RequestID string
	// Status of the answer.
	Status int
	// Code of the problem that was answered, empty where there was none. The codes
	// are those of the documentation and few.
	Code string
	// Quota is the name of the quota that was used up, if that was the problem.
	Quota string
	// Began is when the request was read, Took how long the answer took to make:
	// that of a stream, until it was open. Both are zero for what could not be
	// read as a request.
	Began time.Time
	Took  time.Duration

	// ctx is read by whoever asks for more, while Observe runs.
	ctx *fasthttp.RequestCtx
}

// Traceparent is what the caller says of the trace that it is part of: anything,
// as it was sent. It is asked for while Observe runs, as Posted is.
func (a *Answer) Traceparent() string {
	if a.ctx == nil {
		return ""
	}
	return string(a.ctx.Request.Header.Peek(traceparentHeader))
}

const traceparentHeader = "Traceparent"

// Posted is the message that a send or a reply has stored: for one to a group the
// broadcast, not a copy. repeated: an earlier request with the same key did.
func (a *Answer) Posted() (id parley.MessageID, repeated, posted bool) {
	if a.ctx == nil {
		return id, false, false
	}
	p, posted := a.ctx.UserValue(postedKey).(*record.Message)
	if !posted {
		return id, false, false
	}
	if id = p.MessageID(); p.Copied() {
		id = id.Broadcast()
	}
	return id, len(a.ctx.Response.Header.Peek(replayedHeader)) > 0, true
}

const replayedHeader = "Idempotency-Replayed"

// posted tells of the message that the call has stored, and the caller if it had
// been stored before. // docs: delivery.md
func (c *Call) posted(p actors.Posted) {
	if p.Repeated {
		c.SetHeader(replayedHeader, "true")
	}
	if c.server.observe != nil {
		c.ctx.SetUserValue(postedKey, p.Message)
	}
}

// Label names a route in metrics and logs: its path with the parameters' names,
// "none" where r is nil.
func (r *Route) Label() string { return routeLabel(r) }

// refused is the problem that a request was answered with.
type refused struct{ code, quota string }

// note keeps the problem that is answered for whoever observes.
func (s *Server) note(ctx *fasthttp.RequestCtx, p *problem) {
	if s.observe == nil {
		return
	}
	quota, _ := p.extra["quota"].(string)
	ctx.SetUserValue(refusedKey, &refused{p.code, quota})
}

// tell has whoever observes know of an answer.
func (s *Server) tell(ctx *fasthttp.RequestCtx, id string, began time.Time) {
	a := Answer{RequestID: id, Status: ctx.Response.StatusCode(), Began: began, ctx: ctx}
	a.Route, _ = ctx.UserValue(routeKey).(*Route)
	if r, ok := ctx.UserValue(refusedKey).(*refused); ok {
		a.Code, a.Quota = r.code, r.quota
	}
	if !began.IsZero() {
		a.Took = s.clock().Sub(began)
	}
	s.observe(a)
}

// Load is what a Server has at hand at one instant.
type Load struct {
	// Connections that are open, streams included, and how many may be.
	Connections, ConnectionsMax int
	// Addresses that they come from, and how many connections one of them may have.
	Addresses, PerAddressMax int
	// Lines is what became of connections for which there was no room.
	Lines connlimit.Count
	// InFlight are the requests that are being answered.
	InFlight int
	// Held is what large bodies and answers hold.
	Held limit.BudgetStats
}

// Load counts.
func (s *Server) Load() Load {
	l := Load{ConnectionsMax: s.bounds.Total, PerAddressMax: s.bounds.PerAddress, InFlight: int(s.inFlight.Load()), Held: s.budget.Stats()}
	if lines := s.lines.Load(); lines != nil {
		l.Connections, l.Addresses, l.Lines = lines.Stats()
	}
	return l
}
