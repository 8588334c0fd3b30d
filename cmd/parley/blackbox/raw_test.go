package blackbox

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// rawRequest sends bytes as they are and gives all that comes back until the
// server closes or is silent for half a second.
func (s *server) rawRequest(t testing.TB, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }()
	var got strings.Builder
	buf := make([]byte, 64<<10)
	wait := 5 * time.Second
	for {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			return got.String()
		}
		wait = 500 * time.Millisecond
	}
}

// attack is a raw request and what must come of it.
type attack struct {
	name, request string
	// want lists status codes that are right; "" is a connection closed
	// without an answer.
	want string
}

const smuggled = "GET /version HTTP/1.1\r\nHost: h\r\n\r\n"

func framing(line string, headers ...string) string {
	return line + "\r\n" + strings.Join(append([]string{"Host: h"}, headers...), "\r\n") + "\r\n\r\n"
}

func attacks() []attack {
	post := func(headers ...string) string {
		return framing("POST /oauth/token HTTP/1.1", headers...)
	}
	return []attack{
		{"length and chunked", post("Content-Length: 4", "Transfer-Encoding: chunked") + "0\r\n\r\n" + smuggled, "400"},
		{"chunked and length", post("Transfer-Encoding: chunked", "Content-Length: 4") + "0\r\n\r\n" + smuggled, "400"},
		{"two lengths", post("Content-Length: 0", "Content-Length: 38") + smuggled, "400"},
		{"length list", post("Content-Length: 0, 38") + smuggled, "400"},
		{"negative length", post("Content-Length: -1") + smuggled, "400"},
		{"signed length", post("Content-Length: +0") + smuggled, "400"},
		{"hex length", post("Content-Length: 0x0") + smuggled, "400"},
		{"huge length", post("Content-Length: 99999999999999999999"), "400 413"},
		{"space before colon", post("Content-Length : 0") + smuggled, "400"},
		{"unknown coding", post("Transfer-Encoding: xchunked") + smuggled, "400 501"},
		{"chunked twice", post("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "0\r\n\r\n" + smuggled, "400 501"},
		{"bad chunk size", post("Transfer-Encoding: chunked") + "zz\r\nab\r\n0\r\n\r\n" + smuggled, "400"},
		{"folded header", framing("GET /health HTTP/1.1", "X-A: 1\r\n 2"), "400"},
		{"folded header by tab", framing("GET /health HTTP/1.1", "X-A: 1\r\n\t2"), "400"},
		{"folded first header", "GET /health HTTP/1.1\r\n X-A: 1\r\nHost: h\r\n\r\n", "400"},
		{"absolute form", framing("GET http://h/health HTTP/1.1"), "400"},
		{"absolute form, other host", framing("GET http://evil.example/health HTTP/1.1"), "400"},
		{"authority form", framing("CONNECT h:80 HTTP/1.1"), "400 404 405 501"},
		{"no path", framing("GET health HTTP/1.1"), "400"},
		{"dots", framing("GET /agents/../health HTTP/1.1"), "400"},
		{"dots at the end", framing("GET /health/.. HTTP/1.1"), "400"},
		{"encoded dots", framing("GET /agents/%2e%2e/health HTTP/1.1"), "400"},
		{"double slash", framing("GET //health HTTP/1.1"), "400"},
		{"double slash inside", framing("GET /agents//keys HTTP/1.1"), "400"},
		{"encoded slash", framing("GET /agents%2fkeys HTTP/1.1"), "400"},
		{"encoded slash in capitals", framing("GET /agents%2Fkeys HTTP/1.1"), "400"},
		{"encoded backslash", framing("GET /agents%5ckeys HTTP/1.1"), "400"},
		{"encoded zero", framing("GET /health%00 HTTP/1.1"), "400"},
		{"two hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{"no host", "GET /health HTTP/1.1\r\nX: y\r\n\r\n", "400"},
		{"zero in a header", framing("GET /health HTTP/1.1", "X-A: a\x00b"), "400"},
		{"bare carriage return", framing("GET /health HTTP/1.1", "X-A: a\rb"), "400"},
		{"header without colon", framing("GET /health HTTP/1.1", "nonsense"), "400"},
		{"header without name", framing("GET /health HTTP/1.1", ": value"), "400"},
		{"unknown version", framing("GET /health HTTP/9.9"), "400 505"},
		{"no version", "GET /health\r\n\r\n", "400"},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 404 405 505"},
		{"huge header", framing("GET /health HTTP/1.1", "X-A: "+strings.Repeat("a", 200<<10)), "400 431"},
		{"huge target", framing("GET /health?" + strings.Repeat("a", 200<<10) + " HTTP/1.1"), "400 414 431"},
	}
}

func TestRawRequests(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		got := together(len(attacks()), func(i int) string { return s.rawRequest(t, attacks()[i].request) })
		for i, a := range attacks() {
			status := ""
			if rest, ok := strings.CutPrefix(got[i], "HTTP/1.1 "); ok {
				status = rest[:3]
			}
			switch {
			case status == "" && got[i] != "":
				t.Errorf("%s: not an HTTP answer: %.200q", a.name, got[i])
			case status != "" && !strings.Contains(a.want, status):
				t.Errorf("%s: want %s, got %.300q", a.name, a.want, got[i])
			case strings.Count(got[i], "HTTP/1.1 ") > 1:
				t.Errorf("%s: one request, several answers: %.600q", a.name, got[i])
			}
		}
		s.call(t, "", "GET", "/health", nil).want(200)
	})
}

func TestRawRequestsThatAreFine(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		pipelined := s.rawRequest(t, framing("GET /health HTTP/1.1")+framing("GET /version HTTP/1.1", "Connection: close"))
		if strings.Count(pipelined, "HTTP/1.1 200 ") != 2 {
			t.Errorf("two requests on one connection: %.600q", pipelined)
		}
		old := s.rawRequest(t, "GET /health HTTP/1.0\r\nHost: h\r\n\r\n")
		if !strings.Contains(old, " 200 ") {
			t.Errorf("HTTP/1.0: %.300q", old)
		}
		chunked := s.rawRequest(t, framing("POST /auth/register HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close")+"2\r\n{}\r\n0\r\n\r\n")
		if !strings.HasPrefix(chunked, "HTTP/1.1 422 ") {
			t.Errorf("a chunked body: %.300q", chunked)
		}
		waiting := s.rawRequest(t, framing("POST /auth/register HTTP/1.1", "Content-Length: 2", "Expect: 100-continue", "Connection: close")+"{}")
		if !strings.Contains(waiting, "HTTP/1.1 422 ") {
			t.Errorf("Expect: 100-continue: %.300q", waiting)
		}
		query := s.rawRequest(t, framing("GET /health?a=//..%2f HTTP/1.1", "Connection: close"))
		if !strings.HasPrefix(query, "HTTP/1.1 200 ") {
			t.Errorf("odd bytes in the query are nobody's business: %.300q", query)
		}
	})
}
