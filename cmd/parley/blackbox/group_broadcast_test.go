package blackbox

import (
	"slices"
	"strings"
	"testing"
)

// copiesOf returns an agent's copies of broadcasts, oldest first.
func copiesOf(g *agent) []obj {
	g.t.Helper()
	var copies []obj
	for _, m := range g.everything() {
		if m["group_id"] != nil {
			copies = append(copies, m)
		}
	}
	slices.Reverse(copies)
	return copies
}

// TestBroadcast: every member but the sender receives a copy of its own.
func TestBroadcast(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		g, mate := o.agent("g"), o.agent("mate")
		b, c, outside := other.agent("b"), other.agent("c"), other.agent("outside")
		r := g.groupWithPolicy("closed", mate, b, c)
		sent := r.broadcast(g, obj{"type": "acme.v1.news", "encrypted_payload": "bmV3cw", "metadata": obj{"k": "v"}, "content_type": "text/plain", "sender_signing_kid": "kid", "self_encrypted_payload": "bWluZQ"})
		if !same(sent["recipient_count"], 3) || sent["encryption_version"] != "sender-key-v1" || at(sent, "metadata.provenance.via") != "group" || sent["status"] != "new" || sent["self_encrypted_payload"] != "bWluZQ" {
			t.Errorf("the sender's record: %v", sent)
		}
		seen, first := map[any]bool{sent["broadcast_id"]: true}, false
		for _, to := range []*agent{mate, b, c} {
			rows := to.everything()
			if len(rows) != 1 {
				t.Fatalf("%s has %d messages, want 1", to.name, len(rows))
			}
			m := rows[0]
			shaped(t, "copy", m, messageShape)
			for name, want := range map[string]any{
				"to_agent_id": to.id, "recipient_handle": to.handle, "from_agent_id": g.id, "sender_handle": g.handle, "group_id": r.id, "group_handle": r.handle, "conversation_id": sent["conversation_id"],
				"type": "acme.v1.news", "encrypted_payload": "bmV3cw", "encryption_version": "sender-key-v1", "content_type": "text/plain", "sender_signing_kid": "kid", "direction": "received", "created_at": sent["created_at"], "metadata": sent["metadata"],
			} {
				if !same(m[name], want) {
					t.Errorf("%s of the copy of %s is %v, want %v", name, to.name, m[name], want)
				}
			}
			if seen[m["id"]] {
				t.Errorf("the id of the copy of %s is not unique", to.name)
			}
			if to.org != o && m["self_encrypted_payload"] != nil {
				t.Errorf("%s sees the sender's copy", to.name)
			}
			seen[m["id"]] = true
			first = first || m["id"] == sent["id"] && sent["to_agent_id"] == to.id
			to.request("GET", "/messages/"+text(m, "id"), nil).want(200).is("to_agent_id", to.id, "group_id", r.id, "direction", "received")
		}
		if !first {
			t.Errorf("the sender's record matches no copy: %v", sent)
		}
		for _, none := range []*agent{g, outside} {
			if n := len(none.everything()); n != 0 {
				t.Errorf("%s has %d messages, want none", none.name, n)
			}
		}
		r.read(b).is("conversation_id", sent["conversation_id"])
		s.polled(t, b.pollURL, "").want(200).is("count", 1)
		st := c.stream(nilUUID)
		if e := st.next(); e.name != "group" {
			t.Errorf("the first event must be the join: %s", e.raw)
		}
		if m := st.message(); m["group_id"] != r.id || m["to_agent_id"] != c.id {
			t.Errorf("on the stream: %v", m)
		}
	})
}

