package httpserver

import (
	"time"

	"github.com/valyala/fasthttp"

	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

// Answer is what an observer gets for a request that was answered. It holds
// nothing that a client sent but the request id, which is safe to log: no path,
// which may be a secret, no header, no body.
type Answer struct {
	// Route is the line of the table, nil where none matched.
	Route *rest.Route
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

	// ctx is for the methods, while Observe runs.
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

// Noted is what the handler has kept for the observer, see rest.Call.Note. It is asked
// for while Observe runs.
func (a *Answer) Noted() any {
	if a.ctx == nil {
		return nil
	}
	return rest.Noted(a.ctx)
}

// Header is a header of the answer. It is asked for while Observe runs.
func (a *Answer) Header(name string) string {
	if a.ctx == nil {
		return ""
	}
	return string(a.ctx.Response.Header.Peek(name))
}

// Load is what a Server has at hand at one instant.
type Load struct {
	// Connections that are open, streams included, and how many may be.
	Connections, ConnectionsMax int
	// Addresses that they come from, and how many connections one of them may have.
	Addresses, PerAddressMax int
	// Exceeded are the connections that exceeded a bound.
	Exceeded connlimit.Count
	// InFlight are the requests that are being answered.
	InFlight int
	// Held is what large bodies and answers hold.
	Held limit.BudgetStats
}

// Load counts.
func (s *Server) Load() Load {
	l := Load{ConnectionsMax: s.bounds.Total, PerAddressMax: s.bounds.PerAddress, InFlight: int(s.inFlight.Load()), Held: s.host.Budget.Stats()}
	if listener := s.listener.Load(); listener != nil {
		l.Connections, l.Addresses, l.Exceeded = listener.Stats()
	}
	return l
}
