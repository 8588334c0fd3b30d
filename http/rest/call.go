package rest

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/buffer"
	"parley/http/connlimit"
	"parley/http/limit"
)

// Caller identifies the caller of a request: an organization, with one of its
// credentials.
type Caller struct {
	// Principal owns what the caller may act for.
	parley.Principal
	Slug     string
	ClientID parley.ClientID
	Scope    parley.Scope
	// Tier is the current trust tier, not the one at the time the token was issued.
	Tier int
	// Suspended: the organization may only read.
	Suspended bool
	// Erasing: the organization is being erased, or was, because a request with this token
	// asked for it. The caller may repeat that request and do nothing else.
	Erasing bool
	// Payer pays for what the organization's requests store.
	Payer *parley.Payer
	// Record is what the authenticator knows about the organization, for handlers. It is
	// shared between calls.
	Record any
}

// Account returns the account that the caller's memory counts against.
func (c *Caller) Account() limit.Account { return AccountOf(c.Org) }

// Name names the caller where what it sees is told apart: its organization, and its credential if
// that is limited to some agents.
func (c *Caller) Name() string {
	if c.Only == nil {
		return c.Org.String()
	}
	return c.Org.String() + " by " + c.ClientID.String()
}

// AccountOf returns the account that an organization's memory counts against.
func AccountOf(org parley.OrgID) limit.Account { return limit.Account{Name: string(org[:])} }

// Host is the state that all calls of a server share.
type Host struct {
	// Budget bounds the bytes of large bodies and answers. nil means no bound.
	Budget *limit.Budget
	// Source returns the address that a public request counts against.
	Source func(*Call) string
	// Resolve returns the id of the agent or the group with a handle. parley.ErrNotFound means
	// that there is none; nil means that no handle is known.
	Resolve func(*Call, parley.Handle) (parley.AnyID, error)
	Clock   parley.Clock
	// Draining is closed when the server begins to stop. Running ends when it no longer
	// waits for requests.
	Draining <-chan struct{}
	Running  context.Context
	// Observed: an observer reads what Note keeps.
	Observed bool
}

// Call is one request while its handler runs. Neither it nor the bytes that its methods
// return may be used afterwards, unless a method says that it returns a copy.
type Call struct {
	ctx     *fasthttp.RequestCtx
	host    *Host
	route   *Route
	id      string
	status  int
	buffers []*buffer.Buffer
	// held counts against the caller's memory budget, for taken bytes so far: the body
	// and the large buffers.
	held        limit.Hold
	taken, body int
	// GroupByHandle: the path names a group by its handle, which is no secret, unlike its id.
	GroupByHandle bool
	// running is what Context returns, nil until then.
	running context.Context
	// Caller is the zero Caller on routes that need no bearer token.
	Caller Caller
}

// NewCall returns the call of a request.
func NewCall(ctx *fasthttp.RequestCtx, host *Host, r *Route, id string) *Call {
	return &Call{ctx: ctx, host: host, route: r, id: id}
}

// TakeHold takes over the memory hold of the request's body.
func (c *Call) TakeHold(hold *limit.Hold) {
	c.held, c.taken, c.body, *hold = *hold, hold.Bytes(), hold.Bytes(), limit.Hold{}
}

// NoContent is a 204 answer without a body.
type NoContent struct{}

// Rendered is an answer that is already JSON.
type Rendered struct {
	// Code is the status; 0 means the route's own.
	Code int
	// JSON is sent unchanged.
	JSON   []byte
	packed bool // JSON is compressed by gzip
	// on is the buffer that holds JSON, if any.
	on *buffer.Buffer
}

// WriteBuffer fills a buffer with room for about size bytes. It is valid until the call
// is answered. The buffers of a refused call are not reused: an actor may still read
// them.
func (c *Call) WriteBuffer(size int, fill func([]byte) []byte) *buffer.Buffer {
	s := buffer.New(size)
	if s.Bytes = fill(s.Bytes[:0]); cap(s.Bytes) > limit.Small {
		c.taken += cap(s.Bytes)
	}
	c.buffers = append(c.buffers, s)
	return s
}

