package httpserver

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/rest"
)

// guard rejects requests that a proxy in front and this server could interpret
// differently: ambiguous framing, ambiguous targets, and repeated headers that affect
// processing. It reports whether the body is chunked.
func (s *Server) guard(ctx *fasthttp.RequestCtx) (chunked bool, err error) {
	h := &ctx.Request.Header
	method := h.Method()
	protocol := string(h.Protocol())
	if protocol != "HTTP/1.1" && protocol != "HTTP/1.0" || string(method) == "PRI" {
		return false, errUnparsable
	}
	chunked, plain := plainHeaders(h.RawHeaders(), s.single)
	nameless := protocol == "HTTP/1.0" && len(h.Host()) == 0 // source: RFC 1945; some balancers probe so
	if !plain || !nameless && !plainHost(h.Host()) || !plainTarget(h.RequestURI(), string(method) == fasthttp.MethodOptions) {
		return false, errUnparsable
	}
	if chunked {
		ctx.SetConnectionClose() // the engine does not know where such a request ends
	}
	return chunked, nil
}

// plainTarget accepts only the origin form (and * for OPTIONS) and rejects paths that
// other software would normalize into other paths.
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
		case c == '%' && (i+2 >= len(path) || forbiddenOctet(path[i+1], path[i+2])):
			return false
		}
	}
	return true
}

// forbiddenOctet reports whether an octet must not be sent encoded (a backslash) or is not a
// valid encoding. No route serves a path with an encoded slash or NUL, which binding refuses with
// a better answer than that of invalid HTTP.
func forbiddenOctet(high, low byte) bool {
	if rest.Unhex(high) > 15 || rest.Unhex(low) > 15 {
		return true
	}
	return rest.Unhex(high)<<4|rest.Unhex(low) == '\\'
}

// dotSegment reports whether the path's next segment is . or .., however its dots are
// encoded.
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

// hostNameMax bounds a host name, in bytes: longer ones cannot be looked up.
const hostNameMax = 253

// plainHost accepts a name or an address, with or without a port.
// // source: RFC 9110 section 7.2
func plainHost(host []byte) bool {
	if len(host) > 0 && host[0] == '[' {
		end := bytes.IndexByte(host, ']')
		if end < 0 {
			return false
		}
		address, err := netip.ParseAddr(string(host[1:end]))
		return err == nil && address.Is6() && address.Zone() == "" && (end+1 == len(host) || host[end+1] == ':' && plainPort(host[end+2:]))
	}
	name, port, ported := bytes.Cut(host, []byte{':'})
	if len(name) == 0 || len(name) > hostNameMax || ported && !plainPort(port) {
		return false
	}
	for _, c := range name {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

func plainPort(port []byte) bool {
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(port) <= 5
}

// deciding are the headers of HTTP itself that must not be repeated.
var deciding = [...]string{"content-length", "transfer-encoding", "host", "content-type", "authorization"}

const (
	seenLength = 1 << iota
	seenEncoding
)

// singleHeaders returns all headers that must not be repeated: those of HTTP and those
// that routes bind.
func singleHeaders(routes []rest.Route) []string {
	names := deciding[:]
	for i := range routes {
		for _, header := range routes[i].Headers() {
			if name := strings.ToLower(header); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// plainHeaders checks the raw header block: complete lines, none folded, names without
// spaces, no transfer coding but chunked, no Content-Length with it, and no header of
// single twice. It reports whether the body is chunked.
func plainHeaders(block []byte, single []string) (chunked, plain bool) {
	var seen uint64
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte{'\n'})
		block = rest
		if len(line) == 0 || line[len(line)-1] != '\r' || line[0] == ' ' || line[0] == '\t' {
			return false, false
		}
		name, value, _ := bytes.Cut(line[:len(line)-1], []byte{':'})
		if bytes.IndexByte(name, ' ') >= 0 {
			return false, false
		}
		for i := range single {
			if len(name) != len(single[i]) || !bytes.EqualFold(name, []byte(single[i])) {
				continue
			}
			if seen&(1<<i) != 0 {
				return false, false
			}
			seen |= 1 << i
			if 1<<i == seenEncoding && !bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked")) {
				return false, false
			}
		}
	}
	return seen&seenEncoding != 0, seen&(seenLength|seenEncoding) != seenLength|seenEncoding
}

// begin sets the headers that every answer has, and returns the request id.
func (s *answers) begin(ctx *fasthttp.RequestCtx) string {
	id := s.requestID(ctx.Request.Header.Peek(rest.RequestIDHeader))
	h := &ctx.Response.Header
	h.SetCanonical(headerRequestID, []byte(id))
	h.SetCanonical(headerNoSniff, valueNoSniff)
	h.SetCanonical(headerReferrer, valueNoReferrer)
	if s.origins != nil {
		s.origins.permit(ctx)
	}
	return id
}

// The headers that every answer has, as they are sent.
var (
	headerRequestID = []byte("X-Request-Id")
	headerNoSniff   = []byte(fasthttp.HeaderXContentTypeOptions)
	valueNoSniff    = []byte("nosniff")
	headerReferrer  = []byte(fasthttp.HeaderReferrerPolicy)
	valueNoReferrer = []byte("no-referrer")
)

// requestID returns the client's id if it is safe in headers and logs, else a new one.
func (s *answers) requestID(supplied []byte) string {
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
