package http

import (
	"math"
	"testing"
	"time"

	"parley"
	"parley/http/limit"
)

// TestOwnRefusalsMakeNoFlood: a caller that has used up its own share is held back
// like others, and fewer may not wait for the processor because of it.
func TestOwnRefusalsMakeNoFlood(t *testing.T) {
	for _, c := range []struct {
		what   string
		err    *parley.Refusal
		floods bool
	}{{"its own bytes", errHeld, false}, {"a long list", errLongArray, false}, {"searches", errQueries, false}, {"control: no room", parley.ErrOverloaded, true}} {
		k, now, held := newCrowd(Runnable), time.Unix(1000, 0), 0
		k.turn(now)
		for range 10 * crowdFreely {
			if k.thick(now, c.err.OfOne) {
				held++
			}
		}
		k.turn(now.Add(crowdWindow))
		if held != 9*crowdFreely || k.flood.Load() != c.floods {
			t.Errorf("%s: %d of %d are held, flood %v", c.what, held, 10*crowdFreely, k.flood.Load())
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
	h.server.crowd.window.Store(math.MaxInt64) // it never ends
	h.server.crowd.narrow.Store(crowdFreely)
	w := newWire(newEars(false))
	defer w.Close()
	h.conns <- w
	w.asked <- page
	await(t, "no refusal is held", func() bool { return h.server.crowd.holding.Load() == 1 })
	if s := h.server.budget.Stats(); s.Held != 0 || s.Peak < 128<<10 {
		t.Errorf("%d bytes are held, at most %d were", s.Held, s.Peak)
	}
	h.server.crowd.room <- struct{}{}
	await(t, "it is held for ever", func() bool { return h.server.crowd.holding.Load() == 0 })
}

// TestFewRequestsAreSpared: where too many wait for the processor, the address that
// has few requests under way is refused nothing, unless far too many wait.
func TestFewRequestsAreSpared(t *testing.T) {
	h := wireHall(t, 1)
	defer h.close()
	waiting := 0
	h.server.crowd = newCrowd(func() int { return waiting })
	w := newWire(newEars(false))
	defer w.Close()
	h.conns <- w
	page := h.inboxRequest(w)
	own := h.server.lines.Load().addresses[limit.AddressKey(peerOf(wireAddress.IP))]
	for _, c := range []struct {
		waiting, beside, status int
	}{
		{crowdLeast, math.MaxInt32, 200},
		{crowdLeast + 1, crowdFew, 503},
		{crowdLeast + 1, crowdFew - 1, 200},
		{crowdFewMost, 0, 200},
		{crowdFewMost + 1, 0, 503},
	} {
		waiting = c.waiting
		own.busy.Add(int64(c.beside))
		time.Sleep(2 * crowdLook)
		w.ask(t, page, c.status)
		own.busy.Add(-int64(c.beside))
	}
	await(t, "an answered request counts as under way", func() bool { return own.busy.Load() == 0 })
}