// TestBroadcastRefusals: which agents cannot broadcast, and which broadcasts are
// rejected.
func TestBroadcastRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		g, outside := o.agent("g"), o.agent("outside")
		b := other.agent("b")
		r := g.groupWithPolicy("closed")
		r.tryBroadcast(g, nil).as("no other member").refusedByRule("no_recipients")
		r.read(g).is("conversation_id", nil)
		r.seats(b)
		r.tryBroadcast(outside, nil).as("no member, of the owner").refused(403, "not_member")
		r.tryBroadcast(g, nil, "X-Svc-Agent", b.id).as("another's agent").refused(403, "not_owner")
		g.request("POST", "/messages/sync", toHandle(r.handle)).as("sync").want(422)
		g.request("POST", "/messages", toHandle("#nothing@"+o.slug+".localhost")).refused(404, "not_found")
		g.request("POST", "/messages", toHandle(r.handle[1:])).as("an agent's handle").refused(404, "not_found")
		g.request("POST", "/messages", toHandle(r.handle, obj{"to_agent_id": b.id})).as("both").invalid("body", "")
		g.request("POST", "/messages", toHandle(r.handle, obj{"type": "x"})).as("schema").invalid("body.type", "")
		g.request("POST", "/messages", toHandle(r.handle, obj{"parent_conversation_id": nobody})).as("no such parent").refused(404, "not_found")
		r.tryBroadcast(g, nil, "X-Svc-Message-Signature", strings.Repeat("A", 86)).as("a wrong signature").refused(403, "signature_invalid")
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d messages of refused broadcasts", n)
		}
		o.post("/messages", toHandle(r.handle)).as("by the first agent").want(201).is("from_agent_id", g.id, "recipient_count", 1)
		g.request("POST", "/messages", toHandle(r.handle, obj{"encryption_version": "hpke-v1"})).as("either version").want(201)
		r.remove(b, b).want(204)
		r.tryBroadcast(b, nil).as("who left a private group").refused(404, "not_found")
	})
}

// TestWhoGetsABroadcast: the recipients are the members at the moment of the send.
func TestWhoGetsABroadcast(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, stays, leaves, late := o.agent("g"), o.agent("stays"), o.agent("leaves"), o.agent("late")
		r := g.group(obj{"enrollment_policy": "open"})
		r.joined(stays)
		r.joined(leaves)
		r.broadcast(g, obj{"encrypted_payload": "MQ"})
		r.joined(late)
		r.broadcast(g, obj{"encrypted_payload": "Mg"})
		r.remove(leaves, leaves).want(204)
		r.broadcast(stays, obj{"encrypted_payload": "Mw"})
		r.joined(leaves)
		r.broadcast(g, obj{"encrypted_payload": "NA"})
		late.delete(late.path("")).want(204)
		eventually(t, "the revoked one is out", func() bool { return r.read(g).at("member_count") == 3.0 })
		r.broadcast(g, obj{"encrypted_payload": "NQ"})
		for _, row := range []struct {
			g    *agent
			want []string
		}{
			{g, []string{"Mw"}}, {stays, []string{"MQ", "Mg", "NA", "NQ"}}, {leaves, []string{"MQ", "Mg", "NA", "NQ"}}, {late, []string{"Mg", "Mw", "NA"}},
		} {
			var got []string
			for _, m := range copiesOf(row.g) {
				got = append(got, text(m, "encrypted_payload"))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s received %v, want %v", row.g.name, got, row.want)
			}
		}
	})
}