// Render renders the answer, of about size bytes.
func (c *Call) Render(size int, fill func([]byte) []byte) Rendered {
	on := c.WriteBuffer(size, fill)
	return Rendered{JSON: on.Bytes, on: on}
}

// done frees the buffers.
func (c *Call) done() {
	for _, s := range c.buffers {
		s.Free()
	}
	c.buffers = nil
}

// Reserve counts a buffer for the caller before it is written, and refuses it if the
// caller would hold too much. A small one does not count.
func (c *Call) Reserve(bytes int) error {
	if bytes <= limit.Small {
		return nil
	}
	return c.grow(c.taken + buffer.Size(bytes))
}

// grow raises the bytes counted for the caller to the given total.
func (c *Call) grow(to int) error {
	if c.host.Budget == nil {
		return nil
	}
	if c.held == (limit.Hold{}) {
		c.held = c.host.Budget.Hold(c.Account(), connlimit.Evict(c.ctx.Conn()))
	}
	if !c.held.Grow(to) {
		return ErrHeld
	}
	return nil
}

// Account returns the account that the memory of the call counts against.
func (c *Call) Account() limit.Account {
	if c.route.Access.NeedsToken() {
		return c.Caller.Account()
	}
	return limit.Account{Name: c.host.Source(c), Anonymous: true}
}

// ReleaseAnswer releases what the call holds for its answer, which will be replaced by a
// refusal, possibly after a delay.
func (c *Call) ReleaseAnswer() {
	c.buffers = nil // an actor may still read them
	c.held.Shrink(c.body)
}

// Release releases what the call holds, except what its answer holds.
func (c *Call) Release() { c.held.Release() }

// Route returns the route of the request.
func (c *Call) Route() *Route { return c.route }

// RequestID returns the X-Request-ID of the answer.
func (c *Call) RequestID() string { return c.id }

// Now returns the time of the server's clock.
func (c *Call) Now() time.Time { return c.host.Clock() }

// SetStatus overrides the route's status.
func (c *Call) SetStatus(code int) { c.status = code }

// SetHeader adds a header to the answer, refusals included.
func (c *Call) SetHeader(name, value string) { c.ctx.Response.Header.Set(name, value) }

// Header returns a copy of a request header, "" if absent.
func (c *Call) Header(name string) string { return string(c.ctx.Request.Header.Peek(name)) }

// Body returns the raw request body. It is overwritten after the handler returns.
func (c *Call) Body() []byte { return c.ctx.Request.Body() }

// OnlyReads reports whether the request leaves everything as it is: a handler that records what
// it returns as transferred must not do so then.
func (c *Call) OnlyReads() bool { return c.ctx.IsHead() || c.Caller.Scope == parley.ScopeRead }

// Peer returns the address of the other end of the connection.
func (c *Call) Peer() netip.Addr { return PeerOf(c.ctx.RemoteIP()) }

// PeerOf converts an address. An IPv4 address that is mapped into IPv6 becomes plain
// IPv4.
func PeerOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// RequestCtx returns fasthttp's context of the request, for handlers that write their own
// answer or hijack the connection.
func (c *Call) RequestCtx() *fasthttp.RequestCtx { return c.ctx }

// noteKey is the user value under which Note keeps its value.
type noteKey struct{}

// Note keeps a value for the server's observer.
func (c *Call) Note(v any) {
	if c.host.Observed {
		c.ctx.SetUserValue(noteKey{}, v)
	}
}

// Noted returns what Note has kept for a request, nil if nothing.
func Noted(ctx *fasthttp.RequestCtx) any { return ctx.UserValue(noteKey{}) }

// Draining is closed when the server begins to stop. A waiting handler then answers with
// what it has.
func (c *Call) Draining() <-chan struct{} { return c.host.Draining }

