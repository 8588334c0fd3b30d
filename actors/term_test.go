package actors

import (
	"context"
	"testing"
	"time"

	"parley/actors/org"
	"parley/actors/webhook"
)

// TestQuotaOfReturningLeader: a node that leads again counts what was sent while another one led.
func TestQuotaOfReturningLeader(t *testing.T) {
	r := newTestNode(t, withReplicas(lateBy(time.Millisecond)))
	d := newQuotaFixture(t, r)
	r.node = r.replicas.nodes[0]
	limit, sent := 50, 0
	send := func(n int) {
		for range n {
			if _, err := d.sendFrom(sent, &limit, ""); err == nil {
				sent++
			}
		}
	}
	send(10)
	r.replicas.lead(r)
	send(30)
	r.replicas.lead(r)
	send(40)
	if sent != limit {
		t.Errorf("%d messages were sent under a limit of %d", sent, limit)
	}
}

// TestWebhooksThroughFollower makes every change at the node that does not lead: the courier of
// the node that leads acts on it, and no other, before the change is answered.
func TestWebhooksThroughFollower(t *testing.T) {
	ctx := context.Background()
	h := openWebhookFixture(t, &webhookFixture{}, nil, withReplicas(lateBy(time.Millisecond)))
	leader := h.courier
	follower := &fakeCourier{}
	h.node = h.replicas.nodes[1]
	h.node.Webhooks.Courier = follower
	id := h.hook.WebhookID()
	must(h.node.Webhooks.Change(ctx, id, webhook.Toggle{By: h.owner, Active: true}))(t)
	must(h.node.Webhooks.Test(ctx, id, h.owner))(t)
	if leader.resets != 2 {
		t.Errorf("a hold was ended %d times, want 2", leader.resets)
	}
	waiting := h.waiting()
	suspends := func(change org.Command, begins bool) {
		t.Helper()
		must(h.node.Orgs.SetTerms(ctx, h.owner, change))(t)
		if got := waiting.MayBegin(); got != begins {
			t.Errorf("a waiting attempt may begin: %v, want %v", got, begins)
		}
	}
	suspends(org.Suspend{}, false)
	suspends(org.Resume{}, true)
	must(h.node.Webhooks.Change(ctx, id, webhook.Toggle{By: h.owner}))(t)
	if leader.drops.Load() == 0 || waiting.MayBegin() {
		t.Error("a webhook that was switched off goes on")
	}
	if follower.resets != 0 || follower.drops.Load() != 0 || len(follower.delivered()) != 0 {
		t.Error("the courier of a node that does not lead acted")
	}
}

// TestFormerLeaderDelivers no attempt: what waits when a leadership ends is dropped, may not
// begin, and begins once on the next leader.
func TestFormerLeaderDelivers(t *testing.T) {
	h := openWebhookFixture(t, &webhookFixture{}, nil, withReplicas(lateBy(time.Millisecond)))
	next := &fakeCourier{}
	h.replicas.nodes[1].Webhooks.Courier = next
	h.node = h.replicas.nodes[0]
	waiting := h.waiting()
	h.replicas.lead(h.testNode)
	if h.courier.dropsAll.Load() != 1 || waiting.MayBegin() {
		t.Error("an attempt of a former leader may begin")
	}
	h.until("the next leader has the attempt", func() bool { return len(next.delivered()) == 1 })
	h.replicas.lead(h.testNode)
	if waiting.MayBegin() {
		t.Error("an attempt of a former term may begin because the node leads again")
	}
}
