package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func gathered(t *testing.T, address string, n int) *Connections {
	t.Helper()
	c, err := DialConnections(t.Context(), address, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hear waits until n answers have arrived and returns them, including their bodies.
func hear(t *testing.T, c *Connections, n int) (all []Heard, bodies []string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(all) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d answers arrived", len(all), n)
		}
		if err := c.Hear(10*time.Millisecond, func(h Heard) {
			bodies = append(bodies, string(h.Answer.Body))
			all = append(all, h)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all, bodies
}

func echo(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestConnectionsIsAnsweredOneByOne sends several requests on every connection. Each
// gets its own answer, whether it is small or fits neither a socket nor a buffer.
func TestConnectionsIsAnsweredOneByOne(t *testing.T) {
	const members = 300
	c := gathered(t, echo(t), members)
	for round, size := range []int{10, 3000, 400_000} {
		want := map[int]string{}
		for c.Idle() > 0 && (size < 10_000 || len(want) < 8) {
			i, _ := c.Take()
			body := fmt.Sprintf("%d of %d ", i, round) + strings.Repeat("x", size)
			want[i] = body
			request := Request("POST", "/", "", nil, []byte(body))
			c.Ask(i, request)
			clear(request) // the connections must not need it any more
		}
		all, bodies := hear(t, c, len(want))
		for n, h := range all {
			if h.Err != nil || h.Answer.Status != 200 || bodies[n] != want[h.Member] {
				t.Fatalf("size %d: member %d gets %v %d %.40q", size, h.Member, h.Err, h.Answer.Status, bodies[n])
			}
			if h.At.Before(h.Sent) || time.Since(h.Sent) > time.Minute {
				t.Errorf("sent %v, answered %v", h.Sent, h.At)
			}
		}
		if c.Asked() != 0 || c.Idle() != members {
			t.Fatalf("%d requests are unanswered, %d of %d connections are idle", c.Asked(), c.Idle(), members)
		}
	}
}

// TestConnectionsTakesTurns: the connection that has been idle longest is used first.
func TestConnectionsTakesTurns(t *testing.T) {
	c := gathered(t, echo(t), 4)
	var first, second []int
	for range 4 {
		i, _ := c.Take()
		first = append(first, i)
		c.Ask(i, get())
		hear(t, c, 1)
	}
	for range 4 {
		i, _ := c.Take()
		second = append(second, i)
		c.Release(i)
	}
	if _, ok := c.Take(); !slices.Equal(first, second) || !ok {
		t.Errorf("used %v, then %v", first, second)
	}
}

// TestConnectionsReportBrokenConnections: every way in which a request can fail on its
// connection is reported once, and the connection is made again.
func TestConnectionsReportBrokenConnections(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":       "",
		"half a head":   "HTTP/1.1 200 OK\r\nContent-Le",
		"half a body":   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
		"no HTTP":       "hello hello hello\r\n\r\n",
		"two answers":   strings.Repeat("HTTP/1.1 204 No Content\r\n\r\n", 2),
		"says it parts": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
				if _, err := http.ReadRequest(in); err == nil {
					_, _ = io.WriteString(conn, answer)
				}
			})
			c := gathered(t, address, 3)
			for range 2 {
				i, _ := c.Take()
				c.Ask(i, get())
				all, _ := hear(t, c, 1)
				if all[0].Member != i || (all[0].Err == nil) != all[0].Answer.Closing {
					t.Errorf("got %+v", all[0])
				}
				for deadline := time.Now().Add(5 * time.Second); c.Idle() < 3; {
					if time.Now().After(deadline) {
						t.Fatalf("%d of 3 are connected again", c.Idle())
					}
					if err := c.Hear(10*time.Millisecond, func(h Heard) { t.Errorf("heard %+v", h) }); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestConnectionsBreaksWhatIsLate(t *testing.T) {
	c := gathered(t, scripted(t, func(net.Conn, *bufio.Reader) { time.Sleep(time.Second) }), 2)
	i, _ := c.Take()
	c.Ask(i, get())
	if err := c.Hear(10*time.Millisecond, func(h Heard) { t.Errorf("heard %+v", h) }); err != nil {
		t.Fatal(err)
	}
	var late []Heard
	c.Break(time.Now().Add(-time.Minute), func(h Heard) { late = append(late, h) })
	if len(late) != 0 || c.Asked() != 1 {
		t.Errorf("broken too early: %v", late)
	}
	c.Break(time.Now(), func(h Heard) { late = append(late, h) })
	if len(late) != 1 || late[0].Member != i || !errors.Is(late[0].Err, ErrLate) || c.Asked() != 0 {
		t.Errorf("broken: %v, %d unanswered", late, c.Asked())
	}
}

func TestConnectionsWithNobodyThere(t *testing.T) {
	address := scripted(t, func(net.Conn, *bufio.Reader) {})
	c := gathered(t, address, 2)
	for c.Idle() > 0 { // the other end closes every connection
		if err := c.Hear(10*time.Millisecond, func(Heard) {}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := c.Take(); ok {
		t.Error("a connection that is gone can be used")
	}
}

func TestParser(t *testing.T) {
	var p Parser
	whole := "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 5\r\n\r\nhelloHTTP"
	for n := range len(whole) - len("HTTP") {
		if _, _, err := p.Answer([]byte(whole[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%q: %v", whole[:n], err)
		}
	}
	a, n, err := p.Answer([]byte(whole))
	if err != nil || whole[n:] != "HTTP" || a.Status != 503 || a.RetryAfter != "2" || !bytes.Equal(a.Body, []byte("hello")) || a.Closing {
		t.Errorf("%v, %d bytes, %+v", err, n, a)
	}
	if _, _, err := p.Answer([]byte("nonsense that is long enough\r\n\r\n")); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("nonsense: %v", err)
	}
	if a, _, err := p.Answer([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")); err != nil || !a.Closing {
		t.Errorf("the end of the connection is not reported: %v %+v", err, a)
	}
}
