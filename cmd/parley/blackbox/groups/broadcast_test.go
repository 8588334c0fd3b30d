package groups

import (
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestBroadcast: every member but the sender receives a copy of its own.
func TestBroadcast(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		g, mate := o.Agent("g"), o.Agent("mate")
		b, c, outside := other.Agent("b"), other.Agent("c"), other.Agent("outside")
		r := grouptest.NewWithPolicy(g, "closed", mate, b, c)
		sent := r.Broadcast(g, obj{"type": "acme.v1.news", "encrypted_payload": "bmV3cw", "metadata": obj{"k": "v"}, "content_type": "text/plain", "sender_signing_kid": "kid", "self_encrypted_payload": "bWluZQ"})
		if !kit.Same(sent["recipient_count"], 3) || sent["encryption_version"] != "sender-key-v1" || kit.At(sent, "metadata.provenance.via") != "group" || sent["status"] != "new" || sent["self_encrypted_payload"] != "bWluZQ" {
			t.Errorf("the sender's record: %v", sent)
		}
		seen, first := map[any]bool{sent["broadcast_id"]: true}, false
		for _, to := range []*kit.Agent{mate, b, c} {
			rows := to.Everything()
			if len(rows) != 1 {
				t.Fatalf("%s has %d messages, want 1", to.Name, len(rows))
			}
			m := rows[0]
			kit.Shaped(t, "copy", m, kit.MessageShape)
			for name, want := range map[string]any{
				"to_agent_id": to.ID, "recipient_handle": to.Handle, "from_agent_id": g.ID, "sender_handle": g.Handle, "group_id": r.ID, "group_handle": r.Handle, "conversation_id": sent["conversation_id"],
				"type": "acme.v1.news", "encrypted_payload": "bmV3cw", "encryption_version": "sender-key-v1", "content_type": "text/plain", "sender_signing_kid": "kid", "direction": "received", "created_at": sent["created_at"], "metadata": sent["metadata"],
			} {
				if !kit.Same(m[name], want) {
					t.Errorf("%s of the copy of %s is %v, want %v", name, to.Name, m[name], want)
				}
			}
			if seen[m["id"]] {
				t.Errorf("the id of the copy of %s is not unique", to.Name)
			}
			if to.Org != o && m["self_encrypted_payload"] != nil {
				t.Errorf("%s sees the sender's copy", to.Name)
			}
			seen[m["id"]] = true
			first = first || m["id"] == sent["id"] && sent["to_agent_id"] == to.ID
			to.Request("GET", "/messages/"+kit.Text(m, "id"), nil).Want(200).Is("to_agent_id", to.ID, "group_id", r.ID, "direction", "received")
		}
		if !first {
			t.Errorf("the sender's record matches no copy: %v", sent)
		}
		for _, none := range []*kit.Agent{g, outside} {
			if n := len(none.Everything()); n != 0 {
				t.Errorf("%s has %d messages, want none", none.Name, n)
			}
		}
		r.Read(b).Is("conversation_id", sent["conversation_id"])
		s.Polled(t, b.PollURL, "").Want(200).Is("count", 1)
		st := c.Stream(kit.NilUUID)
		if e := st.Next(); e.Name != "group" {
			t.Errorf("the first event must be the join: %s", e.Raw)
		}
		if m := st.Message(); m["group_id"] != r.ID || m["to_agent_id"] != c.ID {
			t.Errorf("on the stream: %v", m)
		}
	})
}

