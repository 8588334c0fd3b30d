package http

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley"
	"parley/actors/org"
)

// Caller is who speaks: an organization, through one of its credentials.
type Caller struct {
	Org      parley.OrgID
	Slug     string
	ClientID parley.ClientID
	// Tier is the trust tier as it is now, not as it was when the token was made.
	Tier int
	// record is the organization as it is now. It is shared.
	record *org.State
}

// Authenticator knows callers by their tokens.
type Authenticator interface {
	// Bearer judges the value of the Authorization header, empty if there is
	// none, and keeps none of it. An error is a parley.Refusal of reason
	// Unauthenticated or BadToken.
	Bearer(header []byte) (Caller, error)
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
	sheets []*sheet
	// Caller is the zero Caller on routes that need no bearer token.
	Caller Caller
}

// NoContent is the answer 204 without a body.
type NoContent struct{}

// Rendered is an answer that is JSON already.
type Rendered struct {
	// Code is the status; 0 means the route's own.
	Code int
	// JSON is sent as it is.
	JSON []byte
}

// sheet is a piece of memory to write on. It is used again once the call that
// wrote on it is answered.
type sheet struct{ b []byte }

// sheetBytesMax is how large a sheet may be to be kept: one long answer must
// not hold its memory for ever.
const sheetBytesMax = 512 << 10

var sheets = sync.Pool{New: func() any { return &sheet{b: make([]byte, 0, 4<<10)} }}

// write writes on a sheet. The result is good until the call is answered; that
// of a call which is refused, for ever: somebody may not have finished with it.
func (c *Call) write(fill func([]byte) []byte) []byte {
	s := sheets.Get().(*sheet)
	s.b = fill(s.b[:0])
	c.sheets = append(c.sheets, s)
	return s.b
}

// render writes the answer on a sheet.
func (c *Call) render(fill func([]byte) []byte) Rendered { return Rendered{JSON: c.write(fill)} }

// done gives the sheets back.
func (c *Call) done() {
	for _, s := range c.sheets {
		if cap(s.b) <= sheetBytesMax {
			sheets.Put(s)
		}
	}
	c.sheets = nil
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

// answer sends what a handler returned.
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
		c.send(status, out.JSON)
		c.done()
		return nil
	case interface{ Status() int }:
		status = out.Status()
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	c.send(status, body)
	return nil
}

func (c *Call) send(status int, body []byte) {
	if c.status != 0 {
		status = c.status
	}
	c.ctx.SetStatusCode(status)
	if len(c.ctx.Response.Header.ContentType()) == 0 {
		c.ctx.SetContentType(jsonMedia)
	}
	// The response keeps a copy, in memory that the connection uses again.
	c.ctx.Response.SetBody(body)
}

const jsonMedia = "application/json"
