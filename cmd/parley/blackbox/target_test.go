package blackbox

import (
	"strings"
	"testing"
)

// toHandle is the smallest valid body of a send to a handle.
func toHandle(handle string, more ...obj) obj {
	return merged(obj{"to_handle": handle, "type": "svc.v1.dm", "encrypted_payload": "QQ"}, more...)
}

func TestTargets(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for _, handle := range []string{b.handle, strings.ToUpper(b.handle), "Bob@" + b.slug + ".LocalHost"} {
			a.post("/messages", toHandle(handle)).as("%s", handle).want(201).is("to_agent_id", b.id, "recipient_handle", b.handle)
		}
		a.post("/messages", obj{"to_agent_id": strings.ToUpper(b.id), "type": "a.b.c", "encrypted_payload": "QQ"}).as("id in capitals").want(201).is("to_agent_id", b.id)

		a.post("/messages", toHandle(b.handle, obj{"to_agent_id": b.id})).as("both").invalid("body", "")
		a.post("/messages", without(toHandle(""), "to_handle")).as("neither").invalid("body", "")
		a.post("/messages", message(b, obj{"to_agent_id": nil})).as("null").invalid("body", "")
		for _, bad := range []string{"", "bob", "@" + b.slug + ".localhost", "bob@", "bob@" + b.slug, "b_b@" + b.slug + ".localhost", "bob@-x.localhost", "a@b@c.localhost", "bob@" + b.slug + ".", "#@" + b.slug + ".localhost", "bob@" + b.slug + "..localhost", "bob@" + b.slug + ".localhost.", "bob@" + b.slug + ".local_host", "bob@" + b.slug + ".-x.org", "bob@" + b.slug + ".x-.org", "#g@" + b.slug + ".a..b", "bob@" + b.slug + ".localhost:x"} {
			a.post("/messages", toHandle(bad)).as("%q", bad).invalid("body.to_handle", "")
		}
		for _, unknown := range []string{"nobody@" + b.slug + ".localhost", "bob@" + freshSlug() + ".localhost", "bob@" + b.slug + ".elsewhere.example", "bob@" + b.slug + ".localhost.example"} {
			a.post("/messages", toHandle(unknown)).as("%s", unknown).refused(404, "not_found")
		}
		a.post("/messages", toHandle("#unknown@"+b.slug+".localhost")).as("unknown group").refused(404, "not_found")
		a.post("/messages", message(b, obj{"to_agent_id": nobody})).as("unknown id").refused(404, "not_found")
		a.post("/messages", message(b, obj{"to_agent_id": nilUUID})).as("nil id").refused(404, "not_found")
		if n := len(b.everything()); n != 4 {
			t.Errorf("%d messages arrived, want 4", n)
		}
	})
}

func TestSelfMessage(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		a.trySend(a, nil).refusedByRule("self_message")
		o.post("/messages", toHandle(a.handle)).as("by handle, default sender").refusedByRule("self_message")
		o.post("/messages", toHandle(b.handle), "X-Svc-Agent", "b").refusedByRule("self_message")
		a.trySend(b, nil).as("within one organization").want(201)
	})
}

func TestSenderResolution(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, peer := s.org(t), s.org(t).agent("peer")
		first, second, third := o.agent("first"), o.agent("second"), o.agent("third")
		from := func(a *answer, g *agent) {
			t.Helper()
			a.want(201).is("from_agent_id", g.id, "sender_handle", g.handle)
		}
		send := func(more obj, headers ...string) *answer { return o.post("/messages", message(peer, more), headers...) }
		from(send(nil).as("default"), first)
		for _, name := range []string{second.id, strings.ToUpper(second.id), second.handle, strings.ToUpper(second.handle), "second"} {
			from(send(nil, "X-Svc-Agent", name).as("header %s", name), second)
		}
		from(send(obj{"from_handle": third.handle}).as("from_handle"), third)
		from(send(obj{"from_handle": strings.ToUpper(third.handle)}, "X-Svc-Agent", second.id).as("both"), third)
		from(send(obj{"from_handle": nil}, "X-Svc-Agent", second.id).as("null from_handle"), second)
		for _, name := range []string{nobody, "nobody", peer.id, peer.handle, "nobody@" + o.slug + ".localhost", "first@" + o.slug + ".elsewhere"} {
			send(nil, "X-Svc-Agent", name).as("header %s", name).refused(403, "not_owner")
			if strings.Contains(name, "@") {
				send(obj{"from_handle": name}).as("from %s", name).refused(403, "not_owner")
			}
		}
		o.delete(first.path("")).want(204)
		from(send(nil).as("default after a revocation"), second)
		send(nil, "X-Svc-Agent", first.id).as("revoked").refused(403, "not_owner")
	})
}

func TestNoSender(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, peer := s.org(t), s.org(t).agent("peer")
		o.post("/messages", message(peer)).refused(400, "agent_required")
		g := o.agent("brief")
		g.delete(g.path("")).want(204)
		o.post("/messages", message(peer)).as("all revoked").refused(400, "agent_required")
	})
}

func TestOrderOfChecksOfASend(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		bad := obj{"type": "x", "to_agent_id": nobody}
		s.call(t, "", "POST", "/messages", verbatim("{"), "Content-Type", "application/json").as("401 before schema").refused(401, "not_authenticated")
		a.trySend(b, bad, "X-Svc-Agent", nobody).as("schema before acting agent").invalid("body.type", "")
		a.trySend(b, without(bad, "type"), "X-Svc-Agent", nobody).as("acting agent before existence").refused(403, "not_owner")
		a.trySend(b, obj{"to_agent_id": nobody, "parent_conversation_id": nobody}).as("existence").refused(404, "not_found")
		a.trySend(a, obj{"parent_conversation_id": nobody}).as("existence before self").refused(404, "not_found")
		a.trySend(b, obj{"type": "x"}, "Idempotency-Key", strings.Repeat("k", 256)).as("two complaints").
			invalid("body.type", "").invalid("header.Idempotency-Key", "")
	})
}

func TestPolicies(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		b.patch(b.path(""), obj{"incoming_policy": "groups_only"}).want(200)
		a.trySend(b, nil).refused(403, "incoming_policy")
		r := b.reply(m)
		a.reply(r)
		b.send(a)
		b.patch(b.path(""), obj{"incoming_policy": "accept_all", "outgoing_policy": "groups_only"}).want(200)
		b.trySend(a, nil).refused(403, "outgoing_policy")
		b.reply(m)
		a.send(b)
		b.patch(b.path(""), obj{"outgoing_policy": "send_all"}).want(200)
		b.send(a)
	})
}

func TestParentConversation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		stranger := s.org(t).agent("stranger")
		m := a.send(b)
		conversation := text(m, "conversation_id")
		under := obj{"parent_conversation_id": conversation}
		for _, g := range [][2]*agent{{a, b}, {b, a}, {b, stranger}} {
			sub := g[0].send(g[1], under)
			if text(sub, "conversation_id") == conversation {
				t.Error("the sub-conversation is its parent")
			}
			g[0].talk(sub).is("parent_conversation_id", conversation, "status", "submitted")
		}
		stranger.trySend(a, under).refused(403, "not_owner")
		stranger.trySend(a, obj{"parent_conversation_id": nobody}).refused(404, "not_found")
		a.patch("/conversations/"+conversation+"/status", obj{"status": "canceled"}).want(200)
		a.talk(a.send(b, under)).as("under a terminal one").is("parent_conversation_id", conversation)
		second := a.org.agent("second")
		second.trySend(b, under).as("another agent of a participant's organization").want(403)
	})
}