// TestBroadcastRefusals: which agents cannot broadcast, and which broadcasts are
// rejected.
func TestBroadcastRefusals(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		g, outside := o.Agent("g"), o.Agent("outside")
		b := other.Agent("b")
		r := grouptest.NewWithPolicy(g, "closed")
		r.TryBroadcast(g, nil).As("no other member").RefusedByRule("no_recipients")
		r.Read(g).Is("conversation_id", nil)
		r.Seats(b)
		r.TryBroadcast(outside, nil).As("no member, of the owner").Refused(403, "not_member")
		r.TryBroadcast(g, nil, "X-Svc-Agent", b.ID).As("another's agent").Refused(403, "not_owner")
		g.Request("POST", "/messages/sync", kit.ToHandle(r.Handle)).As("sync").Want(422)
		g.Request("POST", "/messages", kit.ToHandle("#nothing@"+o.Slug+".localhost")).Refused(404, "not_found")
		g.Request("POST", "/messages", kit.ToHandle(r.Handle[1:])).As("an agent's handle").Refused(404, "not_found")
		g.Request("POST", "/messages", kit.ToHandle(r.Handle, obj{"to_agent_id": b.ID})).As("both").Invalid("body", "")
		g.Request("POST", "/messages", kit.ToHandle(r.Handle, obj{"type": "x"})).As("schema").Invalid("body.type", "")
		g.Request("POST", "/messages", kit.ToHandle(r.Handle, obj{"parent_conversation_id": kit.Nobody})).As("no such parent").Refused(404, "not_found")
		r.TryBroadcast(g, nil, "X-Svc-Message-Signature", strings.Repeat("A", 86)).As("a wrong signature").Refused(403, "signature_invalid")
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages of refused broadcasts", n)
		}
		o.Post("/messages", kit.ToHandle(r.Handle)).As("by the first agent").Want(201).Is("from_agent_id", g.ID, "recipient_count", 1)
		g.Request("POST", "/messages", kit.ToHandle(r.Handle, obj{"encryption_version": "hpke-v1"})).As("either version").Want(201)
		r.Remove(b, b).Want(204)
		r.TryBroadcast(b, nil).As("who left a private group").Refused(404, "not_found")
	})
}

// TestWhoGetsABroadcast: the recipients are the members at the moment of the send.
func TestWhoGetsABroadcast(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, stays, leaves, late := o.Agent("g"), o.Agent("stays"), o.Agent("leaves"), o.Agent("late")
		r := grouptest.New(g, obj{"enrollment_policy": "open"})
		r.Joined(stays)
		r.Joined(leaves)
		r.Broadcast(g, obj{"encrypted_payload": "MQ"})
		r.Joined(late)
		r.Broadcast(g, obj{"encrypted_payload": "Mg"})
		r.Remove(leaves, leaves).Want(204)
		r.Broadcast(stays, obj{"encrypted_payload": "Mw"})
		r.Joined(leaves)
		r.Broadcast(g, obj{"encrypted_payload": "NA"})
		late.Delete(late.Path("")).Want(204)
		kit.Eventually(t, "the revoked one is out", func() bool { return r.Read(g).At("member_count") == 3.0 })
		r.Broadcast(g, obj{"encrypted_payload": "NQ"})
		for _, row := range []struct {
			g    *kit.Agent
			want []string
		}{
			{g, []string{"Mw"}}, {stays, []string{"MQ", "Mg", "NA", "NQ"}}, {leaves, []string{"MQ", "Mg", "NA", "NQ"}}, {late, []string{"Mg", "Mw", "NA"}},
		} {
			var got []string
			for _, m := range grouptest.CopiesOf(row.g) {
				got = append(got, kit.Text(m, "encrypted_payload"))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s received %v, want %v", row.g.Name, got, row.want)
			}
		}
	})
}

// TestBroadcastReplies: a reply goes only to the original sender and stays in the group's
// conversation. A transcript shows an agent only its own rows.
func TestBroadcastReplies(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, b, c := s.Org(t).Agent("g"), s.Org(t).Agent("b"), s.Org(t).Agent("c")
		stranger := s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(g, "closed", b, c)
		one := r.Broadcast(g)
		g.Conversation(one).Is("status", "submitted")
		two := r.Broadcast(c)
		if one["conversation_id"] != two["conversation_id"] {
			t.Error("two broadcasts are in different conversations")
		}
		g.Conversation(one).As("a second broadcast is no reply").Is("status", "submitted")
		first := grouptest.CopiesOf(b)[0]
		reply := b.Reply(first)
		if reply["to_agent_id"] != g.ID || reply["group_id"] != nil || reply["group_handle"] != nil || reply["conversation_id"] != one["conversation_id"] {
			t.Errorf("the reply: %v", reply)
		}
		back := g.Reply(reply)
		if back["to_agent_id"] != b.ID || back["group_id"] != nil {
			t.Errorf("the reply to the reply: %v", back)
		}
		for _, reader := range []*kit.Agent{g, b, c} {
			reader.Conversation(one).As("the first reply opens it").Is("status", "open")
		}
		count := map[*kit.Agent]int{g: 2, b: 3, c: 1}
		for reader, n := range count {
			if rows := reader.Everything(); len(rows) != n {
				t.Errorf("%s has %d messages, want %d", reader.Name, len(rows), n)
			}
		}
		path := "/conversations/" + kit.Text(one, "conversation_id")
		type row struct{ from, direction, group any }
		for reader, want := range map[*kit.Agent][]row{
			g: {{g.ID, "sent", r.ID}, {c.ID, "received", r.ID}, {b.ID, "received", nil}, {g.ID, "sent", nil}},
			b: {{g.ID, "received", r.ID}, {c.ID, "received", r.ID}, {b.ID, "sent", nil}, {g.ID, "received", nil}},
			c: {{g.ID, "received", r.ID}, {c.ID, "sent", r.ID}},
		} {
			rows := reader.List(path+"/messages", "?limit=2")
			var got []row
			for _, m := range rows {
				kit.Shaped(t, "row", m, kit.MessageShape)
				got = append(got, row{m["from_agent_id"], m["direction"], m["group_id"]})
				if m["direction"] == "received" && m["to_agent_id"] != reader.ID {
					t.Errorf("%s sees messages that %v received", reader.Name, m["to_agent_id"])
				}
			}
			if !slices.Equal(got, want) || !slices.IsSorted(kit.IDs(rows)) {
				t.Errorf("the transcript of %s is %v\n  want %v\n  ids %v", reader.Name, got, want, kit.IDs(rows))
			}
			if n := len(reader.Request("GET", reader.Path("/conversations"), nil).Want(200).Items()); n != 1 {
				t.Errorf("%s takes part in %d conversations, want 1", reader.Name, n)
			}
		}
		for _, rest := range []string{"", "/messages", "/participants"} {
			stranger.Get(path+rest).Refused(403, "not_owner")
		}
		c.TryReply(first, nil).As("another's copy").Refused(403, "not_owner")
		c.Get("/messages/"+kit.Text(first, "id")).As("another's copy").Refused(403, "not_owner")
		c.Get("/messages/"+kit.Text(reply, "id")).As("another's reply").Refused(403, "not_owner")
		stranger.TryReply(first, nil).Refused(403, "not_owner")
	})
}

