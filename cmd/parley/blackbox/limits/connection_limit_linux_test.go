package limits

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// dialFrom connects to the server from 127.0.0.n, with a small receive buffer.
func dialFrom(s *kit.Server, n byte) (net.Conn, error) {
	d := net.Dialer{
		Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)},
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		},
	}
	return d.DialContext(context.Background(), "tcp", s.Addr)
}

// keepPlaces makes two addresses hold as many connections as there are places. It sends
// ask on each, reads nothing, and opens a new connection as soon as the server closes
// one.
func keepPlaces(t *testing.T, s *kit.Server, places int, ask string) {
	stop := make(chan struct{})
	var keeping, opened sync.WaitGroup
	t.Cleanup(func() { close(stop); keeping.Wait() })
	opened.Add(places)
	for i := range places {
		keeping.Go(func() {
			for first := true; ; first = false {
				conn, err := dialFrom(s, byte(2+i%2))
				if err == nil {
					_, _ = io.WriteString(conn, ask)
				}
				if first {
					opened.Done()
				}
				if err == nil {
					awaitReset(conn, stop)
					_ = conn.Close()
				}
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	opened.Wait()
	time.Sleep(300 * time.Millisecond) // the last requests have arrived too
}

// awaitReset waits until the server closes a connection or stop is closed. It reads
// nothing.
func awaitReset(conn net.Conn, stop <-chan struct{}) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	for over := false; err == nil && !over; {
		err = raw.Control(func(fd uintptr) {
			info, e := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
			over = e != nil || info&0xff != tcpEstablished // the first byte is the TCP state
		})
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

const tcpEstablished = 1

// TestTwoAddressesDoNotBlockOthers: two addresses hold all places with busy connections and
// retake each place as soon as they lose it. Clients from another address are still
// served, and an idle connection of theirs is kept.
func TestTwoAddressesDoNotBlockOthers(t *testing.T) {
	get := func(token, path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	}
	for name, ask := range map[string]func(g *kit.Agent) string{
		"unread answers": func(g *kit.Agent) string { // more than socket buffers hold
			return strings.Repeat(get(g.Token, "/docs/swagger-ui-bundle.js"), 8)
		},
		"bodies that lack a byte": func(g *kit.Agent) string {
			return "POST /auth/register HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 999)
		},
		"waits":   func(g *kit.Agent) string { return get(g.Token, g.Path("/wait?timeout_ms=60000")) },
		"streams": func(g *kit.Agent) string { return get(g.Token, g.Path("/stream")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := kit.StartThrough(t, []string{"sh", "-c", `ulimit -n 896 && exec "$0" "$@"`}) // 256 places
			request := ask(s.Org(t).Agent("holder"))
			kit.Client.CloseIdleConnections()
			idle, err := dialFrom(s, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = idle.Close() }()
			served := func(conn net.Conn) bool {
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				return err == nil && answer.StatusCode == 200
			}
			if !served(idle) {
				t.Fatal("the first connection was not served")
			}
			keepPlaces(t, s, 260, request)
			failed := 0
			for range 40 {
				if conn, err := dialFrom(s, 1); err != nil || !served(conn) {
					failed++
				} else {
					_ = conn.Close()
				}
			}
			if failed > 0 {
				t.Errorf("%d of 40 new connections were rejected", failed)
			}
			if !served(idle) {
				t.Error("an idle connection of an address with few was closed")
			}
		})
	}
}

// ending is a connection that signals when the client closes it, from when on the client
// does not use it for another request.
type ending struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (e *ending) Close() error {
	e.once.Do(func() { close(e.ended) })
	return e.Conn.Close()
}

// TestAnEvictedClientRecovers makes the server close the idle connection of a client by
// opening silent ones from as many addresses as there are places. The client's next
// request, a send without an idempotency key, is served at once.
func TestAnEvictedClientRecovers(t *testing.T) {
	s := kit.StartThrough(t, []string{"sh", "-c", `ulimit -n 896 && exec "$0" "$@"`}) // 256 places
	alice, bob := kit.Pair(t, s)
	kit.Client.CloseIdleConnections()
	dialled := make(chan *ending, 10)
	own := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			e := &ending{Conn: conn, ended: make(chan struct{})}
			dialled <- e
			return e, err
		},
	}}
	send := func() {
		t.Helper()
		r, err := s.Request(alice.Token, "POST", "/messages", kit.Message(bob))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := own.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if _ = answer.Body.Close(); answer.StatusCode != 201 {
			t.Errorf("a send was answered %s", answer.Status)
		}
	}
	send()
	send()
	first := <-dialled
	if len(dialled) != 0 {
		t.Fatal("the client does not keep its connection")
	}
	for i, began := 0, time.Now(); ; i++ { // connections that have been idle for longer are closed first
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}}
		conn, err := d.Dial("tcp", s.Addr)
		if err != nil || time.Since(began) > 20*time.Second {
			t.Fatalf("after %d new connections the idle one is open: %v", i, err)
		}
		defer func() { _ = conn.Close() }()
		select {
		case <-first.ended:
			send()
			return
		case <-time.After(time.Duration(i/300) * time.Millisecond): // the kernel accepts connections before the server does
		}
	}
}
