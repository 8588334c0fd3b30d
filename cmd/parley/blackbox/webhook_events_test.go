package blackbox

import (
	"slices"
	"strings"
	"testing"
)

// everyEvent are all events that a webhook can subscribe to.
var everyEvent = []string{
	"message.received", "message.delivered", "message.read", "conversation.updated", "group.invited", "group.request.created",
	"group.request.resolved", "group.member.joined", "group.member.left", "group.mls",
}

// waitForEvent waits for deliveries of an event, counted from 1, checks the payload of
// the last and returns it: field of must have the id, and message_id is null unless the
// event is about a message.
func (h *hook) waitForEvent(event string, n int, of, id string) *delivery {
	t := h.agent.T
	t.Helper()
	var all []*delivery
	Eventually(t, h.agent.Name+" is notified about "+event, func() bool {
		all = nil
		for _, d := range h.to.deliveries() {
			if d.body["event"] == event {
				all = append(all, d)
			}
		}
		return len(all) >= n
	})
	d := all[n-1].judged(t, h)
	if d.body[of] != id {
		t.Errorf("%s was notified about something other than %s %s: %s", h.agent.Name, of, id, d.raw)
	}
	want := []string{"message_id", "agent_id", "event", "timestamp"}
	switch {
	case strings.HasPrefix(event, "message."):
	case strings.HasPrefix(event, "group.request.") || event == "group.invited":
		want = append(want, "group_id", "request_id")
	case strings.HasPrefix(event, "group."):
		want = append(want, "group_id")
	default:
		want = append(want, "conversation_id")
	}
	Exactly(t, "the payload", d.body, strings.Join(want, " "))
	if (d.body["message_id"] == nil) == strings.HasPrefix(event, "message.") {
		t.Errorf("message_id of %s: %s", event, d.raw)
	}
	return d
}

// checkOnlyEvents checks, after all expected deliveries, that there are no others.
func (h *hook) checkOnlyEvents(events ...string) {
	h.agent.T.Helper()
	got := strings.Fields(h.to.events())
	slices.Sort(got)
	slices.Sort(events)
	if !slices.Equal(got, events) {
		h.agent.T.Errorf("%s was notified about %v, want %v", h.agent.Name, got, events)
	}
}

// TestEventsOfMessages: the recipient is notified when a message arrives,
// the sender when it is delivered and read by any channel.
func TestEventsOfMessages(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		of, to := a.wants(everyEvent...), b.wants(everyEvent...)
		m := a.Send(b)
		to.waitForEvent("message.received", 1, "message_id", Text(m, "id"))
		of.waitForEvent("message.delivered", 1, "message_id", Text(m, "id"))
		b.Post("/messages/"+Text(m, "id")+"/read", nil, "X-Svc-Agent", b.ID).Want(200)
		of.waitForEvent("message.read", 1, "message_id", Text(m, "id"))
		b.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", b.ID).Want(200)
		b.Inbox("")
		of.to.checkNoMore(t, 2)
		of.checkOnlyEvents("message.delivered", "message.read")
		to.checkOnlyEvents("message.received")
	})
}

// TestReceiptsOfOtherChannelsAreNotified: if the recipient has no webhook, the sender is
// notified when the message is transferred or read through an inbox page, a stream or a
// reply.
func TestReceiptsOfOtherChannelsAreNotified(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		of := a.wants("message.delivered", "message.read")
		paged := a.Send(b)
		of.to.checkNoMore(t, 0)
		b.Inbox("")
		of.waitForEvent("message.delivered", 1, "message_id", Text(paged, "id"))
		b.Stream("")
		streamed := a.Send(b)
		of.waitForEvent("message.delivered", 2, "message_id", Text(streamed, "id"))
		r := b.Reply(streamed)
		of.waitForEvent("message.read", 1, "message_id", Text(streamed, "id"))
		back := b.wants("message.delivered", "message.read")
		of.waitForEvent("message.delivered", 3, "message_id", Text(a.Reply(r), "id"))
		back.waitForEvent("message.read", 1, "message_id", Text(r, "id"))
		b.Post(b.Path("/messages/ack"), obj{"up_to": Text(streamed, "id")}).Want(200)
		of.waitForEvent("message.read", 2, "message_id", Text(paged, "id"))
		of.checkOnlyEvents("message.delivered", "message.delivered", "message.delivered", "message.read", "message.read")
		// The reply was read without being transferred before.
		if got := strings.Fields(back.to.events()); !slices.Contains(got, "message.read") || len(got) > 2 {
			t.Errorf("of one reply the sender was notified about %v", got)
		}
	})
}

