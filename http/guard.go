package http

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"parley"
)

// guard refuses requests that two parties in a row could read differently, so
// that what a proxy in front has let through is what is served here: ambiguous
// framing, ambiguous targets, repeated headers that decide something.
func guard(ctx *fasthttp.RequestCtx) error {
	h := &ctx.Request.Header
	method := h.Method()
	if protocol := string(h.Protocol()); protocol != "HTTP/1.1" && protocol != "HTTP/1.0" || string(method) == "PRI" {
		return errUnparsable
	}
	if len(h.Host()) == 0 || !plainTarget(h.RequestURI(), string(method) == fasthttp.MethodOptions) || !plainHeaders(h.RawHeaders()) {
		return errUnparsable
	}
	return nil
}

// plainTarget accepts only the origin form (and * for OPTIONS) and refuses
// paths that some reader would normalise into other paths.
func plainTarget(target []byte, options bool) bool {
	if options && string(target) == "*" {
		return true
	}
	path, _, _ := bytes.Cut(target, []byte{'?'})
	if len(path) == 0 || path[0] != '/' || bytes.IndexByte(target, '#') >= 0 {
		return false
	}
	for i, c := range path {
		switch {
		case c == '\\' || c <= ' ' || c == 0x7f:
			return false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || dotSegment(path[i+1:])):
			return false
		case c == '%' && i+2 < len(path) && forbiddenOctet(unhex(path[i+1])<<4|unhex(path[i+2])&15, path[i+1:i+3]):
			return false
		}
	}
	return true
}

// forbiddenOctet names what must not arrive encoded: NUL, slash, backslash.
func forbiddenOctet(octet byte, digits []byte) bool {
	if unhex(digits[0]) > 15 || unhex(digits[1]) > 15 {
		return false
	}
	return octet == 0 || octet == '/' || octet == '\\'
}

// dotSegment reports whether the path's next segment is . or .., however its
// dots are written.
func dotSegment(rest []byte) bool {
	dots := 0
	for len(rest) > 0 && rest[0] != '/' {
		switch {
		case rest[0] == '.':
			rest = rest[1:]
		case len(rest) > 2 && rest[0] == '%' && rest[1] == '2' && rest[2]|0x20 == 'e':
			rest = rest[3:]
		default:
			return false
		}
		dots++
	}
	return dots == 1 || dots == 2
}

// single are the headers that must not come twice.
var single = [...]string{"host", "content-length", "transfer-encoding", "content-type", "authorization", "idempotency-key", "last-event-id"}

// plainHeaders reads the header block as it came: no folded lines, no
// Content-Length beside a Transfer-Encoding, nothing decisive twice.
func plainHeaders(block []byte) bool {
	var seen [len(single)]bool
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte{'\n'})
		block = rest
		if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			return false
		}
		name, _, _ := bytes.Cut(line, []byte{':'})
		for i := range single {
			if len(name) != len(single[i]) || !bytes.EqualFold(name, []byte(single[i])) {
				continue
			}
			if seen[i] {
				return false
			}
			seen[i] = true
		}
	}
	return !(seen[1] && seen[2])
}

// unreadable answers what could not be read as a request at all.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	small := (*fasthttp.ErrSmallBuffer)(nil)
	var timeout interface{ Timeout() bool }
	answer := errUnparsable
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		answer = errTooLarge
	case errors.As(err, &small):
		answer = errHeadersSize
	case errors.As(err, &timeout) && timeout.Timeout():
		answer = errTooSlow
	}
	ctx.Response.Reset()
	id := s.begin(ctx)
	s.refuse(ctx, nil, id, answer)
	ctx.SetConnectionClose()
	if s.observe != nil {
		s.observe(nil, ctx.Response.StatusCode(), 0)
	}
}

// begin puts on an answer what every answer bears, and returns the request id.
func (s *Server) begin(ctx *fasthttp.RequestCtx) string {
	id := s.requestID(ctx.Request.Header.Peek(requestIDHeader))
	h := &ctx.Response.Header
	h.SetCanonical(headerRequestID, []byte(id))
	h.SetCanonical(headerNoSniff, valueNoSniff)
	h.SetCanonical(headerReferrer, valueNoReferrer)
	return id
}

// What every answer bears, as it stands on the wire.
var (
	headerRequestID = []byte("X-Request-Id")
	headerNoSniff   = []byte(fasthttp.HeaderXContentTypeOptions)
	valueNoSniff    = []byte("nosniff")
	headerReferrer  = []byte(fasthttp.HeaderReferrerPolicy)
	valueNoReferrer = []byte("no-referrer")
)

const requestIDHeader = "X-Request-ID"

// requestID echoes an id that is safe to write into headers and logs.
func (s *Server) requestID(supplied []byte) string {
	if len(supplied) == 0 || len(supplied) > parley.RequestIDMax {
		return s.newRequestID()
	}
	for _, c := range supplied {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == ':' || c == '-') {
			return s.newRequestID()
		}
	}
	return string(supplied)
}
