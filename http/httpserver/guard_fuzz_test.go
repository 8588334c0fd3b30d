package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	stdhttp "net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley/http/rest"
)

// FuzzTarget: a path that is accepted means the same to a reader that decodes it and to
// one that removes dot segments. One with an encoded slash or NUL is accepted to be refused by
// binding, see TestEncodedSlash.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{
		"/a/b?c", "/%2e/", "//", "/a%", "/%00", "*", "", "/..", "/.%2E/x", "/a/%2e%2E", "/a/...", "/%252e%252e/", "/a%2Fb", "/a%5cb", "/a\\b", "/#", "/?#", "/a?//..%2f", "http://h/", "/\x7f", "/é", "/a/./b", "/a;/../b", "/%c0%ae%c0%ae/",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if !plainTarget([]byte(target), false) {
			return
		}
		path, _, _ := strings.Cut(target, "?")
		if decoded, ok := unescape(path); ok && (strings.Count(decoded, "/") != strings.Count(path, "/") || strings.Contains(decoded, "\x00")) {
			return
		}
		for _, segment := range strings.Split(path, "/") {
			decoded, ok := unescape(segment)
			if ok && (decoded == "." || decoded == ".." || strings.Contains(decoded, "\\")) {
				t.Errorf("%q is accepted", target)
			}
		}
		if u, err := url.ParseRequestURI(target); err == nil && (u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") || u.JoinPath().Path != u.Path) {
			t.Errorf("%q is accepted; other readers parse %#v and clean it to %q", target, u, u.JoinPath().Path)
		}
	})
}

// FuzzHost: a Host that is accepted is a name or an address, with or without a port, in
// which no other reader finds a user, a path or a list.
func FuzzHost(f *testing.F) {
	for _, host := range []string{
		"acme.example.org", "localhost:8080", "127.0.0.1", "[::1]:443", "[::1]", "a_b", "ACME.example.", "h:", "", ":", ":80", "a:b", "a:99999", "a:999999", "[::1", "::1", "[::1]x", "[fe80::1%25eth0]", "[127.0.0.1]",
		"user@h", "h/x", "h\\x", "h#x", "h?x", "a,b", "a b", "a\tb", "a\r\nX: y", "\x00", "é", "%61", "a..b", "*", strings.Repeat("a", 253), strings.Repeat("a", 254),
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !plainHost([]byte(host)) {
			return
		}
		if strings.ContainsAny(host, "@/\\#?, \t\r\n\x00%") || strings.ContainsFunc(host, func(r rune) bool { return r > '~' || r <= ' ' }) {
			t.Fatalf("%q is accepted", host)
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.Host != host || u.User != nil || u.Path != "/" || u.Hostname() == "" {
			t.Fatalf("%q is accepted; other readers parse %#v, %v", host, u, err)
		}
		if strings.HasPrefix(host, "[") {
			if a, err := netip.ParseAddr(u.Hostname()); err != nil || !a.Is6() {
				t.Fatalf("%q is accepted: %v, %v", host, a, err)
			}
		}
	})
}

// script is a connection whose client sends fixed bytes and closes its side.
type script struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return &toyAddress }
func (s *script) RemoteAddr() net.Addr             { return &toyAddress }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// served is a request as the handler received it.
type served struct{ method, target, host, body string }

// listening is a server that records the requests it has read and accepted.
func listening(t testing.TB, routes []rest.Route, auth Authenticator) (*Server, *[]served) {
	t.Helper()
	s, err := New(Options{Routes: routes, Authenticator: auth, Clock: time.Now, NewRequestID: func() string { return "id" }})
	if err != nil {
		t.Fatal(err)
	}
	var seen []served
	handle := s.handle
	s.handle = func(ctx *fasthttp.RequestCtx) {
		r := &ctx.Request
		seen = append(seen, served{string(r.Header.Method()), string(r.Header.RequestURI()), string(r.Header.Host()), string(r.Body())})
		handle(ctx)
	}
	return s, &seen
}

// disagreement describes how another reader of the same bytes differs from what was
// served. It returns "" if there is no difference.
func disagreement(said []byte, seen []served) string {
	in := bufio.NewReader(bytes.NewReader(said))
	for _, got := range seen {
		for { // skip empty lines before a request
			b, _ := in.Peek(2)
			empty := bytes.IndexByte(b, '\n') + 1
			if empty == 0 || empty == 2 && b[0] != '\r' {
				break
			}
			_, _ = in.Discard(empty)
		}
		other, err := stdhttp.ReadRequest(in)
		if err != nil {
			return "another reader refuses it: " + err.Error()
		}
		body, err := io.ReadAll(other.Body)
		if err != nil {
			return "another reader refuses its body: " + err.Error()
		}
		if want := (served{other.Method, other.RequestURI, other.Host, string(body)}); want != got {
			return "another reader sees " + want.method + " " + want.target + " of " + want.host + " with " + want.body
		}
	}
	return ""
}

