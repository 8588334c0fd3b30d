package api

import (
	"reflect"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestBlocks: an agent that is blocked, or whose organization is, neither begins nor continues a
// conversation, and hears what anyone hears whom the policy keeps out. All else goes on.
func TestBlocks(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, p := s.Org(t), s.Org(t)
		b, a, other := o.Agent("blocker"), p.Agent("blocked"), p.Agent("other")
		before := a.Send(b)
		key := []string{"Idempotency-Key", "key-" + kit.RandomHex(6)}
		kept := a.TrySend(b, nil, key...).Want(201).Str("id")
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		closed := a.TrySend(b, nil).Refused(403, "incoming_policy")
		b.Patch(b.Path(""), obj{"incoming_policy": "accept_all"}).Want(200)
		path := b.Path("/blocks/")
		for range 2 {
			b.Put(path+a.Handle, nil).Want(204)
		}
		got := a.TrySend(b, nil).Refused(403, "incoming_policy")
		delete(got.Body, "request_id")
		delete(closed.Body, "request_id")
		if !reflect.DeepEqual(got.Body, closed.Body) {
			t.Errorf("the blocked agent heard %v, others hear %v", got.Body, closed.Body)
		}
		if repeated := a.TrySend(b, nil, key...).Str("id"); repeated != kept {
			t.Errorf("a repeated request answers %q, want %q", repeated, kept)
		}
		g := grouptest.NewWithPolicy(other, "open", a, b)
		g.Broadcast(a)
		a.Post("/messages/sync", kit.Message(b), "X-Svc-Agent", a.ID).Refused(403, "incoming_policy")
		a.TryReply(before, nil).Refused(403, "incoming_policy")
		status := "/conversations/" + kit.Text(before, "conversation_id") + "/status"
		b.Reply(before)
		a.Patch(status, obj{"status": "paused", "reason": "text"}).Refused(403, "incoming_policy")
		a.Patch(status, obj{"status": "paused"}).Want(200)
		b.TrySend(a, nil).Refused(403, "outgoing_policy")
		other.Send(b)
		row := b.Get(b.Path("/blocks")).Want(200).Items()[0]
		kit.Exactly(t, "the row", row, "agent_id org_id handle created_at")
		if row["agent_id"] != a.ID || row["org_id"] != p.ID || row["handle"] != a.Handle {
			t.Errorf("the block is %v", row)
		}
		for range 2 {
			b.Delete(path + a.ID).Want(204)
		}
		a.Send(b)
		b.Put(path+p.ID, nil).Want(204)
		other.TrySend(b, nil).Refused(403, "incoming_policy")
		if row := b.Get(b.Path("/blocks")).Want(200).Items()[0]; row["agent_id"] != nil || row["org_id"] != p.ID || row["handle"] != nil {
			t.Errorf("the block of an organization is %v", row)
		}
		b.Put(path+b.ID, nil).Want(422)
		b.Put(path+"name", nil).Want(422)
		b.Put(path+"nobody@"+o.Slug+".localhost", nil).Refused(404, "not_found")
		b.Put(path+"0190a5d0-0000-7000-8000-000000000000", nil).Refused(404, "not_found")
		a.Put(path+a.ID, nil).Refused(403, "not_owner")
		a.Get(b.Path("/blocks")).Refused(403, "not_owner")
		b.Delete(b.Path("")).Want(204)
		b.Put(path+a.ID, nil).Refused(410, "gone")
	})
}

// TestBlockedInvitations: an invitation by the blocked one, and into a group of a blocked
// organization, is answered as for anyone, and its target sees nothing of it.
func TestBlockedInvitations(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, p := s.Org(t), s.Org(t)
		b, a := o.Agent("blocker"), p.Agent("blocked")
		b.Put(b.Path("/blocks/"+a.ID), nil).Want(204)
		stream := b.Stream("")
		r := grouptest.NewWithPolicy(a, "closed")
		request := r.Invited(a, b, "invited")
		silent := func() {
			t.Helper()
			if got := b.Everything(); len(got) != 0 {
				t.Errorf("the inbox of the blocker has %v", got)
			}
			if got := b.List("/groups/invites", "?limit=20"); len(got) != 0 {
				t.Errorf("the invitations of the blocker are %v", got)
			}
		}
		silent()
		a.Delete("/groups/" + r.ID + "/requests/" + request).Want(204)
		silent()
		stream.Quiet()
		b.Delete(b.Path("/blocks/" + a.ID)).Want(204)
		r.Invited(a, b, "invited")
		if got := b.Everything(); len(got) != 1 {
			t.Errorf("without the block the inbox has %v", got)
		}
	})
}
