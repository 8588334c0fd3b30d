package http

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	stdhttp "net/http"
	"strconv"
	"testing"
	"time"

	"parley/http/connlimit"
)

// TestRefusedConnectionsAreAnswered: a whole answer in the shape of errors.
func TestRefusedConnectionsAreAnswered(t *testing.T) {
	s := &Server{newRequestID: func() string { return "r1" }}
	client, server := net.Pipe()
	go func() { _, _ = server.Write(s.noRoom()) }()
	answer, err := stdhttp.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, answer.ContentLength)
	_, err = io.ReadFull(answer.Body, body)
	seconds, badly := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || badly != nil || seconds < 1 || answer.StatusCode != 503 || !answer.Close || answer.Header.Get("X-Request-Id") != "r1" {
		t.Errorf("%v %v", err, answer)
	}
	want := `{"detail":"The server is at capacity; nothing was done. Try again shortly.","error":"UnavailableError","code":"overloaded","request_id":"r1","retry_after":1}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
}

// TestSilentConnectionsMakeRoom opens all connections that there may be over real
// sockets and says nothing: every request of others is served. In the control silent
// connections keep their places, and each request is turned away.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	const places = 8
	for name, want := range map[string]int{"bounded": 200, "control": 503} {
		t.Run(name, func(t *testing.T) {
			s := newToyTCP(t, func(o *Options) {
				o.Connections = connlimit.Bounds{Total: places, PerAddress: places, Fixed: name == "control"}
			})
			for n := range places {
				conn, err := s.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				await(t, "a connection is not counted", func() bool { return s.Load().Connections == n+1 })
			}
			for range 4 {
				if a := s.ask(t, "GET", "/things/public", "", "Connection: close"); a.StatusCode != want {
					t.Errorf("a request among silent connections: %s", a.Status)
				}
			}
		})
	}
}

// TestARequestWhoseAnswerWouldBeLostIsNotServed: a connection that was evicted after its
// request was read, and before it was served, ends unserved.
func TestARequestWhoseAnswerWouldBeLostIsNotServed(t *testing.T) {
	var evict func()
	h := wireHall(t, 1, func(o *hallOptions) {
		o.Server.Connections.PerAddress = 1
		o.Server.NewRequestID = func() string { // the request is read, and not served yet
			if evict != nil {
				evict()
			}
			return "r"
		}
	})
	defer h.close()
	w, other := newWire(newEars(false)), newWire(newEars(false))
	defer w.Close()
	defer other.Close()
	h.conns <- w
	w.ask(t, h.sendRequest(), 201)
	evict = func() {
		evict = nil
		h.conns <- other
		await(t, "no connection is evicted", func() bool { return h.server.Load().Lines.Evicted == 1 })
	}
	w.asked <- h.sendRequest()
	await(t, "the connection is open", func() bool {
		select {
		case <-w.closed:
			return true
		default:
			return false
		}
	})
	await(t, "the request is not answered", func() bool { return h.server.Load().InFlight == 0 })
	page, _, err := h.node.Inbox(context.Background(), h.to, 0, 10, "", nil)
	if err != nil || len(page) != 1 {
		t.Errorf("%d messages were sent, %v; a request was served whose connection is gone", len(page), err)
	}
}

// elsewhere is a wire from another address.
type elsewhere struct{ *wire }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// TestAnEvictedRequestEnds: a request that waits for a message ends soon when its
// connection is evicted.
func TestAnEvictedRequestEnds(t *testing.T) {
	const waiting = 8
	for _, what := range []string{"wait", "sync"} {
		h := wireHall(t, 1, func(o *hallOptions) {
			o.Server.Connections = connlimit.Bounds{Total: 100, Served: waiting, PerAddress: 100}
		})
		request := h.request("GET", "/agents/"+h.from.String()+"/wait?timeout_ms=60000", nil)
		if what == "sync" {
			request = bytes.Replace(h.sendRequest(), []byte("POST /messages "), []byte("POST /messages/sync?timeout_ms=60000 "), 1)
		}
		var wires []*wire
		for range waiting {
			w := newWire(newEars(false))
			wires = append(wires, w)
			h.conns <- w
			w.asked <- request
		}
		await(t, what+" does not wait", func() bool { return h.server.Load().InFlight == waiting })
		time.Sleep(50 * time.Millisecond) // the last of them begins to wait
		evicted, began, other := h.server.Load().Lines.Evicted, time.Now(), newWire(newEars(false))
		h.conns <- elsewhere{other}
		await(t, what+" goes on", func() bool { return h.server.Load().InFlight == waiting-1 })
		if took := time.Since(began); took > 10*goneLook || h.server.Load().Lines.Evicted != evicted+1 {
			t.Errorf("%s ends after %v", what, took)
		}
		closeAll(append(wires, other))
		h.close()
	}
}
