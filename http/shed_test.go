package http

import (
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/limit"
	"parley/http/overload"
	"parley/http/rest"
)

// TestRefusalsOfOneCallerAffectNoOthers: refusals that one caller is responsible for
// are delayed like others, but do not cause more requests of others to be rejected.
func TestRefusalsOfOneCallerAffectNoOthers(t *testing.T) {
	for _, c := range []struct {
		what   string
		err    *parley.Refusal
		floods bool
	}{{"its own bytes", rest.ErrHeld, false}, {"a long list", rest.ErrLongArray, false}, {"searches", limit.ErrInFlight, false}, {"control: no room", parley.ErrOverloaded, true}} {
		l, now, delayed := overload.New(func() int { return 100 }), time.Unix(1000, 0), 0
		for range 500 {
			if l.ToDelay(now, c.err) {
				delayed++
			}
		}
		if floods := l.Reject(now.Add(time.Second), false); delayed != 450 || floods != c.floods {
			t.Errorf("%s: %d of 500 are delayed, flood %v", c.what, delayed, floods)
		}
	}
}

// TestDelayedRefusalHoldsNoMemory: while a refusal is delayed, the memory that the call
// took for its answer is free for others.
func TestDelayedRefusalHoldsNoMemory(t *testing.T) {
	h := wireHarness(t, 1)
	defer h.close()
	page := h.longInbox(t)
	h.setBudget(limit.NewBudget(5 << 20)) // half a page
	limiter := overload.New(func() int { return 0 })
	*inside[*overload.Limiter](h.server, "overload") = limiter
	// A window that does not end soon. Much later would look as if the clock had been set back.
	for later := time.Now().Add(900 * time.Millisecond); !limiter.ToDelay(later, rest.ErrHeld); {
	}
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	w.asked <- page
	await(t, "no refusal is held", func() bool { return limiter.Delayed() == 1 })
	if s := h.budget().Stats(); s.Held != 0 || s.Peak < 128<<10 {
		t.Errorf("%d bytes are held, the peak was %d", s.Held, s.Peak)
	}
	await(t, "it is held for ever", func() bool {
		limiter.Answered(time.Now)
		return limiter.Delayed() == 0
	})
}

// TestAddressWithFewRequestsIsSpared: when too many goroutines wait for the processor,
// an address with few requests under way is refused nothing, unless far too many wait.
func TestAddressWithFewRequestsIsSpared(t *testing.T) {
	var waiting atomic.Int64
	h := wireHarness(t, 1, func(o *harnessOptions) { o.Server.Overload = overload.New(func() int { return int(waiting.Load()) }) })
	defer h.close()
	w := newWire(newReceiver(false))
	defer w.Close()
	h.conns <- w
	page := h.inboxRequest(w)
	beside := 0
	for _, c := range []struct {
		waiting, beside, status int
	}{
		{2560, 0, 200},
		{2561, 0, 503},
		{641, overload.Few - 1, 200},
		{641, overload.Few, 503},
		{640, overload.Few, 200},
	} {
		waiting.Store(0)
		time.Sleep(time.Millisecond)
		for ; beside < c.beside; beside++ {
			other := newWire(newReceiver(false))
			defer other.Close()
			h.conns <- other
			other.asked <- h.request("GET", "/agents/"+h.from.String()+"/wait?timeout_ms=60000", nil)
		}
		await(t, "the others do not wait", func() bool { return h.server.Load().InFlight == beside })
		waiting.Store(int64(c.waiting))
		time.Sleep(time.Millisecond)
		w.ask(t, page, c.status)
	}
}