// TestBroadcastReceipts: each copy has receipts of its own, which sender and recipient both
// see.
func TestBroadcastReceipts(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, b, c := s.Org(t).Agent("g"), s.Org(t).Agent("b"), s.Org(t).Agent("c")
		r := grouptest.NewWithPolicy(g, "closed", b, c)
		r.Broadcast(g)
		ofB := grouptest.CopiesOf(b)[0]
		kit.Marked(t, g, ofB, "delivered")
		b.Request("GET", "/messages/"+kit.Text(ofB, "id"), nil).Want(200)
		read := kit.Marked(t, g, ofB, "read")
		if row := grouptest.CopiesOf(b)[0]; row["read_at"] != read["read_at"] || row["delivered_at"] != read["delivered_at"] {
			t.Errorf("b sees %v, the sender %v", row, read)
		}
		other := grouptest.CopiesOf(c)[0]
		kit.Marked(t, g, other, "delivered")
		c.Reply(other)
		kit.Marked(t, g, other, "read")
	})
}

// TestBroadcastIdempotency: the scope of a key is the agent and the group.
func TestBroadcastIdempotency(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, b := kit.Pair(t, s)
		r, other := grouptest.NewWithPolicy(g, "closed", b), grouptest.NewWithPolicy(g, "closed", b)
		key := func(r *grouptest.Group, by *kit.Agent, more obj) *kit.Answer {
			return r.TryBroadcast(by, more, "Idempotency-Key", "k")
		}
		m := key(r, g, nil).First().Body
		same := func(what string, a *kit.Answer) {
			t.Helper()
			a.As("%s", what).Repeated(m).Shaped(grouptest.BroadcastShape).Is("broadcast_id", m["broadcast_id"], "recipient_count", 1, "direction", "sent", "group_id", r.ID)
		}
		same("again", key(r, g, nil))
		same("sealed anew", key(r, g, obj{"encrypted_payload": "bmV3"}))
		key(r, g, obj{"type": "a.b.c"}).As("another type").Refused(409, "idempotency_mismatch")
		key(other, g, nil).As("another group").First()
		key(r, b, nil).As("another sender").First()
		g.TrySend(b, nil, "Idempotency-Key", "k").As("directly").First()
		late := b.Org.Agent("late")
		r.Seats(late)
		same("with another member", key(r, g, nil))
		if n := len(late.Everything()); n != 0 {
			t.Errorf("%d copies for an agent that joined later", n)
		}
		if n := len(b.Everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
		r.Role(g, b, "admin").Want(200)
		r.Remove(g, g).Want(204)
		same("no member any more", key(r, g, nil))
		r.TryBroadcast(g, nil, "Idempotency-Key", "new").As("no member any more").Refused(403, "not_member")
		b.Request("DELETE", r.Path(""), nil).Want(204)
		same("deleted since", key(r, g, nil))
		r.TryBroadcast(g, nil, "Idempotency-Key", "new").As("deleted since").Refused(410, "gone")

		made := 0
		var first obj
		answers := kit.Concurrently(12, func(int) *kit.Answer { return other.TryBroadcast(b, nil, "Idempotency-Key", "at once") })
		for _, a := range answers {
			if a.Status == 201 {
				made, first = made+1, a.Body
			}
		}
		for _, a := range answers {
			if a.Status != 201 {
				a.Repeated(first)
			}
		}
		if n := len(grouptest.CopiesOf(g)); made != 1 || n != 2 {
			t.Errorf("%d broadcasts for one concurrent key; %d copies arrived, want 2", made, n)
		}
	})
}

