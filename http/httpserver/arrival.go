package httpserver

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/buffer"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

// anonymousBodyMax bounds the body of a request from an unknown caller, so that its
// memory need not be counted against any account.
const anonymousBodyMax = limit.Small

// chunkedLength stands for the length of a chunked body. For such a body the engine
// passes on the raw bytes of the wire.
const chunkedLength = 1 << 30

// bodies decides how large a body may be, and whose account it counts against.
type bodies struct {
	auth  Authenticator
	large []*rest.Route // those with a bound of their own for bodies
}

// arriving checks a request whose header has arrived. The engine can reject an unread
// body only if the client asks whether to send it (Expect: 100-continue). So a request
// that must be rejected is made to look as if its client had asked.
func (s *Server) arriving(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	switch h.ContentLength() {
	case -1:
		h.SetContentLength(chunkedLength)
		c.MaxRequestBodySize = 1 // so many bytes the engine waits for itself
		return c
	case chunkedLength: // as announced, it is too much
		h.SetContentLength(chunkedLength + 1)
	}
	if !s.mayArrive(h) {
		h.Set(fasthttp.HeaderExpect, "100-continue")
	}
	return c
}

// expected decides whether a client that asks may send its body, and answers the request
// if it may not.
func (s *Server) expected(ctx *fasthttp.RequestCtx) int {
	if s.mayArrive(&ctx.Request.Header) {
		return fasthttp.StatusContinue
	}
	s.answerUnread(ctx, fasthttp.ErrBodyTooLarge)
	return ctx.Response.StatusCode()
}

// mayArrive checks the announced body. Only a known caller may send a large one. The
// length of a chunked body is checked as it arrives.
func (b *bodies) mayArrive(h *fasthttp.RequestHeader) bool {
	n := h.ContentLength()
	return n <= anonymousBodyMax || n == chunkedLength || n <= b.bodyMax(h) && b.known(h)
}

// largeRoutes returns the routes with a bound of their own for bodies.
func largeRoutes(all []rest.Route) (large []*rest.Route) {
	for i := range all {
		if all[i].BodyMax > 0 {
			large = append(large, &all[i])
		}
	}
	return large
}

// bodyMax returns how many bytes the body of a request may have, by its route.
func (b *bodies) bodyMax(h *fasthttp.RequestHeader) int {
	for _, r := range b.large {
		if r.Matches(h.Method(), h.RequestURI()) {
			return r.BodyMax
		}
	}
	return parley.BodyBytesMax
}

func (b *bodies) known(h *fasthttp.RequestHeader) bool {
	if b.auth == nil {
		return true
	}
	_, err := b.auth.Bearer(h.Peek(fasthttp.HeaderAuthorization))
	return err == nil
}

// receive reads the body of a request into a pooled buffer, as if the engine had read it.
// The buffer is closed when the request is answered. Memory is taken as the bytes arrive,
// whatever length was announced, and all but small bodies count against the caller. If
// there is no body, the buffer is nil.
func (s *Server) receive(ctx *fasthttp.RequestCtx, chunked bool) (on *buffer.Buffer, err error) {
	from := io.Reader(ctx.RequestBodyStream())
	if ctx.RequestBodyStream() == nil {
		return nil, nil
	}
	most := ctx.Request.Header.ContentLength()
	if chunked {
		most = 0 // until the first chunk is announced
		bound, bodyMax := anonymousBodyMax, s.bodyMax(&ctx.Request.Header)
		from = &chunks{from: from, single: s.single, may: func(total int) error {
			if total > bound && bound < bodyMax && s.known(&ctx.Request.Header) {
				bound = bodyMax
			}
			if most = total; total > bound {
				return fasthttp.ErrBodyTooLarge
			}
			return nil
		}}
	} else if most > anonymousBodyMax && most > s.bodyMax(&ctx.Request.Header) {
		return nil, fasthttp.ErrBodyTooLarge
	}
	on = buffer.New(0)
	wide := connlimit.Receiving{Conn: ctx.Conn()}
	defer func() { wide.End(&on.Hold) }()
	for {
		if len(on.Bytes) == cap(on.Bytes) && len(on.Bytes) < most {
			if err = s.grow(ctx, &on, min(2*cap(on.Bytes), most), wide.Extra); err != nil {
				return on, err
			}
			wide.Begin(&on.Hold, most)
		}
		n, err := from.Read(on.Bytes[len(on.Bytes):cap(on.Bytes)])
		on.Bytes = on.Bytes[:len(on.Bytes)+n]
		switch {
		case errors.Is(err, io.EOF) && (chunked || len(on.Bytes) == most):
			ctx.Request.SetBodyRaw(on.Bytes)
			return on, nil
		case err != nil:
			return on, cut(err)
		}
	}
}

