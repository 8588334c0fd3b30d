package httpserver

import (
	"time"

	"github.com/valyala/fasthttp"

	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

// Answer describes an answered request to an observer. Of the client's input it contains
// only the request id, which is safe to log. It contains no path, which may be a secret,
// no header and no body.
type Answer struct {
	// Route is the route of the request, nil if none matched.
	Route *rest.Route
	// RequestID is the X-Request-ID of the answer.
	RequestID string
	// Status is the HTTP status of the answer.
	Status int
	// Code is the code of the problem in the answer, empty if there was none. There are
	// few codes, and all are documented.
	Code string
	// Quota is the name of the exhausted quota, if that was the problem.
	Quota string
	// Began is when the request was read, Took how long it took to make the answer; for a
	// stream, until it was open. Both are zero if the request could not be read.
	Began time.Time
	Took  time.Duration

	// ctx serves the methods, while Observe runs.
	ctx *fasthttp.RequestCtx
}

// Traceparent returns the client's traceparent header, unchecked. Like Posted, it may be
// called only while Observe runs.
func (a *Answer) Traceparent() string {
	if a.ctx == nil {
		return ""
	}
	return string(a.ctx.Request.Header.Peek(traceparentHeader))
}

const traceparentHeader = "Traceparent"

// Noted returns what the handler has kept for the observer, see rest.Call.Note. It may be
// called only while Observe runs.
func (a *Answer) Noted() any {
	if a.ctx == nil {
		return nil
	}
	return rest.Noted(a.ctx)
}

// Header returns a header of the answer. It may be called only while Observe runs.
func (a *Answer) Header(name string) string {
	if a.ctx == nil {
		return ""
	}
	return string(a.ctx.Response.Header.Peek(name))
}

// Load is the load of a Server at one instant.
type Load struct {
	// Connections is the number of open connections, streams included, ConnectionsMax the
	// most that may be open.
	Connections, ConnectionsMax int
	// Addresses is the number of client addresses, PerAddressMax how many connections one
	// of them may have.
	Addresses, PerAddressMax int
	// Exceeded counts the connections that exceeded a bound.
	Exceeded connlimit.Count
	// InFlight is the number of requests in progress.
	InFlight int
	// Held is the memory that large bodies and answers hold.
	Held limit.BudgetStats
}

// Load returns the current load.
func (s *Server) Load() Load {
	l := Load{ConnectionsMax: s.bounds.Total, PerAddressMax: s.bounds.PerAddress, InFlight: int(s.inFlight.Load()), Held: s.host.Budget.Stats()}
	if listener := s.listener.Load(); listener != nil {
		l.Connections, l.Addresses, l.Exceeded = listener.Stats()
	}
	return l
}
