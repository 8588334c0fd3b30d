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

// tooLarge is what is said of a body beyond its bound.
func (s *Server) tooLarge(h *fasthttp.RequestHeader) error {
	if h.ContentLength() <= parley.BodyBytesMax && !s.mayBeLarge(h) {
		return errStranger
	}
	return errTooLarge
}
