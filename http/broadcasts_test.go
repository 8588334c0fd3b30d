package http

import (
	"encoding/json"
	"testing"
)

const groupMessage = `{"to_handle":"#OPS@First.Home.Example","type":"svc.v1.dm","encrypted_payload":"AA","encryption_version":"sender-key-v1"}`

// opsGroup makes a group with ann, art and bob.
func (g *groupHarness) opsGroup() string {
	id := g.group("ops", "")
	g.seat(id, g.first, g.art)
	g.seat(id, g.second, g.bob)
	return id
}

func TestBroadcast(t *testing.T) {
	g := newGroupHarness(t)
	id := g.opsGroup()
	sent := g.first.ask("POST", "/messages", groupMessage, "Idempotency-Key: k").want(201)
	sent.is(map[string]any{
		"from_agent_id": g.ann, "to_agent_id": g.art, "recipient_handle": g.first.handle("art"), "sender_handle": g.first.handle("ann"), "group_id": id,
		"group_handle": "#ops@first.home.example", "direction": "sent", "recipient_count": 2, "status": "new", "metadata.provenance.via": "group",
	})
	again := g.first.ask("POST", "/messages", groupMessage, "Idempotency-Key: k").want(200)
	again.is(map[string]any{"id": sent.text("id"), "broadcast_id": sent.text("broadcast_id"), "recipient_count": 2})
	g.first.ask("GET", "/groups/"+id, "").is(map[string]any{"conversation_id": sent.text("conversation_id")})
	got := g.second.ask("GET", "/agents/"+g.bob+"/messages", "").want(200)
	got.is(map[string]any{
		"items.0.to_agent_id": g.bob, "items.0.recipient_handle": g.second.handle("bob"), "items.0.group_id": id, "items.0.direction": "received",
		"items.0.conversation_id": sent.text("conversation_id"), "items.0.status": "delivered", "items.0.encryption_version": "sender-key-v1",
	})
	if _, told := got.at("items.0").(map[string]any)["broadcast_id"]; told || got.text("items.0.id") == sent.text("id") {
		t.Errorf("a copy for bob: %s", got.raw)
	}
	g.second.ask("GET", "/messages/"+got.text("items.0.id"), "").want(200).is(map[string]any{"status": "read", "to_agent_id": g.bob})
	g.first.ask("GET", "/messages/"+got.text("items.0.id"), "").want(200).is(map[string]any{"status": "read", "direction": "sent"})
	g.first.ask("GET", "/messages/"+sent.text("broadcast_id"), "").want(200).is(map[string]any{"id": sent.text("id"), "direction": "sent"})
	g.nobody.ask("GET", "/messages/"+got.text("items.0.id"), "").want(403, "not_owner")
	g.first.ask("POST", "/messages/sync", groupMessage).want(422)
	lonely := g.second.ask("POST", "/groups", `{"name":"lonely"}`).want(201)
	lonely.is(map[string]any{"member_count": 1})
	g.second.ask("POST", "/messages", `{"to_handle":"#lonely@second.home.example","type":"a.b.c","encrypted_payload":"AA"}`).want(422, "no_recipients")
	g.second.ask("POST", "/messages", `{"to_handle":"#none@second.home.example","type":"a.b.c","encrypted_payload":"AA"}`).want(404)
	g.second.ask("POST", "/messages", `{"to_handle":"#ops@first.elsewhere","type":"a.b.c","encrypted_payload":"AA"}`).want(404)
	other := g.second.agent("other")
	g.second.ask("POST", "/messages", groupMessage, as(other)).want(403, "not_member")
}

func TestGroupConversation(t *testing.T) {
	g := newGroupHarness(t)
	id := g.opsGroup()
	sent := g.first.ask("POST", "/messages", groupMessage).want(201)
	path := "/conversations/" + sent.text("conversation_id")
	copied := g.second.ask("GET", "/agents/"+g.bob+"/messages?limit=1", "").text("items.0.id")
	reply := g.second.ask("POST", "/messages/"+copied+"/reply", `{"type":"svc.v1.dm","encrypted_payload":"QQ"}`).want(201)
	reply.is(map[string]any{
		"to_agent_id": g.ann, "from_agent_id": g.bob, "group_id": nil, "group_handle": nil, "conversation_id": sent.text("conversation_id"),
		"recipient_handle": g.first.handle("ann"),
	})
	g.second.ask("GET", "/messages/"+copied, "").is(map[string]any{"status": "read"})
	g.first.ask("GET", path, "").want(200).is(map[string]any{"status": "open"})
	rows := func(p *tenant, agent string, want ...string) {
		t.Helper()
		page := p.ask("GET", path+"/messages", "", as(agent)).want(200)
		var got []string
		for _, item := range page.at("items").([]any) {
			m := item.(map[string]any)
			got = append(got, m["direction"].(string)+" "+m["encrypted_payload"].(string))
		}
		if a, b := asJSON(got), asJSON(want); a != b {
			t.Errorf("%s reads %s, want %s", agent, a, b)
		}
	}
	rows(g.first, "ann", "sent AA", "received QQ")
	rows(g.first, "art", "received AA")
	rows(g.second, "bob", "received AA", "sent QQ")
	g.second.agent("other")
	g.second.ask("GET", path+"/messages", "", as("other")).want(403)
	g.nobody.ask("GET", path, "").want(403, "not_owner")
	g.first.ask("GET", path+"/participants", "").want(200).is(map[string]any{
		"0.agent_id": g.ann, "0.role": "initiator", "1.agent_id": g.art, "1.role": "responder", "2.agent_id": g.bob,
	})
	g.second.ask("PATCH", path+"/status", `{"status":"paused"}`).want(403, "role_not_allowed")
	g.first.ask("PATCH", path+"/status", `{"status":"paused"}`, as("art")).want(403, "role_not_allowed")
	g.first.ask("PATCH", path+"/status", `{"status":"paused"}`).want(200).is(map[string]any{"status": "paused"})
	// A former member can still read its copies.
	g.second.ask("DELETE", "/groups/"+id+"/members/"+g.bob, "", as("bob")).want(204)
	rows(g.second, "bob", "received AA", "sent QQ")
	g.second.ask("GET", path, "").want(200)
	g.first.ask("PATCH", path+"/status", `{"status":"completed"}`).want(200)
	next := g.first.ask("POST", "/messages", groupMessage).want(201)
	if next.text("conversation_id") == sent.text("conversation_id") {
		t.Error("a conversation can be continued after it has ended")
	}
	g.second.ask("POST", "/messages/"+copied+"/reply", `{"type":"svc.v1.dm","encrypted_payload":"QQ"}`).want(409, "conversation_closed")
	g.second.ask("GET", "/conversations/"+next.text("conversation_id"), "").want(200)
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
