package api

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestTargets(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, handle := range []string{b.Handle, strings.ToUpper(b.Handle), "Bob@" + b.Slug + ".LocalHost"} {
			a.Post("/messages", kit.ToHandle(handle)).As("%s", handle).Want(201).Is("to_agent_id", b.ID, "recipient_handle", b.Handle)
		}
		a.Post("/messages", obj{"to_agent_id": strings.ToUpper(b.ID), "type": "a.b.c", "encrypted_payload": "QQ"}).As("id in capitals").Want(201).Is("to_agent_id", b.ID)

		a.Post("/messages", kit.ToHandle(b.Handle, obj{"to_agent_id": b.ID})).As("both").Invalid("body", "")
		a.Post("/messages", kit.Without(kit.ToHandle(""), "to_handle")).As("neither").Invalid("body", "")
		a.Post("/messages", kit.Message(b, obj{"to_agent_id": nil})).As("null").Invalid("body", "")
		for _, bad := range []string{"", "bob", "@" + b.Slug + ".localhost", "bob@", "bob@" + b.Slug, "b_b@" + b.Slug + ".localhost", "bob@-x.localhost", "a@b@c.localhost", "bob@" + b.Slug + ".", "#@" + b.Slug + ".localhost", "bob@" + b.Slug + "..localhost", "bob@" + b.Slug + ".localhost.", "bob@" + b.Slug + ".local_host", "bob@" + b.Slug + ".-x.org", "bob@" + b.Slug + ".x-.org", "#g@" + b.Slug + ".a..b", "bob@" + b.Slug + ".localhost:x"} {
			a.Post("/messages", kit.ToHandle(bad)).As("%q", bad).Invalid("body.to_handle", "")
		}
		for _, unknown := range []string{"nobody@" + b.Slug + ".localhost", "bob@" + kit.FreshSlug() + ".localhost", "bob@" + b.Slug + ".elsewhere.example", "bob@" + b.Slug + ".localhost.example"} {
			a.Post("/messages", kit.ToHandle(unknown)).As("%s", unknown).Refused(404, "not_found")
		}
		a.Post("/messages", kit.ToHandle("#unknown@"+b.Slug+".localhost")).As("unknown group").Refused(404, "not_found")
		a.Post("/messages", kit.Message(b, obj{"to_agent_id": kit.Nobody})).As("unknown id").Refused(404, "not_found")
		a.Post("/messages", kit.Message(b, obj{"to_agent_id": kit.NilUUID})).As("nil id").Refused(404, "not_found")
		if n := len(b.Everything()); n != 4 {
			t.Errorf("%d messages arrived, want 4", n)
		}
	})
}

func TestSelfMessage(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		a.TrySend(a, nil).RefusedByRule("self_message")
		o.Post("/messages", kit.ToHandle(a.Handle)).As("by handle, default sender").RefusedByRule("self_message")
		o.Post("/messages", kit.ToHandle(b.Handle), "X-Svc-Agent", "b").RefusedByRule("self_message")
		a.TrySend(b, nil).As("within one organization").Want(201)
	})
}

func TestSenderResolution(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, peer := s.Org(t), s.Org(t).Agent("peer")
		first, second, third := o.Agent("first"), o.Agent("second"), o.Agent("third")
		from := func(a *kit.Answer, g *kit.Agent) {
			t.Helper()
			a.Want(201).Is("from_agent_id", g.ID, "sender_handle", g.Handle)
		}
		send := func(more obj, headers ...string) *kit.Answer {
			return o.Post("/messages", kit.Message(peer, more), headers...)
		}
		from(send(nil).As("default"), first)
		for _, name := range []string{second.ID, strings.ToUpper(second.ID), second.Handle, strings.ToUpper(second.Handle), "second"} {
			from(send(nil, "X-Svc-Agent", name).As("header %s", name), second)
		}
		from(send(obj{"from_handle": third.Handle}).As("from_handle"), third)
		from(send(obj{"from_handle": strings.ToUpper(third.Handle)}, "X-Svc-Agent", second.ID).As("both"), third)
		from(send(obj{"from_handle": nil}, "X-Svc-Agent", second.ID).As("null from_handle"), second)
		for _, name := range []string{kit.Nobody, "nobody", peer.ID, peer.Handle, "nobody@" + o.Slug + ".localhost", "first@" + o.Slug + ".elsewhere"} {
			send(nil, "X-Svc-Agent", name).As("header %s", name).Refused(403, "not_owner")
			if strings.Contains(name, "@") {
				send(obj{"from_handle": name}).As("from %s", name).Refused(403, "not_owner")
			}
		}
		o.Delete(first.Path("")).Want(204)
		from(send(nil).As("default after a revocation"), second)
		send(nil, "X-Svc-Agent", first.ID).As("revoked").Refused(403, "not_owner")
	})
}

