package actors

import (
	"context"
	"testing"

	"parley/actors/delivery"
	"parley/actors/org"
	"parley/actors/webhook"
)

// TestWebhooksPauseWhileSuspended: events that occur during a suspension are delivered
// afterwards, in order. The control ignores the suspension and delivers at once.
func TestWebhooksPauseWhileSuspended(t *testing.T) {
	for name, suspends := range map[string]func(*org.State) bool{
		"suspended": (*org.State).Suspended,
		"control":   func(*org.State) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			h := openWebhookFixture(t, &webhookFixture{}, nil, withJournals(4), withTuning(func(n *Node) { n.Webhooks.Suspends = suspends }))
			must(h.node.Orgs.Suspend(context.Background(), h.owner))(t)
			said := h.say(3)
			if name == "control" {
				h.until("deliveries while suspended", func() bool { return len(h.courier.delivered()) == len(said) })
				return
			}
			h.until("the webhook waits for the end", func() bool {
				return h.node.Webhooks.Stats().Paused == 1
			})
			if n := len(h.courier.delivered()); n != 0 {
				t.Errorf("%d deliveries while suspended", n)
			}
			must(h.node.Orgs.Resume(context.Background(), h.owner))(t)
			h.until("deliveries afterwards", func() bool { return len(h.courier.delivered()) == len(said) })
			for i, d := range h.courier.delivered() {
				if d.Message != said[i].MessageID() {
					t.Errorf("delivery %d is for %v", i, d.Message)
				}
			}
		})
	}
}

// TestSuspendedAfterTheLease: an attempt leased before its organization was suspended
// is not sent, and deliveries that the courier accepted meanwhile are dropped.
func TestSuspendedAfterTheLease(t *testing.T) {
	h := newWebhookFixture(t, 1)
	carry := func() {
		h.node.Webhooks.Dispatch(&delivery.Delivery{Webhook: h.hook.WebhookID(), Agent: h.ids[1], Owner: h.owner})
	}
	suspend := func() { must(h.node.Orgs.SetTerms(context.Background(), h.owner, org.Suspend{}))(t) }
	h.courier.answerWith(func(delivery.Delivery) (webhook.Outcome, bool) {
		suspend()
		return webhook.Outcome{}, true
	})
	carry()
	if taken, drops := len(h.courier.delivered()), h.courier.drops.Load(); taken != 1 || drops != 1 {
		t.Errorf("suspended during the attempt: %d accepted, dropped %d times", taken, drops)
	}
	carry()
	if taken := len(h.courier.delivered()); taken != 1 {
		t.Errorf("suspended before the attempt: %d accepted", taken)
	}
}

// TestSuspensionIsCached: the suspension is read once, and cached while it lasts.
func TestSuspensionIsCached(t *testing.T) {
	h := newWebhookFixture(t, 1)
	h.node.queries.Forget()
	if suspended, err := h.node.Webhooks.Suspended(h.owner); suspended || err != nil {
		t.Fatalf("suspended %v, %v", suspended, err)
	}
	if _, known := h.node.Orgs.Cached(h.owner); !known {
		t.Error("each turn would read the organization again")
	}
}