// TestBroadcastReplies: a reply goes only to the original sender and stays in the group's
// conversation. A transcript shows an agent only its own rows.
func TestBroadcastReplies(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, b, c := s.org(t).agent("g"), s.org(t).agent("b"), s.org(t).agent("c")
		stranger := s.org(t).agent("stranger")
		r := g.groupWithPolicy("closed", b, c)
		one := r.broadcast(g)
		g.talk(one).is("status", "submitted")
		two := r.broadcast(c)
		if one["conversation_id"] != two["conversation_id"] {
			t.Error("two broadcasts are in different conversations")
		}
		g.talk(one).as("a second broadcast is no reply").is("status", "submitted")
		first := copiesOf(b)[0]
		reply := b.reply(first)
		if reply["to_agent_id"] != g.id || reply["group_id"] != nil || reply["group_handle"] != nil || reply["conversation_id"] != one["conversation_id"] {
			t.Errorf("the reply: %v", reply)
		}
		back := g.reply(reply)
		if back["to_agent_id"] != b.id || back["group_id"] != nil {
			t.Errorf("the reply to the reply: %v", back)
		}
		for _, reader := range []*agent{g, b, c} {
			reader.talk(one).as("the first reply opens it").is("status", "open")
		}
		count := map[*agent]int{g: 2, b: 3, c: 1}
		for reader, n := range count {
			if rows := reader.everything(); len(rows) != n {
				t.Errorf("%s has %d messages, want %d", reader.name, len(rows), n)
			}
		}
		path := "/conversations/" + text(one, "conversation_id")
		type row struct{ from, direction, group any }
		for reader, want := range map[*agent][]row{
			g: {{g.id, "sent", r.id}, {c.id, "received", r.id}, {b.id, "received", nil}, {g.id, "sent", nil}},
			b: {{g.id, "received", r.id}, {c.id, "received", r.id}, {b.id, "sent", nil}, {g.id, "received", nil}},
			c: {{g.id, "received", r.id}, {c.id, "sent", r.id}},
		} {
			rows := reader.list(path+"/messages", "?limit=2")
			var got []row
			for _, m := range rows {
				shaped(t, "row", m, messageShape)
				got = append(got, row{m["from_agent_id"], m["direction"], m["group_id"]})
				if m["direction"] == "received" && m["to_agent_id"] != reader.id {
					t.Errorf("%s sees messages that %v received", reader.name, m["to_agent_id"])
				}
			}
			if !slices.Equal(got, want) || !slices.IsSorted(ids(rows)) {
				t.Errorf("the transcript of %s is %v\n  want %v\n  ids %v", reader.name, got, want, ids(rows))
			}
			if n := len(reader.request("GET", reader.path("/conversations"), nil).want(200).items()); n != 1 {
				t.Errorf("%s takes part in %d conversations, want 1", reader.name, n)
			}
		}
		for _, rest := range []string{"", "/messages", "/participants"} {
			stranger.get(path+rest).refused(403, "not_owner")
		}
		c.tryReply(first, nil).as("another's copy").refused(403, "not_owner")
		c.get("/messages/"+text(first, "id")).as("another's copy").refused(403, "not_owner")
		c.get("/messages/"+text(reply, "id")).as("another's reply").refused(403, "not_owner")
		stranger.tryReply(first, nil).refused(403, "not_owner")
	})
}

// TestBroadcastReceipts: each copy has receipts of its own, which sender and recipient both
// see.
func TestBroadcastReceipts(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, b, c := s.org(t).agent("g"), s.org(t).agent("b"), s.org(t).agent("c")
		r := g.groupWithPolicy("closed", b, c)
		r.broadcast(g)
		ofB := copiesOf(b)[0]
		marked(t, g, ofB, "delivered")
		b.request("GET", "/messages/"+text(ofB, "id"), nil).want(200)
		read := marked(t, g, ofB, "read")
		if row := copiesOf(b)[0]; row["read_at"] != read["read_at"] || row["delivered_at"] != read["delivered_at"] {
			t.Errorf("b sees %v, the sender %v", row, read)
		}
		other := copiesOf(c)[0]
		marked(t, g, other, "delivered")
		c.reply(other)
		marked(t, g, other, "read")
	})
}

// TestBroadcastIdempotency: the scope of a key is the agent and the group.
func TestBroadcastIdempotency(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, b := pair(t, s)
		r, other := g.groupWithPolicy("closed", b), g.groupWithPolicy("closed", b)
		key := func(r *group, by *agent, more obj) *answer { return r.tryBroadcast(by, more, "Idempotency-Key", "k") }
		m := key(r, g, nil).first().body
		same := func(what string, a *answer) {
			t.Helper()
			a.as("%s", what).repeated(m).shaped(broadcastShape).is("broadcast_id", m["broadcast_id"], "recipient_count", 1, "direction", "sent", "group_id", r.id)
		}
		same("again", key(r, g, nil))
		same("sealed anew", key(r, g, obj{"encrypted_payload": "bmV3"}))
		key(r, g, obj{"type": "a.b.c"}).as("another type").refused(409, "idempotency_mismatch")
		key(other, g, nil).as("another group").first()
		key(r, b, nil).as("another sender").first()
		g.trySend(b, nil, "Idempotency-Key", "k").as("directly").first()
		late := b.org.agent("late")
		r.seats(late)
		same("with another member", key(r, g, nil))
		if n := len(late.everything()); n != 0 {
			t.Errorf("%d copies for an agent that joined later", n)
		}
		if n := len(b.everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
		r.role(g, b, "admin").want(200)
		r.remove(g, g).want(204)
		same("no member any more", key(r, g, nil))
		r.tryBroadcast(g, nil, "Idempotency-Key", "new").as("no member any more").refused(403, "not_member")
		b.request("DELETE", r.path(""), nil).want(204)
		same("deleted since", key(r, g, nil))
		r.tryBroadcast(g, nil, "Idempotency-Key", "new").as("deleted since").refused(410, "gone")

		made := 0
		var first obj
		answers := concurrently(12, func(int) *answer { return other.tryBroadcast(b, nil, "Idempotency-Key", "at once") })
		for _, a := range answers {
			if a.status == 201 {
				made, first = made+1, a.body
			}
		}
		for _, a := range answers {
			if a.status != 201 {
				a.repeated(first)
			}
		}
		if n := len(copiesOf(g)); made != 1 || n != 2 {
			t.Errorf("%d broadcasts for one concurrent key; %d copies arrived, want 2", made, n)
		}
	})
}