// TestGroupConversation: admins and the initiator can change its status. After it is
// closed, the next broadcast begins a new one.
func TestGroupConversation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, starter, member := o.Agent("admin"), s.Org(t).Agent("starter"), s.Org(t).Agent("member")
		r := grouptest.NewWithPolicy(g, "closed", starter, member)
		parent := kit.Text(starter.Send(member), "conversation_id")
		one := r.Broadcast(starter, obj{"conversation_metadata": obj{"n": 1}, "parent_conversation_id": parent})
		two := r.Broadcast(starter, obj{"conversation_metadata": obj{"n": 2}})
		first := kit.Text(one, "conversation_id")
		if kit.Text(two, "conversation_id") != first {
			t.Fatal("two broadcasts are in different conversations")
		}
		starter.Conversation(one).As("metadata counts when it is made").Is("metadata", obj{"n": 1}, "parent_conversation_id", parent)
		path := "/conversations/" + first + "/status"
		move := func(by *kit.Agent, status string) *kit.Answer {
			return by.Request("PATCH", path, obj{"status": status}).As("%s by %s", status, by.Name)
		}
		move(member, "canceled").Refused(403, "role_not_allowed")
		move(g, "rejected").Refused(403, "role_not_allowed")
		move(member, "rejected").Refused(403, "role_not_allowed")
		move(g, "paused").Refused(409, "invalid_transition")
		member.Reply(grouptest.CopiesOf(member)[0])
		move(starter, "paused").Want(200).Is("status", "paused")
		move(g, "open").Want(200)
		o.Patch(path, obj{"status": "input_required"}).As("the organization's admin acts where none is named").Want(200)
		move(member, "completed").Refused(403, "role_not_allowed")
		r.Role(g, member, "admin").Want(200)
		move(member, "completed").Want(200)
		member.TryReply(grouptest.CopiesOf(member)[0], nil).Refused(409, "conversation_closed")

		late := s.Org(t).Agent("late")
		r.Seats(late)
		three := r.Broadcast(g, obj{"conversation_metadata": obj{"n": 3}})
		if kit.Text(three, "conversation_id") == first {
			t.Error("a broadcast after the end is in the old conversation")
		}
		g.Conversation(three).Is("status", "submitted", "metadata", obj{"n": 3}, "parent_conversation_id", nil)
		r.Read(member).Is("conversation_id", three["conversation_id"])
		for _, status := range []string{"canceled", "failed"} {
			m := r.Broadcast(g) // the initiator
			g.Request("PATCH", "/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": status}).Want(200)
			if next := r.Broadcast(g); next["conversation_id"] == m["conversation_id"] {
				t.Errorf("after %s: a broadcast is in the old conversation", status)
			}
		}
		g.Request("PATCH", "/conversations/"+r.Read(g).Str("conversation_id")+"/status", obj{"status": "canceled"}).Want(200)
		last := "/conversations/" + kit.Text(r.Broadcast(starter), "conversation_id") + "/status"
		later := s.Org(t).Agent("later")
		r.Seats(later)
		r.Role(g, later, "admin").Want(200)
		r.Remove(g, g).Want(204)
		g.Request("PATCH", last, obj{"status": "canceled"}).As("who is a member no more").Refused(403, "not_member")
		late.Request("PATCH", last, obj{"status": "canceled"}).As("a member").Refused(403, "role_not_allowed")
		later.Request("PATCH", last, obj{"status": "canceled"}).As("an admin who has none of its messages").Want(200).Is("status", "canceled")
		s.Org(t).Patch(last, obj{"status": "canceled"}).As("a stranger").Refused(403, "not_owner")
		if rows := starter.List("/conversations/"+first+"/messages", "?limit=50"); len(rows) != 3 {
			t.Errorf("the old conversation has %d rows for its initiator, want 3", len(rows))
		}
	})
}