// TestEventsOfConversations: all participants except the agent that made the change are
// notified.
func TestEventsOfConversations(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		ha, hb := a.wants("conversation.updated"), b.wants("conversation.updated")
		m := a.Send(b)
		conversation := Text(m, "conversation_id")
		b.Reply(m)
		ha.waitForEvent("conversation.updated", 1, "conversation_id", conversation)
		a.Patch("/conversations/"+conversation+"/status", obj{"status": "paused"}).Want(200)
		hb.waitForEvent("conversation.updated", 1, "conversation_id", conversation)
		b.Patch("/conversations/"+conversation+"/status", obj{"status": "open"}).Want(200)
		ha.waitForEvent("conversation.updated", 2, "conversation_id", conversation)
		ha.to.checkNoMore(t, 2)
		ha.checkOnlyEvents("conversation.updated", "conversation.updated")
		hb.checkOnlyEvents("conversation.updated")
	})
}

// TestEventsOfGroups: an invitee is notified about an invitation, the applicant and the
// admins about a request and its outcome, the member and the admins when a member joins
// or leaves.
func TestEventsOfGroups(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		o, p := s.Org(t), s.Org(t)
		admin, plain, invitee, applicant := o.Agent("admin"), o.Agent("plain"), p.Agent("invitee"), p.Agent("applicant")
		r := admin.groupWithPolicy("closed", plain)
		events := everyEvent[4:]
		boss, idle, guest, asker := admin.wants(events...), plain.wants(events...), invitee.wants(events...), applicant.wants(events...)
		request := r.invited(admin, invitee, "invited")
		guest.waitForEvent("group.invited", 1, "request_id", request)
		r.joined(invitee)
		guest.waitForEvent("group.member.joined", 1, "group_id", r.id)
		boss.waitForEvent("group.member.joined", 1, "group_id", r.id)
		r.patch(obj{"enrollment_policy": "majority"}).Want(200)
		filed := Text(r.applied(applicant), "id")
		asker.waitForEvent("group.request.created", 1, "request_id", filed)
		boss.waitForEvent("group.request.created", 1, "request_id", filed)
		for _, g := range []*Agent{admin, plain, invitee} {
			r.vote(g, filed, "approve")
		}
		asker.waitForEvent("group.request.resolved", 1, "request_id", filed)
		boss.waitForEvent("group.request.resolved", 2, "request_id", filed) // after the event of the invitation
		asker.waitForEvent("group.member.joined", 1, "group_id", r.id)
		boss.waitForEvent("group.member.joined", 2, "group_id", r.id)
		r.remove(applicant, applicant).Want(204)
		asker.waitForEvent("group.member.left", 1, "group_id", r.id)
		boss.waitForEvent("group.member.left", 1, "group_id", r.id)
		r.remove(admin, invitee).Want(204)
		guest.waitForEvent("group.member.left", 1, "group_id", r.id)
		boss.waitForEvent("group.member.left", 2, "group_id", r.id)
		idle.to.checkNoMore(t, 0)
		guest.checkOnlyEvents("group.invited", "group.request.resolved", "group.member.joined", "group.member.left")
		asker.checkOnlyEvents("group.request.created", "group.request.resolved", "group.member.joined", "group.member.left")
		boss.checkOnlyEvents("group.member.joined", "group.request.resolved", "group.request.created", "group.member.joined", "group.request.resolved", "group.member.left", "group.member.left")
	})
}

// TestBroadcastsReachWebhooks: each member but the sender is notified about its copy.
func TestBroadcastsReachWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		founder := o.Agent("founder")
		r := founder.group(obj{"enrollment_policy": "open"})
		members := o.NewAgents(12, "m")
		r.joinAll(members)
		own := founder.listens()
		hs := ConcurrentlyBounded(len(members), func(i int) *hook { return members[i].listens() })
		said := r.broadcast(founder)
		seen := map[any]bool{}
		for i, h := range hs {
			d := h.to.waitForDelivery(t, 1).judged(t, h)
			copyOf := members[i].Everything()[0]
			if d.body["message_id"] != copyOf["id"] || copyOf["group_id"] != r.id {
				t.Errorf("of the copy %v the member received %s", copyOf["id"], d.raw)
			}
			seen[d.body["message_id"]] = true
			h.waitForCounts(1, 0, 0, 0)
		}
		if len(seen) != len(members) || !Same(said["recipient_count"], len(members)) {
			t.Errorf("%d copies were announced to %d members", len(seen), len(members))
		}
		own.to.checkNoMore(t, 0)
	})
}

// TestSystemMessagesReachWebhooks: an invitation is a message in the inbox.
func TestSystemMessagesReachWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens()
		r := a.groupWithPolicy("closed")
		r.invited(a, b, "invited")
		d := h.to.waitForDelivery(t, 1).judged(t, h)
		if m := b.Everything()[0]; d.body["message_id"] != m["id"] || m["type"] != "svc.v1.group_invite" {
			t.Errorf("of the invitation %v the invitee received %s", m["id"], d.raw)
		}
	})
}
