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
			must(h.node.Orgs.SetTerms(context.Background(), h.owner, org.Suspend{}))(t)
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
			must(h.node.Orgs.SetTerms(context.Background(), h.owner, org.Resume{}))(t)
			h.until("deliveries afterwards", func() bool { return len(h.courier.delivered()) == len(said) })
			for i, d := range h.courier.delivered() {
				if d.Message != said[i].MessageID() {
					t.Errorf("delivery %d is for %v", i, d.Message)
				}
			}
		})
	}
}

// waiting has the webhook of a fixture lease one attempt, and returns it as the courier has it,
// which does not begin it.
func (h *webhookFixture) waiting() delivery.Delivery {
	h.t.Helper()
	h.courier.answerWith(neverAnswer)
	before := len(h.courier.delivered())
	h.say(1)
	h.until("the courier has the attempt", func() bool { return len(h.courier.delivered()) > before })
	return h.courier.delivered()[before]
}

// TestWaitingAttemptsDoNotBegin: an attempt that waits with the courier begins no more once the
// change that forbids it was answered.
func TestWaitingAttemptsDoNotBegin(t *testing.T) {
	ctx := context.Background()
	for name, forbid := range map[string]func(h *webhookFixture) error{
		"control": func(*webhookFixture) error { return nil },
		"suspended": func(h *webhookFixture) error {
			_, err := h.node.Orgs.SetTerms(ctx, h.owner, org.Suspend{})
			return err
		},
		"switched off": func(h *webhookFixture) error {
			_, err := h.node.Webhooks.Change(ctx, h.hook.WebhookID(), webhook.Toggle{By: h.owner})
			return err
		},
		"deleted": func(h *webhookFixture) error {
			_, err := h.node.Webhooks.Change(ctx, h.hook.WebhookID(), webhook.Delete{By: h.owner})
			return err
		},
		"another node leads": func(h *webhookFixture) error {
			h.node.StopLeading()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newWebhookFixture(t, 1)
			d := h.waiting()
			if !d.MayBegin() {
				t.Fatal("it may not begin before")
			}
			if err := forbid(h); err != nil {
				t.Fatal(err)
			}
			if begins := d.MayBegin(); begins != (name == "control") {
				t.Errorf("afterwards it may begin: %v", begins)
			}
		})
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
