package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// urlMax bounds the text of a target, in bytes.
const urlMax = 2048

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// Target is the destination of a post, as it is dialled and as it is sent in the request.
// The text is parsed only once, so that no later parser can read another host out of it.
// The zero Target names nothing.
type Target struct {
	url  url.URL
	host string     // lower-case ASCII name or canonical address, without brackets
	addr netip.Addr // valid when the host is an address
	port uint16
}

// ParseTarget parses a webhook's URL. It parses the host by the URL standard, as other
// software does: 0x7f.1, 2130706433 and 127.1. are 127.0.0.1. The path is kept, with
// characters escaped that are not allowed in a request line.
//
// The error is ErrTarget if the text is not a URL of an allowed scheme, has no host, or
// has user information or a fragment. It is ErrBlocked if the host is an address that is
// not public. Whether a name leads to a public address is checked by a Guard.
// // source: WHATWG URL, sections 3.5 and 4.4
func ParseTarget(text string, allow Allow) (Target, error) {
	return parse(text, allow, newFence(allow))
}

func parse(text string, allow Allow, fence fence) (Target, error) {
	if len(text) > urlMax {
		return Target{}, ErrTarget.Saying("The url is longer than " + strconv.Itoa(urlMax) + " bytes.")
	}
	scheme, rest, ok := strings.Cut(tidy(text), ":")
	if scheme = strings.ToLower(scheme); !ok || scheme != schemeHTTPS && !(scheme == schemeHTTP && allow.PlainHTTP) {
		return Target{}, ErrTarget.Saying("The url must be an https URL.")
	}
	rest = strings.TrimLeft(rest, `/\`)
	if strings.Contains(rest, "#") {
		return Target{}, ErrTarget.Saying("The url must not have a fragment.")
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, `/\?`); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	if strings.Contains(authority, "@") {
		return Target{}, ErrTarget.Saying("The url must not have user information.")
	}
	t, err := parseAuthority(authority, scheme)
	if err != nil {
		return Target{}, err
	}
	if err := t.finish(scheme, path); err != nil {
		return Target{}, err
	}
	if err := fence.admit(t); err != nil {
		return Target{}, err
	}
	return t, nil
}

// tidy removes what the URL standard removes: blanks and control characters at both ends,
// tabs and line breaks anywhere.
func tidy(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, text)
}

// parseAuthority parses host and port.
func parseAuthority(authority, scheme string) (Target, error) {
	name, port := authority, ""
	after := 0
	if strings.HasPrefix(authority, "[") {
		after = strings.Index(authority, "]") + 1
	}
	if colon := strings.Index(authority[after:], ":"); colon >= 0 {
		name, port = authority[:after+colon], authority[after+colon+1:]
	}
	number, ok := parsePort(port, scheme)
	if !ok {
		return Target{}, ErrTarget.Saying("The port of the url is not one.")
	}
	host, addr, err := parseHost(name)
	return Target{host: host, addr: addr, port: number}, err
}

// parsePort parses digits only. An empty port means the scheme's default.
func parsePort(text, scheme string) (uint16, bool) {
	if text == "" {
		return schemePort(scheme), true
	}
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0
}

func schemePort(scheme string) uint16 {
	if scheme == schemeHTTP {
		return 80
	}
	return 443
}

// finish assembles the URL from the parsed parts.
func (t *Target) finish(scheme, path string) error {
	path, query, hasQuery := strings.Cut(path, "?")
	escaped := escape(strings.ReplaceAll(path, `\`, "/"), "\"<>^`{}")
	if escaped == "" {
		escaped = "/"
	}
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return ErrTarget.Saying("The path of the url has a % that begins no escape.")
	}
	host := t.host
	if t.addr.Is6() {
		host = "[" + host + "]"
	}
	if t.port != schemePort(scheme) {
		host += ":" + strconv.Itoa(int(t.port))
	}
	t.url = url.URL{Scheme: scheme, Host: host, Path: plain, RawPath: escaped, RawQuery: escape(query, "\"<>'"), ForceQuery: hasQuery}
	return nil
}

// escape writes what is not printable ASCII, and the bytes of set, as %XX.
func escape(text, set string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(set, c) >= 0 {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// String is the target's URL in the form in which it is requested. Parsed again
// it gives the same target.
func (t Target) String() string { return t.url.String() }

// Host is the name or address that is dialled: lower-case ASCII, an address in
// its canonical form and without brackets.
func (t Target) Host() string { return t.host }

// Port is the port that is dialled.
func (t Target) Port() uint16 { return t.port }
