package http

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"parley/http/connlimit"
)

// TestRequestOnEvictedConnectionIsNotServed: if a connection is evicted after its
// request was read and before it is served, the request is not served.
func TestRequestOnEvictedConnectionIsNotServed(t *testing.T) {
	var evict func()
	h := wireHarness(t, 1, func(o *harnessOptions) {
		o.Server.Connections.PerAddress = 1
		o.Server.NewRequestID = func() string { // the request has been read, but not served
			if evict != nil {
				evict()
			}
			return "r"
		}
	})
	defer h.close()
	w, other := newWire(newReceiver(false)), newWire(newReceiver(false))
	defer w.Close()
	defer other.Close()
	h.conns <- w
	w.ask(t, h.sendRequest(), 201)
	evict = func() {
		evict = nil
		h.conns <- other
		await(t, "no connection is evicted", func() bool { return h.server.Load().Exceeded.Evicted == 1 })
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
	page, _, err := h.node.Messages.Inbox(context.Background(), h.to, 0, 10, "", nil)
	if err != nil || len(page) != 1 {
		t.Errorf("%d messages were sent, %v; a request on an evicted connection was served", len(page), err)
	}
}

// otherAddress is a wire with another remote address.
type otherAddress struct{ *wire }

func (otherAddress) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// TestEvictedRequestEnds: a request that waits for a message ends soon after its
// connection is evicted.
func TestEvictedRequestEnds(t *testing.T) {
	t.Parallel() // it waits for timers
	const waiting = 8
	for _, what := range []string{"wait", "sync"} {
		h := wireHarness(t, 1, func(o *harnessOptions) {
			o.Server.Connections = connlimit.Bounds{Total: 100, Served: waiting, PerAddress: 100}
		})
		request := h.request("GET", "/agents/"+h.from.String()+"/wait?timeout_ms=60000", nil)
		if what == "sync" {
			request = bytes.Replace(h.sendRequest(), []byte("POST /messages "), []byte("POST /messages/sync?timeout_ms=60000 "), 1)
		}
		var wires []*wire
		for range waiting {
			w := newWire(newReceiver(false))
			wires = append(wires, w)
			h.conns <- w
			w.asked <- request
		}
		await(t, what+" does not wait", func() bool { return h.server.Load().InFlight == waiting })
		time.Sleep(50 * time.Millisecond) // until the last of them waits
		evicted, began, other := h.server.Load().Exceeded.Evicted, time.Now(), newWire(newReceiver(false))
		h.conns <- otherAddress{other}
		await(t, what+" goes on", func() bool { return h.server.Load().InFlight == waiting-1 })
		if took := time.Since(began); took > 10*time.Second || h.server.Load().Exceeded.Evicted != evicted+1 {
			t.Errorf("%s ends after %v", what, took)
		}
		closeAll(append(wires, other))
		h.close()
	}
}