// TestGroupConversation: admins and the initiator can change its status. After it is
// closed, the next broadcast begins a new one.
func TestGroupConversation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, starter, member := o.agent("admin"), s.org(t).agent("starter"), s.org(t).agent("member")
		r := g.groupWithPolicy("closed", starter, member)
		parent := text(starter.send(member), "conversation_id")
		one := r.broadcast(starter, obj{"conversation_metadata": obj{"n": 1}, "parent_conversation_id": parent})
		two := r.broadcast(starter, obj{"conversation_metadata": obj{"n": 2}})
		first := text(one, "conversation_id")
		if text(two, "conversation_id") != first {
			t.Fatal("two broadcasts are in different conversations")
		}
		starter.talk(one).as("metadata counts when it is made").is("metadata", obj{"n": 1}, "parent_conversation_id", parent)
		path := "/conversations/" + first + "/status"
		move := func(by *agent, status string) *answer {
			return by.request("PATCH", path, obj{"status": status}).as("%s by %s", status, by.name)
		}
		move(member, "canceled").refused(403, "role_not_allowed")
		move(g, "rejected").refused(403, "role_not_allowed")
		move(member, "rejected").refused(403, "role_not_allowed")
		move(g, "paused").refused(409, "invalid_transition")
		member.reply(copiesOf(member)[0])
		move(starter, "paused").want(200).is("status", "paused")
		move(g, "open").want(200)
		o.patch(path, obj{"status": "input_required"}).as("the organization's admin acts where none is named").want(200)
		move(member, "completed").refused(403, "role_not_allowed")
		r.role(g, member, "admin").want(200)
		move(member, "completed").want(200)
		member.tryReply(copiesOf(member)[0], nil).refused(409, "conversation_closed")

		late := s.org(t).agent("late")
		r.seats(late)
		three := r.broadcast(g, obj{"conversation_metadata": obj{"n": 3}})
		if text(three, "conversation_id") == first {
			t.Error("a broadcast after the end is in the old conversation")
		}
		g.talk(three).is("status", "submitted", "metadata", obj{"n": 3}, "parent_conversation_id", nil)
		r.read(member).is("conversation_id", three["conversation_id"])
		for _, status := range []string{"canceled", "failed"} {
			m := r.broadcast(g) // the initiator
			g.request("PATCH", "/conversations/"+text(m, "conversation_id")+"/status", obj{"status": status}).want(200)
			if next := r.broadcast(g); next["conversation_id"] == m["conversation_id"] {
				t.Errorf("after %s: a broadcast is in the old conversation", status)
			}
		}
		g.request("PATCH", "/conversations/"+r.read(g).str("conversation_id")+"/status", obj{"status": "canceled"}).want(200)
		last := "/conversations/" + text(r.broadcast(starter), "conversation_id") + "/status"
		later := s.org(t).agent("later")
		r.seats(later)
		r.role(g, later, "admin").want(200)
		r.remove(g, g).want(204)
		g.request("PATCH", last, obj{"status": "canceled"}).as("who is a member no more").refused(403, "not_member")
		late.request("PATCH", last, obj{"status": "canceled"}).as("a member").refused(403, "role_not_allowed")
		later.request("PATCH", last, obj{"status": "canceled"}).as("an admin who has none of its messages").want(200).is("status", "canceled")
		s.org(t).patch(last, obj{"status": "canceled"}).as("a stranger").refused(403, "not_owner")
		if rows := starter.list("/conversations/"+first+"/messages", "?limit=50"); len(rows) != 3 {
			t.Errorf("the old conversation has %d rows for its initiator, want 3", len(rows))
		}
	})
}
