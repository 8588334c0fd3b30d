package http

import (
	"context"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley"
)

// Caller is who speaks: an organization, through one of its credentials.
type Caller struct {
	Org      parley.OrgID
	Slug     string
	ClientID parley.ClientID
	// Tier is the trust tier as it is now, not as it was when the token was made.
	Tier int
}

// Authenticator knows callers by their tokens.
type Authenticator interface {
	// Bearer judges the value of the Authorization header, "" if there is none.
	// An error is a parley.Refusal of reason Unauthenticated or BadToken.
	Bearer(header string) (Caller, error)
}

// Call is one request on its way through a handler. It must not outlive the
// handler, nor may anything that its methods hand out without saying that it
// is a copy.
type Call struct {
	ctx    *fasthttp.RequestCtx
	server *Server
	route  *Route
	id     string
	status int
	// Caller is the zero Caller on routes that need no bearer token.
	Caller Caller
}

// NoContent is the answer 204 without a body.
type NoContent struct{}

// Rendered is an answer that is JSON already.
type Rendered struct {
	// Code is the status; 0 means the route's own.
	Code int
	// JSON is sent as it is and must not change until the answer is written.
	JSON []byte
}

// Route is the line of the table that was matched.
func (c *Call) Route() *Route { return c.route }

// RequestID is what X-Request-ID says in the answer.
func (c *Call) RequestID() string { return c.id }

// Now is the server's clock.
func (c *Call) Now() time.Time { return c.server.clock() }

// SetStatus overrides the route's status.
func (c *Call) SetStatus(code int) { c.status = code }

// SetHeader adds a header to the answer, refusals included.
func (c *Call) SetHeader(name, value string) { c.ctx.Response.Header.Set(name, value) }

// Header is a copy of a request header, "" if absent.
func (c *Call) Header(name string) string { return string(c.ctx.Request.Header.Peek(name)) }

// Body is the raw request body. It is overwritten when the handler returns.
func (c *Call) Body() []byte { return c.ctx.Request.Body() }

// Head reports whether only the headers of the answer are wanted. A handler
// that marks what it shows must not do so then.
func (c *Call) Head() bool { return c.ctx.IsHead() }

// Peer is the address of the other end of the connection.
func (c *Call) Peer() netip.Addr {
	addr, _ := netip.AddrFromSlice(c.ctx.RemoteIP())
	return addr.Unmap()
}

// Draining is closed when the server begins to stop: waits should end then and
// answer with what they have.
func (c *Call) Draining() <-chan struct{} { return c.server.draining }

// Context ends when the server has stopped waiting for its requests. The end
// of one request's connection does not end it: it is seen only in the writing.
func (c *Call) Context() context.Context { return c.server.running }

// answer writes what a handler returned.
func (c *Call) answer(out any) error {
	status := c.route.Status
	switch out := out.(type) {
	case NoContent:
		c.ctx.SetStatusCode(fasthttp.StatusNoContent)
		return nil
	case Rendered:
		if out.Code != 0 {
			status = out.Code
		}
		c.write(status, out.JSON)
		return nil
	case interface{ Status() int }:
		status = out.Status()
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	c.write(status, body)
	return nil
}

func (c *Call) write(status int, body []byte) {
	if c.status != 0 {
		status = c.status
	}
	c.ctx.SetStatusCode(status)
	if len(c.ctx.Response.Header.ContentType()) == 0 {
		c.ctx.SetContentType(jsonMedia)
	}
	c.ctx.Response.SetBodyRaw(body)
}

const jsonMedia = "application/json"
