package actors

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"parley/actors/delivery"
	"parley/client/parley"
)

// TestWebhooksAreThrottledUnderLoad: while requests need the processor, only a few
// webhooks are woken at a time, and none waits longer than delivery.ThrottlePatience.
// Without a load function no webhook is delayed.
func TestWebhooksAreThrottledUnderLoad(t *testing.T) {
	const agents = 20
	for _, busy := range []bool{true, false} {
		h := newWebhookFixtureAt(t, newManualClock(noon))
		org, ids := h.agentsWithWebhooks(agents)
		stepsBack := func() bool { return h.node.Webhooks.Stats().SteppingBack }
		if busy {
			h.simulateLoad(func() bool { return true })
			h.until("stepping back", func() bool { // throttling begins one window after the requests
				h.say(1)
				h.manual.advance(delivery.ThrottleWindow)
				return stepsBack()
			})
		}
		before := len(h.courier.delivered())
		for _, id := range ids {
			must(h.send(directBetween(h.owner, org, h.ids[0], id, "m", "")))(t)
		}
		if !busy {
			h.until("all deliveries", func() bool { return len(h.courier.delivered()) >= before+agents })
			continue
		}
		for range 5 {
			h.manual.advance(delivery.ThrottleWindow)
			time.Sleep(3 * delivery.ThrottleRound)
		}
		if n := len(h.courier.delivered()) - before; n > agents*3/4 || !stepsBack() || h.node.Webhooks.Stats().Waiting < agents/4 {
			t.Errorf("%d of %d webhooks began in half a second, throttling allows one or two per window", n, agents)
		}
		h.manual.advance(delivery.ThrottlePatience)
		h.until("all deliveries", func() bool { return len(h.courier.delivered()) >= before+agents })
	}
}

// agentsWithWebhooks returns agents of another organization, with a webhook each.
func (h *webhookFixture) agentsWithWebhooks(n int) (parley.OrgID, []parley.AgentID) {
	h.t.Helper()
	org, ids := h.agents("globex", n)
	for _, id := range ids {
		must(h.node.Webhooks.Create(context.Background(), delivery.CreateWebhook{
			ID: h.node.Webhooks.NewID(id), Agent: id, Org: org, URL: "https://sink.example/b", SealedSecret: []byte("sealed"),
		}))(h.t)
	}
	return org, ids
}

// simulateLoad reports requests at a steady rate, with or without a shortage of
// processors.
func (h *webhookFixture) simulateLoad(short func() bool) {
	answered := uint64(0)
	h.node.Webhooks.SetLoad(func() (uint64, bool) {
		answered += delivery.ThrottleShare
		return answered, short()
	})
}

// TestThrottledWebhooksDeliverEverything: all events are delivered and recorded, even
// if the load alternates or one webhook has more events than its turn allows.
func TestThrottledWebhooksDeliverEverything(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		agents, messages int
		short            func() bool
	}{
		{10, 100, func() bool { return luck.IntN(2) == 0 }},
		{1, 4 * delivery.AttemptsAtOnce, func() bool { return true }},
	} {
		h := newWebhookFixtureAt(t, newManualClock(noon))
		org, ids := h.agentsWithWebhooks(c.agents)
		h.simulateLoad(c.short)
		for i := range c.messages {
			must(h.send(directBetween(h.owner, org, h.ids[0], ids[i%len(ids)], "m", "")))(t)
			h.manual.advance(delivery.ThrottleWindow / 2)
		}
		for _, id := range ids {
			h.until("all outcomes", func() bool {
				h.manual.advance(delivery.ThrottleWindow)
				s := must(h.node.Webhooks.Of(t.Context(), id))(t)[0]
				return s.Summary().Delivered == uint64(c.messages/c.agents)
			})
		}
	}
}
