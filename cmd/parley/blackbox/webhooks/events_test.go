package webhooks

import (
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// everyEvent are all events that a webhook can subscribe to.
var everyEvent = []string{
	"message.received", "message.delivered", "message.read", "conversation.updated", "group.invited", "group.request.created",
	"group.request.resolved", "group.member.joined", "group.member.left", "group.mls", "webhook.disabled", "credential.expiring",
}

// TestEventsOfMessages: the recipient is notified when a message arrives,
// the sender when it is delivered and read by any channel.
func TestEventsOfMessages(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		of, to := hooktest.Wanting(a, everyEvent...), hooktest.Wanting(b, everyEvent...)
		m := a.Send(b)
		to.WaitForEvent("message.received", 1, "message_id", kit.Text(m, "id"))
		of.WaitForEvent("message.delivered", 1, "message_id", kit.Text(m, "id"))
		b.Post("/messages/"+kit.Text(m, "id")+"/read", nil, "X-Svc-Agent", b.ID).Want(200)
		of.WaitForEvent("message.read", 1, "message_id", kit.Text(m, "id"))
		b.Get("/messages/"+kit.Text(m, "id"), "X-Svc-Agent", b.ID).Want(200)
		b.Inbox("")
		of.To.CheckNoMore(t, 2)
		of.CheckOnlyEvents("message.delivered", "message.read")
		to.CheckOnlyEvents("message.received")
	})
}

// TestReceiptsOfOtherChannelsAreNotified: if the recipient has no webhook, the sender is
// notified when the message is transferred or read through an inbox page, a stream or a
// reply.
func TestReceiptsOfOtherChannelsAreNotified(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		of := hooktest.Wanting(a, "message.delivered", "message.read")
		paged := a.Send(b)
		of.To.CheckNoMore(t, 0)
		b.Inbox("")
		of.WaitForEvent("message.delivered", 1, "message_id", kit.Text(paged, "id"))
		b.Stream("")
		streamed := a.Send(b)
		of.WaitForEvent("message.delivered", 2, "message_id", kit.Text(streamed, "id"))
		r := b.Reply(streamed)
		of.WaitForEvent("message.read", 1, "message_id", kit.Text(streamed, "id"))
		back := hooktest.Wanting(b, "message.delivered", "message.read")
		of.WaitForEvent("message.delivered", 3, "message_id", kit.Text(a.Reply(r), "id"))
		back.WaitForEvent("message.read", 1, "message_id", kit.Text(r, "id"))
		b.Post(b.Path("/messages/ack"), obj{"up_to": kit.Text(streamed, "id")}).Want(200)
		of.WaitForEvent("message.read", 2, "message_id", kit.Text(paged, "id"))
		of.CheckOnlyEvents("message.delivered", "message.delivered", "message.delivered", "message.read", "message.read")
		// The reply was read without being transferred before.
		if got := strings.Fields(back.To.Events()); !slices.Contains(got, "message.read") || len(got) > 2 {
			t.Errorf("of one reply the sender was notified about %v", got)
		}
	})
}

// TestOneEventOfAReceipt: however many channels bring a message at the same instant, its sender
// hears once that it was delivered, and once that it was read.
func TestOneEventOfAReceipt(t *testing.T) {
	const messages = 20
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		of := hooktest.Wanting(a, "message.delivered", "message.read")
		hooktest.Listening(b)
		hooktest.Listening(b)
		b.Stream("")
		want := []string{}
		kit.ConcurrentlyBounded(messages, func(int) bool {
			m := a.Send(b)
			id := kit.Text(m, "id")
			kit.Concurrently(4, func(i int) bool {
				switch i {
				case 0:
					b.Inbox("")
				case 1:
					b.Get("/messages/"+id, "X-Svc-Agent", b.ID).Want(200)
				case 2:
					b.Post("/messages/"+id+"/read", nil, "X-Svc-Agent", b.ID).Want(200)
				default:
					b.Reply(m)
				}
				return true
			})
			return true
		})
		for range messages {
			want = append(want, "message.delivered", "message.read")
		}
		of.To.WaitForDelivery(t, 2*messages)
		of.To.CheckNoMore(t, 2*messages)
		of.CheckOnlyEvents(want...)
	})
}

// TestEventsOfConversations: all participants except the agent that made the change are
// notified.
func TestEventsOfConversations(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		ha, hb := hooktest.Wanting(a, "conversation.updated"), hooktest.Wanting(b, "conversation.updated")
		m := a.Send(b)
		conversation := kit.Text(m, "conversation_id")
		b.Reply(m)
		ha.WaitForEvent("conversation.updated", 1, "conversation_id", conversation)
		a.Patch("/conversations/"+conversation+"/status", obj{"status": "paused"}).Want(200)
		hb.WaitForEvent("conversation.updated", 1, "conversation_id", conversation)
		b.Patch("/conversations/"+conversation+"/status", obj{"status": "open"}).Want(200)
		ha.WaitForEvent("conversation.updated", 2, "conversation_id", conversation)
		ha.To.CheckNoMore(t, 2)
		ha.CheckOnlyEvents("conversation.updated", "conversation.updated")
		hb.CheckOnlyEvents("conversation.updated")
	})
}

