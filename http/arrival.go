package http

import (
	"github.com/valyala/fasthttp"

	"parley"
)

const (
	// strangersBodyMax bounds the body of a request whose caller is not known. The
	// engine makes room for a body as soon as it is announced, and waits for it as
	// long as for the request: what a stranger can make it reserve with a hundred
	// bytes must not be much.
	strangersBodyMax = 16 << 10
	// bodyKept is how large a body's memory may be to be kept for the next request.
	bodyKept = 256 << 10
)

// arriving says how large the body may be of a request whose head has come. Only
// a caller who is known may send what is large.
func (s *Server) arriving(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if s.mayBeLarge(h) {
		return fasthttp.RequestConfig{}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: strangersBodyMax}
}

func (s *Server) mayBeLarge(h *fasthttp.RequestHeader) bool {
	const chunked = -1
	if n := h.ContentLength(); n <= strangersBodyMax && n != chunked || n > parley.BodyBytesMax || s.auth == nil {
		return true
	}
	_, err := s.auth.Bearer(h.Peek(fasthttp.HeaderAuthorization))
	return err == nil
}

// tooLarge answers a request whose body is beyond its bound. That of a stranger
// was not read: where the route asks for a token, the want of one is what is
// wrong, and is said as of any other request.
func (s *Server) tooLarge(ctx *fasthttp.RequestCtx, id string) {
	h := &ctx.Request.Header
	if h.ContentLength() > parley.BodyBytesMax || s.mayBeLarge(h) {
		s.refuse(ctx, nil, id, errTooLarge)
		return
	}
	ctx.SetUserValue(unreadKey, true)
	s.dispatch(ctx, id)
}
