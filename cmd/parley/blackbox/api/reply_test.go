package api

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestReply(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		a.Conversation(m).Is("status", "submitted")
		r := b.TryReply(m, nil).Want(201).Shaped(kit.MessageShape)
		r.Is("from_agent_id", b.ID, "to_agent_id", a.ID, "conversation_id", m["conversation_id"], "direction", "sent", "status", "new",
			"sender_handle", b.Handle, "recipient_handle", a.Handle, "encryption_version", "hpke-v1", "content_type", "application/json",
			"payload_schema", nil, "sender_attestations", nil, "group_id", nil)
		a.Conversation(m).Is("status", "open")
		if rows := a.Everything(); len(rows) != 1 || kit.Text(rows[0], "id") != r.Str("id") {
			t.Errorf("the reply is not in the inbox: %v", rows)
		}
		own := b.Reply(r.Body)
		if own["to_agent_id"] != a.ID {
			t.Errorf("a reply to an own message goes to %v, want the other party", own["to_agent_id"])
		}
		again := a.Reply(m)
		if again["to_agent_id"] != b.ID {
			t.Errorf("a reply to an own message goes to %v, want the other party", again["to_agent_id"])
		}
		if a.Reply(r.Body)["to_agent_id"] != b.ID {
			t.Error("a reply does not go to the other party")
		}
		a.Conversation(m).Is("status", "open")
	})
}

func TestReplyByTheInitiatorOpens(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		if a.Reply(m)["to_agent_id"] != b.ID {
			t.Error("the target is not the other party")
		}
		b.Conversation(m).Is("status", "open")
	})
}

func TestReplyFields(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		fields := obj{
			"type": "acme.v1.answer", "encrypted_payload": strings.Repeat("z", 131072), "encryption_version": "sender-key-v1", "sender_signing_kid": "kid",
			"content_type": "text/plain", "payload_schema": "https://e.x/s", "self_encrypted_payload": "c2VsZg", "sender_attestations": attestation(8192),
		}
		r := b.TryReply(m, kit.Merged(fields, obj{"metadata": kit.Object(4096)})).Want(201).Shaped(kit.MessageShape)
		for name, v := range fields {
			r.Is(name, v)
		}
		for _, c := range []struct {
			field string
			value any
			kind  string
		}{
			{"type", nil, ""},
			{"type", "a.b", "string_pattern_mismatch"},
			{"type", "svc.v1.nope", ""},
			{"encrypted_payload", nil, ""},
			{"encrypted_payload", strings.Repeat("z", 131073), "string_too_long"},
			{"encrypted_payload", "a b", "string_pattern_mismatch"},
			{"encryption_version", "x", "enum"},
			{"metadata", []any{}, ""},
			{"sender_attestations", attestation(8193), ""},
			{"content_type", strings.Repeat("x", 256), "string_too_long"},
			{"sender_signing_kid", strings.Repeat("x", 256), "string_too_long"},
			{"self_encrypted_payload", strings.Repeat("x", 131073), "string_too_long"},
		} {
			b.TryReply(m, obj{c.field: c.value}).As("%s", c.field).Invalid("body."+c.field, c.kind)
		}
		b.Post("/messages/"+kit.Text(m, "id")+"/reply", obj{}).Invalid("body.type", "missing").Invalid("body.encrypted_payload", "missing")
		b.TryReply(m, obj{"to_agent_id": "ignored", "to_handle": 5, "conversation_metadata": []any{}}).As("fields of a send are unknown here").Want(201)
		if n := len(a.Everything()); n != 2 {
			t.Errorf("%d replies arrived, want 2", n)
		}
	})
}

func TestReplyActingAgent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, peer := s.Org(t), s.Org(t).Agent("peer")
		o.Agent("first")
		mine, other := o.Agent("mine"), o.Agent("other")
		m := peer.Send(mine)
		path := "/messages/" + kit.Text(m, "id") + "/reply"
		body := obj{"type": "a.b.c", "encrypted_payload": "QQ"}
		o.Post(path, body).As("the agent that received it").Want(201).Is("from_agent_id", mine.ID)
		sent := mine.Send(peer)
		o.Post("/messages/"+kit.Text(sent, "id")+"/reply", body).As("the agent that sent it").Want(201).Is("from_agent_id", mine.ID, "to_agent_id", peer.ID)
		o.Post(path, body, "X-Svc-Agent", mine.Name).Want(201).Is("from_agent_id", mine.ID)
		o.Post(path, body, "X-Svc-Agent", other.ID).As("an agent that takes no part").Want(403)
		inside := mine.Send(other)
		o.Post("/messages/"+kit.Text(inside, "id")+"/reply", body).As("owner of both").Want(201).Is("from_agent_id", other.ID, "to_agent_id", mine.ID)
		mine.TryReply(inside, nil).As("the sender by name").Want(201).Is("from_agent_id", mine.ID, "to_agent_id", other.ID)
	})
}

func TestReplyIntoATerminalConversation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, status := range []string{"completed", "failed", "canceled", "rejected"} {
			m := a.Send(b)
			conversation := "/conversations/" + kit.Text(m, "conversation_id")
			if status == "completed" {
				b.Reply(m)
			}
			b.Patch(conversation+"/status", obj{"status": status}).Want(200)
			for _, g := range []*kit.Agent{a, b} {
				g.TryReply(m, nil).As("%s", status).Refused(409, "conversation_closed")
			}
			a.Get(conversation).Want(200).Is("status", status)
		}
		for _, status := range []string{"paused", "input_required"} {
			m := a.Send(b)
			b.Reply(m)
			b.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": status}).Want(200)
			a.Reply(m)
			a.Conversation(m).As("a reply does not move it on").Is("status", status)
		}
	})
}

func TestReplyToARevokedAgent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		a.Delete(a.Path("")).Want(204)
		b.TryReply(m, nil).Refused(410, "gone")
	})
}
