package blackbox

import (
	"strings"
	"testing"
)

func TestReply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		a.talk(m).is("status", "submitted")
		r := b.tryReply(m, nil).want(201).shaped(messageShape)
		r.is("from_agent_id", b.id, "to_agent_id", a.id, "conversation_id", m["conversation_id"], "direction", "sent", "status", "new",
			"sender_handle", b.handle, "recipient_handle", a.handle, "encryption_version", "hpke-v1", "content_type", "application/json",
			"payload_schema", nil, "sender_attestations", nil, "group_id", nil)
		a.talk(m).is("status", "open")
		if rows := a.everything(); len(rows) != 1 || text(rows[0], "id") != r.str("id") {
			t.Errorf("the reply is not in the inbox: %v", rows)
		}
		own := b.reply(r.body)
		if own["to_agent_id"] != a.id {
			t.Errorf("a reply to an own message goes to %v, want the other party", own["to_agent_id"])
		}
		again := a.reply(m)
		if again["to_agent_id"] != b.id {
			t.Errorf("a reply to an own message goes to %v, want the other party", again["to_agent_id"])
		}
		if a.reply(r.body)["to_agent_id"] != b.id {
			t.Error("a reply does not go to the other party")
		}
		a.talk(m).is("status", "open")
	})
}

func TestReplyByTheInitiatorOpens(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		if a.reply(m)["to_agent_id"] != b.id {
			t.Error("the target is not the other party")
		}
		b.talk(m).is("status", "open")
	})
}

func TestReplyFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		fields := obj{
			"type": "acme.v1.answer", "encrypted_payload": strings.Repeat("z", 131072), "encryption_version": "sender-key-v1", "sender_signing_kid": "kid",
			"content_type": "text/plain", "payload_schema": "https://e.x/s", "self_encrypted_payload": "c2VsZg", "sender_attestations": attestation(8192),
		}
		r := b.tryReply(m, merged(fields, obj{"metadata": object(4096)})).want(201).shaped(messageShape)
		for name, v := range fields {
			r.is(name, v)
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
			b.tryReply(m, obj{c.field: c.value}).as("%s", c.field).invalid("body."+c.field, c.kind)
		}
		b.post("/messages/"+text(m, "id")+"/reply", obj{}).invalid("body.type", "missing").invalid("body.encrypted_payload", "missing")
		b.tryReply(m, obj{"to_agent_id": "ignored", "to_handle": 5, "conversation_metadata": []any{}}).as("fields of a send are unknown here").want(201)
		if n := len(a.everything()); n != 2 {
			t.Errorf("%d replies arrived, want 2", n)
		}
	})
}

func TestReplyActingAgent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, peer := s.org(t), s.org(t).agent("peer")
		o.agent("first")
		mine, other := o.agent("mine"), o.agent("other")
		m := peer.send(mine)
		path := "/messages/" + text(m, "id") + "/reply"
		body := obj{"type": "a.b.c", "encrypted_payload": "QQ"}
		o.post(path, body).as("the agent that received it").want(201).is("from_agent_id", mine.id)
		sent := mine.send(peer)
		o.post("/messages/"+text(sent, "id")+"/reply", body).as("the agent that sent it").want(201).is("from_agent_id", mine.id, "to_agent_id", peer.id)
		o.post(path, body, "X-Svc-Agent", mine.name).want(201).is("from_agent_id", mine.id)
		o.post(path, body, "X-Svc-Agent", other.id).as("an agent that takes no part").want(403)
		inside := mine.send(other)
		o.post("/messages/"+text(inside, "id")+"/reply", body).as("owner of both").want(201).is("from_agent_id", other.id, "to_agent_id", mine.id)
		mine.tryReply(inside, nil).as("the sender by name").want(201).is("from_agent_id", mine.id, "to_agent_id", other.id)
	})
}

func TestReplyIntoATerminalConversation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for _, status := range []string{"completed", "failed", "canceled", "rejected"} {
			m := a.send(b)
			conversation := "/conversations/" + text(m, "conversation_id")
			if status == "completed" {
				b.reply(m)
			}
			b.patch(conversation+"/status", obj{"status": status}).want(200)
			for _, g := range []*agent{a, b} {
				g.tryReply(m, nil).as("%s", status).refused(409, "conversation_closed")
			}
			a.get(conversation).want(200).is("status", status)
		}
		for _, status := range []string{"paused", "input_required"} {
			m := a.send(b)
			b.reply(m)
			b.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": status}).want(200)
			a.reply(m)
			a.talk(m).as("a reply does not move it on").is("status", status)
		}
	})
}

func TestReplyToARevokedAgent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		a.delete(a.path("")).want(204)
		b.tryReply(m, nil).refused(410, "gone")
	})
}