// TestEventsOfGroups: an invitee is notified about an invitation, the applicant and the
// admins about a request and its outcome, the member and the admins when a member joins
// or leaves.
func TestEventsOfGroups(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		o, p := s.Org(t), s.Org(t)
		admin, plain, invitee, applicant := o.Agent("admin"), o.Agent("plain"), p.Agent("invitee"), p.Agent("applicant")
		r := grouptest.NewWithPolicy(admin, "closed", plain)
		events := everyEvent[4:]
		boss, idle, guest, asker := hooktest.Wanting(admin, events...), hooktest.Wanting(plain, events...), hooktest.Wanting(invitee, events...), hooktest.Wanting(applicant, events...)
		request := r.Invited(admin, invitee, "invited")
		guest.WaitForEvent("group.invited", 1, "request_id", request)
		r.Joined(invitee)
		guest.WaitForEvent("group.member.joined", 1, "group_id", r.ID)
		boss.WaitForEvent("group.member.joined", 1, "group_id", r.ID)
		r.Patch(obj{"enrollment_policy": "majority"}).Want(200)
		filed := kit.Text(r.Applied(applicant), "id")
		asker.WaitForEvent("group.request.created", 1, "request_id", filed)
		boss.WaitForEvent("group.request.created", 1, "request_id", filed)
		for _, g := range []*kit.Agent{admin, plain, invitee} {
			r.Vote(g, filed, "approve")
		}
		asker.WaitForEvent("group.request.resolved", 1, "request_id", filed)
		boss.WaitForEvent("group.request.resolved", 2, "request_id", filed) // after the event of the invitation
		asker.WaitForEvent("group.member.joined", 1, "group_id", r.ID)
		boss.WaitForEvent("group.member.joined", 2, "group_id", r.ID)
		r.Remove(applicant, applicant).Want(204)
		asker.WaitForEvent("group.member.left", 1, "group_id", r.ID)
		boss.WaitForEvent("group.member.left", 1, "group_id", r.ID)
		r.Remove(admin, invitee).Want(204)
		guest.WaitForEvent("group.member.left", 1, "group_id", r.ID)
		boss.WaitForEvent("group.member.left", 2, "group_id", r.ID)
		for _, d := range boss.To.Deliveries() {
			named := d.Body["event"] == "group.member.joined" || d.Body["event"] == "group.member.left"
			if handle, _ := d.Body["member_handle"].(string); named != (d.Body["member_agent_id"] != nil) || named != strings.Contains(handle, "@") {
				t.Errorf("an admin received %s", d.Raw)
			}
		}
		if d := guest.WaitForEvent("group.member.joined", 1, "group_id", r.ID); d.Body["member_agent_id"] != invitee.ID {
			t.Errorf("of its own seat the member received %s", d.Raw)
		}
		idle.To.CheckNoMore(t, 0)
		guest.CheckOnlyEvents("group.invited", "group.request.resolved", "group.member.joined", "group.member.left")
		asker.CheckOnlyEvents("group.request.created", "group.request.resolved", "group.member.joined", "group.member.left")
		boss.CheckOnlyEvents("group.member.joined", "group.request.resolved", "group.request.created", "group.member.joined", "group.request.resolved", "group.member.left", "group.member.left")
	})
}

// TestBroadcastsReachWebhooks: each member but the sender is notified about its copy.
func TestBroadcastsReachWebhooks(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		founder := o.Agent("founder")
		r := grouptest.New(founder, obj{"enrollment_policy": "open"})
		members := o.NewAgents(12, "m")
		r.JoinAll(members)
		own := hooktest.Listening(founder)
		hs := kit.ConcurrentlyBounded(len(members), func(i int) *hooktest.Hook { return hooktest.Listening(members[i]) })
		said := r.Broadcast(founder)
		seen := map[any]bool{}
		for i, h := range hs {
			d := h.To.WaitForDelivery(t, 1).Judged(t, h)
			copyOf := members[i].Everything()[0]
			if d.Body["message_id"] != copyOf["id"] || copyOf["group_id"] != r.ID {
				t.Errorf("of the copy %v the member received %s", copyOf["id"], d.Raw)
			}
			seen[d.Body["message_id"]] = true
			h.WaitForCounts(1, 0, 0, 0)
		}
		if len(seen) != len(members) || !kit.Same(said["recipient_count"], len(members)) {
			t.Errorf("%d copies were announced to %d members", len(seen), len(members))
		}
		own.To.CheckNoMore(t, 0)
	})
}

// TestSystemMessagesReachWebhooks: an invitation is a message in the inbox.
func TestSystemMessagesReachWebhooks(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b)
		r := grouptest.NewWithPolicy(a, "closed")
		r.Invited(a, b, "invited")
		d := h.To.WaitForDelivery(t, 1).Judged(t, h)
		if m := b.Everything()[0]; d.Body["message_id"] != m["id"] || m["type"] != "svc.v1.group_invite" {
			t.Errorf("of the invitation %v the invitee received %s", m["id"], d.Raw)
		}
	})
}
