package http

import (
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"testing"

	"parley/http/rest"
)

// These tests count what a request costs and do not time it: a count is the same on a
// busy machine. Each bound is about 15 % above the value measured when it was set. A
// change that lowers a cost lowers its bound too. `go test -v -run Cost ./http` prints
// the current values.

// cost has the allocations and bytes of one operation, anywhere in the process.
type cost struct{ allocs, bytes float64 }

// within reports whether no value is above its bound.
func (c cost) within(bound cost) bool { return c.allocs <= bound.allocs && c.bytes <= bound.bytes }

// costOf runs an operation n times per round and returns the smallest cost per
// operation over the rounds. Timers, tables and files in memory that grow, and
// leftovers of other tests, can only raise the cost of a round.
func costOf(rounds, n int, operation, settle func()) cost {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for range 4 * n {
		operation()
	}
	settle()
	least := cost{math.Inf(1), math.Inf(1)}
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			operation()
		}
		settle()
		runtime.ReadMemStats(&after)
		c := cost{float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)}
		least = cost{min(least.allocs, c.allocs), min(least.bytes, c.bytes)}
	}
	return least
}

func atOnce() {}

// skipUnderRace skips a test under the race detector, which allocates too.
func skipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not the program's own under the race detector")
	}
}

// requestCosts lists the requests to measure, each with the bounds of its allocations,
// bytes and writes to the connection. When the bounds were set, a send of 1 KiB took 59
// allocations and 8,704 bytes, a reply 109 and 12,592, an inbox page of 20 messages 432
// and 66,144, all including the journal. Each sealing or opening takes 2 and 1,300.
var requestCosts = []struct {
	name    string
	status  int
	bound   cost
	writes  float64
	request func(*wired, *wire) []byte
}{
	{"send", 201, cost{79, 9900}, 1, func(h *wired, _ *wire) []byte { return h.sendRequest() }},
	{"reply", 201, cost{124, 14400}, 1, (*wired).replyRequest},
	{"inbox page", 200, cost{496, 76000}, 2, (*wired).inboxRequest},
}

// costOfRequests returns the cost of a request and the number of writes per answer.
// dress returns the connection that the server uses.
func (h *wired) costOfRequests(t *testing.T, make func(*wired, *wire) []byte, status int, dress func(*wire) net.Conn) (cost, float64) {
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- dress(w)
	request := make(h, w)
	writes, asked := w.receiver.writes.Load(), 0
	each := costOf(40, 8, func() { w.ask(t, request, status); asked++ }, atOnce)
	return each, float64(w.receiver.writes.Load()-writes) / float64(asked)
}

func TestCostOfARequest(t *testing.T) {
	skipUnderRace(t)
	for _, c := range requestCosts {
		t.Run(c.name, func(t *testing.T) {
			h := wireHarness(t, 1)
			defer h.close()
			got, writes := h.costOfRequests(t, c.request, c.status, undressed)
			if t.Logf("%.1f allocations, %.0f bytes, %.1f writes", got.allocs, got.bytes, writes); !got.within(c.bound) {
				t.Errorf("a request costs %+v, at most %+v is allowed", got, c.bound)
			}
			if writes > c.writes {
				t.Errorf("an answer takes %.1f writes, at most %.0f are allowed", writes, c.writes)
			}
		})
	}
}

// TestCostOfARequestControl: a step before the handlers allocates a hundred strings,
// and each answer is written in pieces.
func TestCostOfARequestControl(t *testing.T) {
	skipUnderRace(t)
	for _, c := range requestCosts {
		t.Run(c.name, func(t *testing.T) {
			h := wireHarness(t, 1)
			defer h.close()
			var notes [100]string
			*inside[func(*rest.Call) error](h.server, "judge") = func(c *rest.Call) error {
				for i := range notes {
					notes[i] = fmt.Sprint(c.RequestID(), " ", i)
				}
				return nil
			}
			got, writes := h.costOfRequests(t, c.request, c.status, func(w *wire) net.Conn { return splitConn{w, "\r\n"} })
			if got.allocs <= c.bound.allocs || writes <= c.writes {
				t.Errorf("a wasteful server takes %+v and %.1f writes: within %+v and %.0f", got, writes, c.bound, c.writes)
			}
		})
	}
}
