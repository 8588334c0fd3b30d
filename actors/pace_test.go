package actors

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"parley"
	"parley/actors/record"
)

// street is a processor that requests and deliveries share: each gets a part by
// what it asks for.
type street struct {
	room     float64 // deliveries that fill a window; a request is half of one
	wants    float64 // requests that would come in a window if there were room
	waiting  float64 // deliveries
	flying   float64 // those of them that may begin
	each     int     // attempts of a webhook that is woken
	answered uint64
	short    bool
	now      time.Time
	p        pace
}

func newStreet(wants float64) *street {
	s := &street{room: 500, wants: wants, each: 1, now: time.Unix(1000, 0)}
	s.p.demand = func() (uint64, bool) { return s.answered, s.short }
	return s
}

// window lets a window pass, in rounds, and says what was answered and begun.
func (s *street) window() (answered, begun float64) {
	const rounds = 10
	for range rounds {
		s.p.look(s.now)
		room := max(0, int(2*s.room-s.flying)/s.each)
		woken := s.p.wake(min(room, int(s.waiting)/s.each))
		s.p.began(woken * s.each)
		s.flying += float64(woken * s.each)
		s.waiting -= float64(woken * s.each)
		s.now = s.now.Add(paceWindow / rounds)
	}
	asked := s.flying + s.wants/2
	part := min(1, s.room/max(asked, 1))
	begun, answered = s.flying*part, s.wants*part
	s.flying -= begun
	s.short = asked >= 0.9*s.room
	s.answered += uint64(answered)
	return answered, begun
}

// TestDeliveriesStepBackForRequests: where requests take all that there is, a
// delivery begins for ten of them; where they leave room, deliveries have it.
func TestDeliveriesStepBackForRequests(t *testing.T) {
	for _, c := range []struct {
		name               string
		wants              float64
		each               int
		requests, delivers float64 // least in a window, on the average
	}{
		{"nobody asks", 0, 1, 0, 490},
		{"few ask", 100, 1, 40, 400},
		{"as many as there is room for", 1500, 1, 800, 35},
		{"as many, and each webhook has much to do", 1500, 30, 800, 35},
		{"half of what there is room for", 500, 1, 400, 150},
	} {
		s := newStreet(c.wants)
		s.each = c.each
		var requests, delivers float64
		const settles, counts = 20, 200
		for i := range settles + counts {
			s.waiting = 1e6
			answered, begun := s.window()
			if i >= settles {
				requests, delivers = requests+answered/counts, delivers+begun/counts
			}
		}
		if requests < c.requests || delivers < c.delivers {
			t.Errorf("%s: %.0f requests and %.0f deliveries in a window, want at least %.0f and %.0f", c.name, requests, delivers, c.requests, c.delivers)
		}
		// The control: without anybody who says how short the processor is, requests
		// get what deliveries leave.
		if c.wants > 1000 {
			s = newStreet(c.wants)
			s.p.demand, s.waiting = nil, 1e6
			if s.window(); s.p.limited {
				t.Error("who knows of no demand steps back")
			}
			if answered, _ := s.window(); answered >= c.requests {
				t.Errorf("%s, and deliveries do not step back: still %.0f requests", c.name, answered)
			}
		}
	}
}

// TestDeliveriesCatchUp: when the requests end, what has stepped back goes on
// with all that there is, within a second.
func TestDeliveriesCatchUp(t *testing.T) {
	s := newStreet(10_000)
	for range 30 {
		s.waiting = 1e6
		s.window()
	}
	s.wants = 0
	for range 10 {
		s.window()
	}
	if _, begun := s.window(); begun < 490 {
		t.Errorf("a second after the requests %.0f deliveries begin in a window", begun)
	}
}