// Context ends when the server no longer waits for requests. It does not end when the
// client closes the connection. It has the caller's payer.
func (c *Call) Context() context.Context {
	if c.running == nil {
		c.running = c.host.Running
		if c.Caller.Payer != nil {
			c.running = parley.WithPayer(c.running, c.Caller.Payer)
		}
	}
	return c.running
}

// Park records that the handler begins to wait for an event: until it calls resume, its
// connection may be closed for another one.
func (c *Call) Park() (resume func()) { return connlimit.Park(c.ctx.Conn()) }

// Evicted reports whether the call's connection was closed for another one.
func (c *Call) Evicted() bool { return connlimit.Evicted(c.ctx.Conn()) }

// Gone reports whether the client no longer waits for the answer.
func (c *Call) Gone() bool { return connlimit.Closed(c.ctx.Conn()) }

// Answer sends an answer for a handler that writes its own.
func (c *Call) Answer(out Rendered) error { return c.answer(out) }

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
		if out.packed {
			c.ctx.Response.Header.SetContentEncoding("gzip")
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

// send answers with a body, and with the buffer that holds it, if any. A small body is
// copied to memory that the connection reuses. A large one counts for the caller until
// it has been sent.
func (c *Call) send(status int, body []byte, on *buffer.Buffer) error {
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
		c.ctx.SetContentType(cmp.Or(c.route.media, JSONMedia))
	}
	if len(body) <= limit.Small {
		c.ctx.Response.SetBody(body)
		return nil
	}
	connlimit.Charge(c.ctx.Conn(), c.Account())
	if on == nil {
		on = &buffer.Buffer{Bytes: body}
	} else {
		c.buffers = slices.DeleteFunc(c.buffers, func(s *buffer.Buffer) bool { return s == on })
	}
	c.held.Shrink(cap(on.Bytes))
	on.Hold, c.held = c.held, limit.Hold{}
	c.ctx.Response.SetBodyStream(on, len(body))
	return nil
}

// unanswered returns the refusal of an answer that turned out too large. Only for a
// request that changes nothing may the refusal state that nothing was done.
func (c *Call) unanswered(err error) error {
	if c.route.Method == fasthttp.MethodGet {
		return err
	}
	return parley.ErrOutcomeUnknown
}

// Media types.
const (
	JSONMedia = "application/json"
	formMedia = "application/x-www-form-urlencoded"
)

// RequestIDHeader is the header of the request id, which logs and error bodies also
// contain.
const RequestIDHeader = "X-Request-ID"

// RateHeaders state how many requests the caller has left, on every answer of a route
// with a rate limit.
var RateHeaders = [...]string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}

// ErrRateLimited rejects a request beyond its caller's rate.
var ErrRateLimited = parley.Refuse(parley.RateLimited, "rate_limited", "Too many requests. Try again later.")

// Target returns the path of the request and the query parameters that its route reads: what the
// answer may depend on.
func (c *Call) Target() string {
	target, pairs := slices.Clone(c.ctx.Path()), splitPairs(string(c.ctx.URI().QueryString()))
	for i := range c.route.plan.query {
		name, values := c.route.plan.query[i].find(pairs)
		for _, value := range values {
			target = append(append(append(append(target, '&'), name...), '='), value...)
		}
	}
	return string(target)
}

// SetRate sets the rate headers, and rejects a request beyond the limit.
func (c *Call) SetRate(s limit.Standing) error {
	if s.Limit == 0 {
		return nil
	}
	c.SetHeader(RateHeaders[0], strconv.Itoa(s.Limit))
	c.SetHeader(RateHeaders[1], strconv.Itoa(s.Remaining))
	c.SetHeader(RateHeaders[2], strconv.Itoa(limit.Seconds(s.Reset)))
	if !s.OK {
		return ErrRateLimited.With("retry_after", limit.Seconds(s.RetryAfter))
	}
	return nil
}
