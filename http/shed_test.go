package http

import (
	"math"
	"testing"
	"time"

	"parley"
	"parley/http/limit"
	"parley/http/overload"
)

// TestOwnRefusalsMakeNoFlood: refusals for which one caller is responsible are delayed
// like others, and no more requests of others are rejected because of them.
func TestOwnRefusalsMakeNoFlood(t *testing.T) {
	for _, c := range []struct {
		what   string
		err    *parley.Refusal
		floods bool
	}{{"its own bytes", errHeld, false}, {"a long list", errLongArray, false}, {"searches", errQueries, false}, {"control: no room", parley.ErrOverloaded, true}} {
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

// TestARefusalThatIsHeldHoldsNothing: while a refusal is held back, what the call
// took for its answer is free for others.
func TestARefusalThatIsHeldHoldsNothing(t *testing.T) {
	h := wireHall(t, 1)
	defer h.close()
	page := h.longInbox(t)
	h.server.budget = limit.NewBudget(5 << 20) // half a page
	limiter := overload.New(func() int { return 0 })
	h.server.overload = limiter
	for later := time.Now().Add(time.Hour); !limiter.ToDelay(later, errHeld); { // a window that does not end
	}
	w := newWire(newEars(false))
	defer w.Close()
	h.conns <- w
	w.asked <- page
	await(t, "no refusal is held", func() bool { return limiter.Delayed() == 1 })
	if s := h.server.budget.Stats(); s.Held != 0 || s.Peak < 128<<10 {
		t.Errorf("%d bytes are held, at most %d were", s.Held, s.Peak)
	}
	await(t, "it is held for ever", func() bool {
		limiter.Answered(time.Now)
		return limiter.Delayed() == 0
	})
}

// TestFewRequestsAreSpared: where too many wait for the processor, the address that
// has few requests under way is refused nothing, unless far too many wait.
func TestFewRequestsAreSpared(t *testing.T) {
	h := wireHall(t, 1)
	defer h.close()
	waiting := 0
	h.server.overload = overload.New(func() int { return waiting })
	w := newWire(newEars(false))
	defer w.Close()
	h.conns <- w
	page := h.inboxRequest(w)
	own := h.server.lines.Load().addresses[limit.AddressKey(peerOf(wireAddress.IP))]
	for _, c := range []struct {
		waiting, beside, status int
	}{
		{640, math.MaxInt32, 200},
		{641, overload.Few, 503},
		{641, overload.Few - 1, 200},
		{2560, 0, 200},
		{2561, 0, 503},
	} {
		waiting = c.waiting
		own.busy.Add(int64(c.beside))
		time.Sleep(time.Millisecond)
		w.ask(t, page, c.status)
		own.busy.Add(-int64(c.beside))
	}
	await(t, "an answered request counts as under way", func() bool { return own.busy.Load() == 0 })
}