// TestWebhooksStepBack: while requests want the processor, webhooks are woken a few
// at a time, and none waits for more than pacePatience. Where nobody tells of
// requests, none steps back at all.
func TestWebhooksStepBack(t *testing.T) {
	const agents = 20
	for _, busy := range []bool{true, false} {
		h := newHookedAt(t, newHand(noon))
		org, ids := h.crew(agents)
		stepsBack := func() bool { return h.node.WebhookStats().SteppingBack }
		if busy {
			h.asked(func() bool { return true })
			h.until("stepping back", func() bool { // it takes a window to see that requests come
				h.say(1)
				h.hand.advance(paceWindow)
				return stepsBack()
			})
		}
		before := len(h.post.came())
		for _, id := range ids {
			must(h.send(directBetween(h.owner, org, h.ids[0], id, "m", "")))(t)
		}
		if !busy {
			h.until("all deliveries", func() bool { return len(h.post.came()) >= before+agents })
			continue
		}
		for range 5 {
			h.hand.advance(paceWindow)
			time.Sleep(3 * paceRound)
		}
		if n := len(h.post.came()) - before; n > agents*3/4 || !stepsBack() || h.node.WebhookStats().Waiting < agents/4 {
			t.Errorf("in half a second %d of %d begin, of which one or two for each window may", n, agents)
		}
		h.hand.advance(pacePatience)
		h.until("all deliveries", func() bool { return len(h.post.came()) >= before+agents })
	}
}

// crew are agents of another organization, with a webhook each.
func (h *hooked) crew(n int) (parley.OrgID, []parley.AgentID) {
	h.t.Helper()
	org, ids := h.agents("globex", n)
	for _, id := range ids {
		must(h.node.CreateWebhook(context.Background(), CreateWebhook{
			ID: h.node.NewWebhookID(id), Agent: id, Org: org, URL: "https://sink.example/b", SealedSecret: []byte("sealed"),
		}))(h.t)
	}
	return org, ids
}

// asked has requests come at a pace, on a processor that is short or not.
func (h *hooked) asked(short func() bool) {
	answered := uint64(0)
	d := h.node.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pace.demand = func() (uint64, bool) {
		answered += paceShare
		return answered, short()
	}
}

// TestNoWebhookIsForgotten: all is delivered in the end and what flew is noted,
// whether the processor's fortune turns all the time or one webhook has more to do
// than fits into its turn and the processor stays short.
func TestNoWebhookIsForgotten(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		agents, messages int
		short            func() bool
	}{
		{10, 100, func() bool { return luck.IntN(2) == 0 }},
		{1, 4 * attemptsAtOnce, func() bool { return true }},
	} {
		h := newHookedAt(t, newHand(noon))
		org, ids := h.crew(c.agents)
		h.asked(c.short)
		for i := range c.messages {
			must(h.send(directBetween(h.owner, org, h.ids[0], ids[i%len(ids)], "m", "")))(t)
			h.hand.advance(paceWindow / 2)
		}
		for _, id := range ids {
			h.until("all outcomes", func() bool {
				h.hand.advance(paceWindow)
				s := must(h.node.WebhooksOf(t.Context(), id))(t)[0]
				return s.Summary().Delivered == uint64(c.messages/c.agents)
			})
		}
	}
}

// TestATurnOnceGivenHolds: a webhook that was woken while nobody stepped back may
// begin, also if all step back by the time it is there; once.
func TestATurnOnceGivenHolds(t *testing.T) {
	h := newHooked(t, 1)
	d := newDispatcher(h.node, nil)
	id := h.hook.WebhookID()
	d.note(h.ids[1], id, record.EventFilter{Active: true, Events: 1})
	d.enqueue(h.ids[1])
	if _, streams, left := d.round(); len(streams) != 1 || left {
		t.Fatalf("%d are woken, more are left: %v", len(streams), left)
	}
	d.pace.limited = true
	if first, again := d.mayBegin(id), d.mayBegin(id); !first || again {
		t.Errorf("it may begin: %v, and again: %v", first, again)
	}
}
