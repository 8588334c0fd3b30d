package http

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley"
	"parley/actors/org"
	"parley/http/connlimit"
	"parley/http/limit"
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

func (c *Caller) account() limit.Account { return limit.Account{Name: string(c.Org[:])} }

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
	// hold is what counts for the caller, taken what it is for by now: the body, and
	// beside it the large sheets.
	hold        limit.Hold
	taken, body int
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
	// on is the sheet that it is written on, if it is on one.
	on *sheet
}

// write writes on a sheet with room for about so many bytes. The result is good
// until the call is answered; that of a call which is refused, for ever: somebody
// may not have finished with it.
func (c *Call) write(size int, fill func([]byte) []byte) *sheet {
	s := newSheet(size)
	if s.b = fill(s.b[:0]); cap(s.b) > limit.Small {
		c.taken += cap(s.b)
	}
	c.sheets = append(c.sheets, s)
	return s
}

// render writes the answer, of about so many bytes, on a sheet.
func (c *Call) render(size int, fill func([]byte) []byte) Rendered {
	on := c.write(size, fill)
	return Rendered{JSON: on.b, on: on}
}

// done gives the sheets back.
func (c *Call) done() {
	for _, s := range c.sheets {
		s.giveBack()
	}
	c.sheets = nil
}

// holds has a sheet of so many bytes count for the caller before it is written, and
// refuses what would be too many. A small one does not count.
func (c *Call) holds(bytes int) error {
	if bytes <= limit.Small {
		return nil
	}
	return c.grow(c.taken + sheetBytes(bytes))
}

// grow has so many bytes in all count for the caller.
func (c *Call) grow(to int) error {
	if c.server.budget == nil {
		return nil
	}
	if c.hold == (limit.Hold{}) {
		c.hold = c.server.budget.Hold(c.account(), connlimit.Evict(c.ctx.Conn()))
	}
	if !c.hold.Grow(to) {
		return errHeld
	}
	return nil
}

// account is who the call counts for.
func (c *Call) account() limit.Account {
	if c.route.Access == bearer || c.route.Access == tier1 {
		return c.Caller.account()
	}
	return limit.Account{Name: c.server.source(c), Stranger: true}
}

// releaseAnswer gives back what the call holds for its answer: it is refused, which
// may take a while.
func (c *Call) releaseAnswer() {
	c.sheets = nil // somebody may not have finished with them
	c.hold.Shrink(c.body)
}

// release gives back what the call holds and its answer does not.
func (c *Call) release() { c.hold.Release() }

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
func (c *Call) Peer() netip.Addr { return peerOf(c.ctx.RemoteIP()) }

func peerOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// Draining is closed when the server begins to stop: waits should end then and
// answer with what they have.
func (c *Call) Draining() <-chan struct{} { return c.server.draining }

// Context ends when the server has stopped waiting for its requests. The end
// of one request's connection does not end it: it is seen only in the writing.
func (c *Call) Context() context.Context { return c.server.running }

// Park records that the handler begins to wait for an event: until it calls resume, its
// connection may be closed for another one.
func (c *Call) Park() (resume func()) { return connlimit.Park(c.ctx.Conn()) }

// Evicted reports whether the call's connection was closed for another one.
func (c *Call) Evicted() bool { return connlimit.Evicted(c.ctx.Conn()) }

// Gone reports whether nobody waits for the answer any more.
func (c *Call) Gone() bool { return connlimit.Closed(c.ctx.Conn()) }

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
		if err := c.send(status, out.JSON, out.on); err != nil {
			return err
		}
		c.done()
		return nil
	case interface{ Status() int }:
		status = out.Status()
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return c.send(status, body, nil)
}

// send answers with a body, and with the sheet that it is written on, if any. A
// small one is copied to memory that the connection uses again. A large one counts
// for the caller until it has left.
func (c *Call) send(status int, body []byte, on *sheet) error {
	if len(body) > limit.Small {
		held := c.taken
		if on == nil {
			held += cap(body)
		}
		if err := c.grow(held); err != nil {
			return c.unanswered(err)
		}
	}
	if c.status != 0 {
		status = c.status
	}
	c.ctx.SetStatusCode(status)
	if len(c.ctx.Response.Header.ContentType()) == 0 {
		c.ctx.SetContentType(jsonMedia)
	}
	if len(body) <= limit.Small {
		c.ctx.Response.SetBody(body)
		return nil
	}
	if on == nil {
		on = &sheet{b: body}
	} else {
		c.sheets = slices.DeleteFunc(c.sheets, func(s *sheet) bool { return s == on })
	}
	c.hold.Shrink(cap(on.b))
	on.hold, c.hold = c.hold, limit.Hold{}
	c.ctx.Response.SetBodyStream(on, len(body))
	return nil
}

// unanswered refuses to answer what was done already: that may only be said of a
// call that does nothing.
func (c *Call) unanswered(err error) error {
	if c.route.Method == fasthttp.MethodGet {
		return err
	}
	return parley.ErrOutcomeUnknown
}

const (
	jsonMedia = "application/json"
	formMedia = "application/x-www-form-urlencoded"
)