// FuzzRequests: for any bytes on a connection, the answers are valid HTTP, none is a
// 5xx, an answer that closes the connection is the last, and the requests served are
// those that another reader finds in the same bytes. Request smuggling needs the last
// rule to fail.
func FuzzRequests(f *testing.F) {
	s, seen := listening(f, toyRoutes(), toyAuth{})
	get := "GET /things/public HTTP/1.1\r\nHost: toy\r\n\r\n"
	for _, head := range []string{
		"Content-Length: 2\r\n\r\n{}", "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "Content-Length: 2, 2\r\n\r\n{}", "Content-Length: +2\r\n\r\n{}", "Content-Length : 2\r\n\r\n{}", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: identity\r\n\r\n", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nTrailer: x\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n", "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n", "X: a\r\n b\r\n\r\n", "X: a\rb\r\n\r\n", "X: a\nY: b\r\n\r\n", "X Y: b\r\n\r\n", ": b\r\n\r\n", "X\r\n\r\n",
		"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "Connection: close\r\n\r\n", "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n{}", "Content-Length: 99999999999999999999\r\n\r\n", "Content-Length: 2097152\r\n\r\n", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n\xff\xfe",
	} {
		f.Add([]byte("POST /token HTTP/1.1\r\nHost: toy\r\nAuthorization: Basic good\r\n" + head + get))
		f.Add([]byte("GET /things/public HTTP/1.1\r\nHost: toy\r\n" + head + get))
	}
	for _, line := range []string{"GET / HTTP/1.1", "GET http://toy/ HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT toy:80 HTTP/1.1", "PRI * HTTP/2.0", "GET / HTTP/1.0", "GET / HTTP/1.2", "GET /", "\r\nGET / HTTP/1.1", "HEAD /things/public HTTP/1.1", "GET /a b HTTP/1.1", "G\x00T / HTTP/1.1", "GET / HTTP/1.1\n", "\n0 / HTTP/1.0", "get /things/public HTTP/1.1", "POST /%0X00 HTTP/1.0", "GET /% HTTP/1.1"} {
		f.Add([]byte(line + "\r\nHost: toy\r\n\r\n" + get))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		*seen = (*seen)[:0]
		conn := &script{in: bytes.NewReader(said)}
		if bytes.Contains(said, []byte("/slow")) || bytes.Contains(said, []byte("/fail/")) {
			return // it waits, or fails on purpose
		}
		_ = s.engine.ServeConn(conn)
		if complaint := disagreement(said, *seen); complaint != "" {
			t.Fatalf("%q was served as %+v; %s", said, *seen, complaint)
		}
		if complaint := unanswered(conn.out.Bytes(), *seen); complaint != "" {
			t.Fatalf("%q: %s:\n%q", said, complaint, conn.out.Bytes())
		}
	})
}

// unanswered describes what is wrong with the answers to some requests, or returns "".
func unanswered(out []byte, seen []served) string {
	in, closed := bufio.NewReader(bytes.NewReader(out)), false
	for n := 0; ; n++ {
		if _, err := in.Peek(1); err == io.EOF {
			if n < len(seen) {
				return "a request that was served has no answer"
			}
			return ""
		}
		method := "GET"
		if n < len(seen) {
			method = seen[n].method
		}
		answer, err := stdhttp.ReadResponse(in, &stdhttp.Request{Method: method})
		for err == nil && answer.StatusCode == 100 {
			answer, err = stdhttp.ReadResponse(in, &stdhttp.Request{Method: method})
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return ""
		default:
			return "not an answer: " + err.Error()
		}
		if closed {
			return "an answer after one that closes"
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return "not a whole answer: " + err.Error()
		}
		if answer.StatusCode >= 500 || answer.Header.Get("X-Request-Id") == "" && answer.StatusCode != 200 {
			return "answered " + answer.Status
		}
		closed = answer.Close && answer.ProtoAtLeast(1, 1)
	}
}

// TestFuzzRequestsControl: both checks detect errors.
func TestFuzzRequestsControl(t *testing.T) {
	const two = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
	right := []served{{"POST", "/a", "h", "{}"}, {"GET", "/b", "h", ""}}
	if complaint := disagreement([]byte(two), right); complaint != "" {
		t.Errorf("two plain requests: %s", complaint)
	}
	for name, seen := range map[string][]served{
		"a body that is not there": {{"POST", "/a", "h", "{}G"}}, "a request that is not there": append(right, served{"GET", "/c", "h", ""}), "another host": {{"POST", "/a", "evil", "{}"}},
	} {
		if disagreement([]byte(two), seen) == "" {
			t.Errorf("%s is not detected", name)
		}
	}
	const fine, bad = "HTTP/1.1 404 Not Found\r\nX-Request-Id: a\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 500 Internal Server Error\r\nX-Request-Id: a\r\nContent-Length: 0\r\n\r\n"
	for out, want := range map[string]bool{fine: true, fine + fine: true, bad: false, fine + bad: false, "nonsense\r\n\r\n": false, "": false, strings.Replace(fine, "Content", "Connection: close\r\nContent", 1) + fine: false} {
		if (unanswered([]byte(out), right[:1]) == "") != want {
			t.Errorf("%q: %s", out, unanswered([]byte(out), right[:1]))
		}
	}
}

// toyAddress is the address of connections without a network.
var toyAddress = net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

func unescape(segment string) (string, bool) {
	text, err := url.PathUnescape(segment)
	return text, err == nil
}
