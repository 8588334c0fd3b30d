package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// served starts a net/http server and connects to it.
func served(t testing.TB, handler http.HandlerFunc) *HTTP {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return connected(t, server.Listener.Addr().String())
}

func connected(t testing.TB, address string) *HTTP {
	t.Helper()
	c, err := DialHTTP(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// scripted accepts one connection after the other and passes them to play. It serves
// answers that net/http would never send.
func scripted(t testing.TB, play func(conn net.Conn, in *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				play(conn, bufio.NewReader(conn))
			}()
		}
	}()
	return listener.Addr().String()
}

// answering reads a request without a body for each of the answers, and sends that
// answer.
func answering(t testing.TB, answers ...string) *HTTP {
	t.Helper()
	return connected(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
		for _, answer := range answers {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			io.WriteString(conn, answer)
		}
	}))
}

func get() []byte { return Request("GET", "/", "", nil, nil) }

func TestRequestIsWhatTheServerSees(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s %d %s %v", r.Method, r.URL.RequestURI(), r.Host, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.ContentLength, body, err)
	})
	for _, test := range []struct {
		request []byte
		want    string
	}{
		{Request("POST", "/messages?a=b", "tok", [][2]string{{"X-A", "1"}}, []byte(`{"a":1}`)), `POST /messages?a=b localhost Bearer tok application/json 7 {"a":1} <nil>`},
		{Request("POST", "/x", "", nil, nil), "POST /x localhost   0  <nil>"},
		{Request("GET", "/x", "", nil, nil), "GET /x localhost   0  <nil>"},
	} {
		answer, err := c.Do(test.request)
		if err != nil || answer.Status != 200 || string(answer.Body) != test.want {
			t.Errorf("got %d %q %v, want %q", answer.Status, answer.Body, err, test.want)
		}
	}
}

func TestRequestRefusesLineBreaks(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a token with a line break was written to a request")
		}
	}()
	Request("GET", "/", "tok\r\nX-Admin: 1", nil, nil)
}

// TestDoReusesOneConnection sends every form of answer that net/http makes over one
// connection, so that the next answer also checks the state after the previous one.
func TestDoReusesOneConnection(t *testing.T) {
	ports := map[string]bool{}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		ports[r.RemoteAddr] = true
		switch r.URL.Path {
		case "/counted":
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			w.Write(large)
		case "/chunked":
			io.WriteString(w, "at once, ")
			w.(http.Flusher).Flush()
			w.Write(large)
			w.Header().Set(http.TrailerPrefix+"Checksum", "17")
		case "/empty":
			w.WriteHeader(204)
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "/early":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(201)
			io.WriteString(w, "made")
		}
	})
	for range 3 {
		for _, test := range []struct {
			method, path string
			status       int
			body, retry  string
		}{
			{"GET", "/counted", 200, string(large), ""},
			{"GET", "/chunked", 200, "at once, " + string(large), ""},
			{"GET", "/empty", 204, "", ""},
			{"POST", "/busy", 429, "", "7"},
			{"POST", "/early", 201, "made", ""},
		} {
			answer, err := c.Do(Request(test.method, test.path, "", nil, nil))
			if err != nil || answer.Status != test.status || string(answer.Body) != test.body || answer.Header("Retry-After") != test.retry {
				t.Fatalf("%s %s: got %d, %d bytes, %q, %v", test.method, test.path, answer.Status, len(answer.Body), answer.Header("Retry-After"), err)
			}
		}
	}
	if len(ports) != 1 {
		t.Errorf("%d connections were used instead of one", len(ports))
	}
}

// TestBrokenStaysBroken: after an answer that is not one, or is too large, the connection is
// of no further use.
func TestBrokenStaysBroken(t *testing.T) {
	for name, answer := range map[string]string{
		"another protocol": "SSH-2.0-OpenSSH_9.2\r\n",
		"two lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"chunk too long":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
		"large head":       "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headBytesMax) + "\r\n\r\n",
		"large body":       "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(BodyBytesMax+1) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, answer)
			answered, err := c.Do(get())
			if err == nil {
				t.Fatalf("got %d %q", answered.Status, answered.Body)
			}
			if _, again := c.Do(get()); again != err {
				t.Errorf("the broken connection then returned %v", again)
			}
		})
	}
}

func TestDoNoticesAnEarlyEnd(t *testing.T) {
	whole := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	for n := range len(whole) {
		if answer, err := answering(t, whole[:n]).Do(get()); err == nil {
			t.Errorf("after %q: got %d %q %v", whole[:n], answer.Status, answer.Body, err)
		}
	}
}

func TestDoKnowsWhenAConnectionEnds(t *testing.T) {
	for name, answer := range map[string]string{
		"close":         "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"until the end": "HTTP/1.1 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, answer)
			if answer, err := c.Do(get()); err != nil || string(answer.Body) != "ok" {
				t.Fatalf("got %q %v", answer.Body, err)
			}
			if _, err := c.Do(get()); !errors.Is(err, ErrClosing) {
				t.Errorf("got %v, want ErrClosing", err)
			}
		})
	}
	kept := "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok"
	c := answering(t, kept, kept)
	for range 2 {
		if answer, err := c.Do(get()); err != nil || string(answer.Body) != "ok" {
			t.Errorf("kept alive: got %q %v", answer.Body, err)
		}
	}
}

func TestDoRefusesAnUnaskedAnswer(t *testing.T) {
	one := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	c := answering(t, one+one)
	if _, err := c.Do(get()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(get()); err == nil {
		t.Error("an unrequested answer was read as the answer to this request")
	}
}

func TestDoLosesPatience(t *testing.T) {
	c := connected(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
		io.Copy(io.Discard, in)
	}))
	c.SetPatience(20 * time.Millisecond)
	if _, err := c.Do(get()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestDialHTTPEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DialHTTP(ctx, "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestDoAllocatesNothing: the server allocates nothing itself, because the allocations
// of the whole process are counted.
func TestDoAllocatesNothing(t *testing.T) {
	request := Request("POST", "/messages", "tok", nil, bytes.Repeat([]byte("x"), 1000))
	for name, answer := range map[string]string{
		"counted": "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("y", 1000),
		"chunked": "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3E8\r\n" + strings.Repeat("y", 1000) + "\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := connected(t, scripted(t, func(conn net.Conn, in *bufio.Reader) {
				buffer, bytes := make([]byte, len(request)), []byte(answer)
				for {
					if _, err := io.ReadFull(in, buffer); err != nil {
						return
					}
					conn.Write(bytes)
				}
			}))
			if n := testing.AllocsPerRun(200, func() {
				if _, err := c.Do(request); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v allocations per request", n)
			}
		})
	}
}