// grow moves a body to a larger buffer, if its caller may hold that much. Its hold has extra bytes
// besides.
func (s *Server) grow(ctx *fasthttp.RequestCtx, on **buffer.Buffer, room, extra int) error {
	hold := &(*on).Hold
	if room > limit.Small && *hold == (limit.Hold{}) {
		*hold = s.host.Budget.Hold(s.account(ctx), connlimit.Evict(ctx.Conn()))
	}
	if !hold.Grow(buffer.Size(room) + extra) {
		return rest.ErrHeld
	}
	larger := buffer.New(room)
	larger.Bytes, larger.Hold = append(larger.Bytes, (*on).Bytes...), *hold
	*hold = limit.Hold{}
	(*on).Free()
	*on = larger
	return nil
}

// account returns the account that a body counts against: the organization of its caller.
func (b *bodies) account(ctx *fasthttp.RequestCtx) limit.Account {
	if b.auth != nil {
		if caller, err := b.auth.Bearer(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)); err == nil {
			return caller.Account()
		}
	}
	return limit.Account{Name: limit.AddressKey(rest.PeerOf(ctx.RemoteIP())), Anonymous: true}
}

// answerUnread answers a request that the engine could not read.
func (s *Server) answerUnread(ctx *fasthttp.RequestCtx, err error) {
	ctx.Response.Reset()
	id := s.begin(ctx)
	ctx.SetUserValue(requestIDKey, id)
	func() {
		defer s.recover(ctx, id)
		s.refuseUnread(ctx, id, err)
	}()
	if s.observe != nil {
		s.tell(ctx, id, time.Time{})
	}
}

// refuseUnread answers a request that could not be read completely, and closes its
// connection. If the body was too large for an unknown caller and the route needs a
// token, the answer is that of a missing or invalid token, as for any other request.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, id string, err error) {
	h := &ctx.Request.Header
	bodyMax := s.bodyMax(h)
	switch {
	case !errors.Is(err, fasthttp.ErrBodyTooLarge):
		s.refuse(ctx, nil, id, unread(err))
	case h.ContentLength() > bodyMax && h.ContentLength() != chunkedLength || s.known(h):
		s.refuse(ctx, nil, id, rest.Protocol(fasthttp.StatusRequestEntityTooLarge, "payload_too_large", fmt.Sprintf("The body is larger than %d MiB.", bodyMax>>20)))
	default:
		if _, err := s.guard(ctx); err != nil {
			s.refuse(ctx, nil, id, err)
			break
		}
		ctx.SetUserValue(unreadKey, true)
		s.router.Handler(ctx)
	}
	ctx.SetConnectionClose()
	ctx.Response.SkipBody = ctx.IsHead()
	connlimit.Linger(ctx.Conn())
}

// unread translates an error of reading a request.
func unread(err error) error {
	small := (*fasthttp.ErrSmallBuffer)(nil)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &small):
		return errHeadersSize
	case errors.As(err, &timeout) && timeout.Timeout():
		return errTooSlow
	case errors.Is(err, rest.ErrHeld):
		return rest.ErrHeld
	}
	return errUnparsable
}
