package httpserver

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"parley"
	"parley/http/buffer"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

// strangersBodyMax bounds the body of a request whose caller is not known: what
// anybody can make the server hold must not be counted for anybody.
const strangersBodyMax = limit.Small

// chunkedLength stands for the length of a chunked body, of which the engine then
// hands over the bytes as they are on the wire.
const chunkedLength = 1 << 30

// arriving judges a request whose head has come. The engine has no way to refuse a
// body unread but for those who ask whether to send it: one that must not arrive is
// made to look as if its sender had asked.
func (s *Server) arriving(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	if h.ContentLength() == -1 {
		h.SetContentLength(chunkedLength)
		c.MaxRequestBodySize = 1 // so many bytes the engine waits for itself
	} else if !s.mayArrive(h) {
		h.Set(fasthttp.HeaderExpect, "100-continue")
	}
	return c
}

// expected says whether a body may come that its sender asks about, and answers
// the request if it must not.
func (s *Server) expected(ctx *fasthttp.RequestCtx) int {
	if s.mayArrive(&ctx.Request.Header) {
		return fasthttp.StatusContinue
	}
	s.answerUnread(ctx, fasthttp.ErrBodyTooLarge)
	return ctx.Response.StatusCode()
}

// mayArrive judges the body that is announced. Only a caller who is known may send
// what is large. The length of a chunked one is judged as it comes.
func (s *Server) mayArrive(h *fasthttp.RequestHeader) bool {
	n := h.ContentLength()
	return n <= strangersBodyMax || n == chunkedLength || n <= parley.BodyBytesMax && s.known(h)
}

func (s *Server) known(h *fasthttp.RequestHeader) bool {
	if s.auth == nil {
		return true
	}
	_, err := s.auth.Bearer(h.Peek(fasthttp.HeaderAuthorization))
	return err == nil
}

// receive reads the body of a request, which is then at hand as if the engine had
// read it, on a sheet that is closed when the request is answered. It takes memory
// as its bytes come, whatever length was announced, and what is more than little of
// it counts for its caller. Without a body there is no sheet.
func (s *Server) receive(ctx *fasthttp.RequestCtx, chunked bool) (on *buffer.Buffer, err error) {
	from := io.Reader(ctx.RequestBodyStream())
	if ctx.RequestBodyStream() == nil {
		return nil, nil
	}
	most := ctx.Request.Header.ContentLength()
	if chunked {
		most = 0 // until the first chunk is announced
		bound := strangersBodyMax
		from = &chunks{from: from, single: s.single, may: func(total int) error {
			if total > bound && bound < parley.BodyBytesMax && s.known(&ctx.Request.Header) {
				bound = parley.BodyBytesMax
			}
			if most = total; total > bound {
				return fasthttp.ErrBodyTooLarge
			}
			return nil
		}}
	} else if most > parley.BodyBytesMax {
		return nil, fasthttp.ErrBodyTooLarge
	}
	on = buffer.New(0)
	for {
		if len(on.Bytes) == cap(on.Bytes) && len(on.Bytes) < most {
			if err = s.grow(ctx, &on, min(2*cap(on.Bytes), most)); err != nil {
				return on, err
			}
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

// grow has a body go on on a larger sheet, if its caller may hold that much.
func (s *Server) grow(ctx *fasthttp.RequestCtx, on **buffer.Buffer, room int) error {
	hold := &(*on).Hold
	if room > limit.Small && *hold == (limit.Hold{}) {
		*hold = s.host.Budget.Hold(s.account(ctx), connlimit.Evict(ctx.Conn()))
	}
	if !hold.Grow(buffer.Size(room)) {
		return rest.ErrHeld
	}
	larger := buffer.New(room)
	larger.Bytes, larger.Hold = append(larger.Bytes, (*on).Bytes...), *hold
	*hold = limit.Hold{}
	(*on).Free()
	*on = larger
	return nil
}

// account is who a body counts for: the organization of its caller.
func (s *Server) account(ctx *fasthttp.RequestCtx) limit.Account {
	if s.auth != nil {
		if caller, err := s.auth.Bearer(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)); err == nil {
			return caller.Account()
		}
	}
	return limit.Account{Name: limit.AddressKey(rest.PeerOf(ctx.RemoteIP())), Stranger: true}
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

// refuseUnread says what kept a request from being read whole, and ends its
// connection. Where the body was too large for a stranger and the route asks for a
// token, the want of one is what is wrong, and is said as of any other request.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, id string, err error) {
	h := &ctx.Request.Header
	switch {
	case !errors.Is(err, fasthttp.ErrBodyTooLarge):
		s.refuse(ctx, nil, id, unread(err))
	case h.ContentLength() > parley.BodyBytesMax && h.ContentLength() != chunkedLength || s.known(h):
		s.refuse(ctx, nil, id, errTooLarge)
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

// unread is what a failure to read a request is told as.
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