func TestNoSender(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, peer := s.Org(t), s.Org(t).Agent("peer")
		o.Post("/messages", kit.Message(peer)).Refused(400, "agent_required")
		g := o.Agent("brief")
		g.Delete(g.Path("")).Want(204)
		o.Post("/messages", kit.Message(peer)).As("all revoked").Refused(400, "agent_required")
	})
}

func TestOrderOfChecksOfASend(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		bad := obj{"type": "x", "to_agent_id": kit.Nobody}
		s.Call(t, "", "POST", "/messages", kit.Verbatim("{"), "Content-Type", "application/json").As("401 before schema").Refused(401, "not_authenticated")
		a.TrySend(b, bad, "X-Svc-Agent", kit.Nobody).As("schema before acting agent").Invalid("body.type", "")
		a.TrySend(b, kit.Without(bad, "type"), "X-Svc-Agent", kit.Nobody).As("acting agent before existence").Refused(403, "not_owner")
		a.TrySend(b, obj{"to_agent_id": kit.Nobody, "parent_conversation_id": kit.Nobody}).As("existence").Refused(404, "not_found")
		a.TrySend(a, obj{"parent_conversation_id": kit.Nobody}).As("existence before self").Refused(404, "not_found")
		a.TrySend(b, obj{"type": "x"}, "Idempotency-Key", strings.Repeat("k", 256)).As("two complaints").
			Invalid("body.type", "").Invalid("header.Idempotency-Key", "")
	})
}

func TestPolicies(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		b.Patch(b.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
		a.TrySend(b, nil).Refused(403, "incoming_policy")
		r := b.Reply(m)
		a.Reply(r)
		b.Send(a)
		b.Patch(b.Path(""), obj{"incoming_policy": "accept_all", "outgoing_policy": "groups_only"}).Want(200)
		b.TrySend(a, nil).Refused(403, "outgoing_policy")
		b.Reply(m)
		a.Send(b)
		b.Patch(b.Path(""), obj{"outgoing_policy": "send_all"}).Want(200)
		b.Send(a)
	})
}

func TestParentConversation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		m := a.Send(b)
		conversation := kit.Text(m, "conversation_id")
		under := obj{"parent_conversation_id": conversation}
		for _, g := range [][2]*kit.Agent{{a, b}, {b, a}, {b, stranger}} {
			sub := g[0].Send(g[1], under)
			if kit.Text(sub, "conversation_id") == conversation {
				t.Error("the sub-conversation is its parent")
			}
			g[0].Conversation(sub).Is("parent_conversation_id", conversation, "status", "submitted")
		}
		stranger.TrySend(a, under).Refused(403, "not_owner")
		stranger.TrySend(a, obj{"parent_conversation_id": kit.Nobody}).Refused(404, "not_found")
		a.Patch("/conversations/"+conversation+"/status", obj{"status": "canceled"}).Want(200)
		a.Conversation(a.Send(b, under)).As("under a terminal one").Is("parent_conversation_id", conversation)
		second := a.Org.Agent("second")
		second.TrySend(b, under).As("another agent of a participant's organization").Want(403)
	})
}
