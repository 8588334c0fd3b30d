package delivery

import (
	"testing"
	"time"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
)

// sharedProcessor simulates a processor that requests and deliveries share in
// proportion to their demand.
type sharedProcessor struct {
	room     float64 // capacity of a window in deliveries; a request costs half as much
	wants    float64 // requests per window if there were capacity for all
	waiting  float64 // deliveries that are waiting
	flying   float64 // deliveries that may begin
	each     int     // attempts of a webhook once it is woken
	answered uint64
	short    bool
	now      time.Time
	p        throttle
}

func newStreet(wants float64) *sharedProcessor {
	s := &sharedProcessor{room: 500, wants: wants, each: 1, now: time.Unix(1000, 0)}
	s.p.load = func() (uint64, bool) { return s.answered, s.short }
	return s
}

// window simulates one window, in rounds, and returns how many requests were answered
// and deliveries begun.
func (s *sharedProcessor) window() (answered, begun float64) {
	const rounds = 10
	for range rounds {
		s.p.update(s.now)
		room := max(0, int(2*s.room-s.flying)/s.each)
		woken := s.p.wake(min(room, int(s.waiting)/s.each))
		s.p.began(woken * s.each)
		s.flying += float64(woken * s.each)
		s.waiting -= float64(woken * s.each)
		s.now = s.now.Add(ThrottleWindow / rounds)
	}
	asked := s.flying + s.wants/2
	part := min(1, s.room/max(asked, 1))
	begun, answered = s.flying*part, s.wants*part
	s.flying -= begun
	s.short = asked >= 0.9*s.room
	s.answered += uint64(answered)
	return answered, begun
}

// TestDeliveriesYieldToRequests: while requests use the whole processor, one delivery
// begins per ten requests; otherwise deliveries use what is left.
func TestDeliveriesYieldToRequests(t *testing.T) {
	for _, c := range []struct {
		name               string
		wants              float64
		each               int
		requests, delivers float64 // minimum per window, on average
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
		// The control: without a load function, deliveries do not yield and requests
		// get only the rest of the processor.
		if c.wants > 1000 {
			s = newStreet(c.wants)
			s.p.load, s.waiting = nil, 1e6
			if s.window(); s.p.limited {
				t.Error("deliveries yield without a load function")
			}
			if answered, _ := s.window(); answered >= c.requests {
				t.Errorf("%s: %.0f requests although deliveries do not yield", c.name, answered)
			}
		}
	}
}

// TestDeliveriesCatchUp: when the requests end, deliveries use the whole processor
// within a second.
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
		t.Errorf("a second after the last request %.0f deliveries begin per window", begun)
	}
}

// TestWokenWebhookMayBeginOnce: a webhook that was woken without throttling may begin
// one delivery, even if throttling has begun by then.
func TestWokenWebhookMayBeginOnce(t *testing.T) {
	d, agent, id := newDispatcher(&Webhooks{clock: time.Now}, nil), parley.AnyID{1}, webhook.ID{2}
	d.registry.replace(parley.AnyID(agent), id, record.EventFilter{Active: true, Events: 1})
	d.enqueue(parley.AnyID(agent))
	if _, streams, left := d.round(); len(streams) != 1 || left {
		t.Fatalf("%d webhooks are woken, more left: %v", len(streams), left)
	}
	d.throttle.limited = true
	for _, want := range []bool{true, false} {
		if granted, begins := d.mayLease(id); granted != want || begins != want {
			t.Errorf("granted %v, may begin %v, want %v", granted, begins, want)
		}
	}
}

// TestParkedWebhooksAreForgotten: a webhook is not parked if its organization has been
// resumed meanwhile.
func TestParkedWebhooksAreForgotten(t *testing.T) {
	d := newDispatcher(&Webhooks{clock: time.Now}, nil)
	for _, waits := range []bool{true, false} {
		if got, _ := d.parking.park(parley.OrgID{1}, parley.AnyID{2}, func() (bool, error) { return waits, nil }); got != waits {
			t.Errorf("parked: %v", got)
		}
		if n := d.parking.orgs(); (n == 1) != waits {
			t.Errorf("%d organizations have parked webhooks", n)
		}
	}
}
