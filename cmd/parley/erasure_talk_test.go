package main

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"parley/http/mls/mlstest"
)

// content returns the free fields of a message.
func (p *party) content(what string) object {
	c := func(field string) string { return p.canary(p.fate, what+", "+field) }
	return object{
		"type":                   "a." + c("type") + ".v1",
		"encrypted_payload":      inBase64([]byte("the payload " + c("encrypted_payload"))),
		"self_encrypted_payload": base64.URLEncoding.EncodeToString([]byte(c("self_encrypted_payload"))),
		"sender_signing_kid":     c("sender_signing_kid"),
		"metadata":               object{"k": c("metadata"), c("name in metadata"): 1},
		"content_type":           "text/" + c("content_type"),
		"payload_schema":         "https://schema.example/" + c("payload_schema"),
		"sender_attestations":    []any{inBase64([]byte(`{"alg":"EdDSA"}`)) + "." + inBase64([]byte("it "+c("sender_attestations"))) + ".c2ln"},
	}
}

// opening is content with the further fields of a message that begins a conversation.
func (p *party) opening(what string, from *member, to string) object {
	body := p.content(what)
	body["from_handle"], body["to_handle"] = from.handle, to
	body["conversation_metadata"] = object{"k": p.canary(p.fate, what+", conversation_metadata")}
	return body
}

// once returns the headers of a request of an agent with an idempotency key.
func (p *party) once(m *member) []string {
	return append(m.as(), "Idempotency-Key", p.canary(never, "idempotency key"))
}

// talks has two agents exchange messages in every way. What both of them write has the
// fate of p.
func (p *party) talks(q *party) {
	p.t.Helper()
	me, you := &p.agents[0], &q.agents[0]
	opening, headers := p.opening("message", me, you.handle), p.once(me)
	sent := p.do(201, "POST /messages", nil, opening, headers...)
	p.do(200, "POST /messages", nil, opening, headers...)
	p.do(201, "POST /messages", nil, object{
		"to_agent_id": you.id, "type": "a.b.c", "encrypted_payload": "aGVsbG8", "parent_conversation_id": sent["conversation_id"],
		"conversation_metadata": object{"k": p.canary(p.fate, "metadata of a sub-conversation")},
	}, me.as()...)
	id := []string{sent["id"].(string)}
	p.sent = append(p.sent, id...)
	p.watchID(id[0])
	q.do(200, "POST /messages/{id}/read", id, nil, you.as()...)
	q.do(201, "POST /messages/{id}/reply", id, p.content("reply"), q.once(you)...)
	q.do(201, "POST /messages", nil, p.opening("message back", you, me.handle), q.once(you)...)
	p.do(200, "POST /messages/sync", nil, p.opening("sync", me, you.handle), p.once(me)...)
	for _, step := range []struct{ status, reason string }{{"paused", "reason"}, {"open", "another reason"}} {
		p.do(200, "PATCH /conversations/{id}/status", []string{sent["conversation_id"].(string)}, object{"status": step.status, "reason": "for " + p.canary(p.fate, step.reason)}, me.as()...)
	}
	p.do(201, "POST /reports", nil, object{"category": "other", "note": p.canary(p.fate, "note"), "message_id": q.do(201, "POST /messages/{id}/reply", id, object{"type": "a.b.c", "encrypted_payload": "aGVsbG8"}, you.as()...)["id"]})
	p.sends(q, 40)
}

// bridges has an agent of p call one of q over A2A, which answers.
func (p *party) bridges(q *party) {
	p.t.Helper()
	me, you := &p.agents[0], &q.agents[0]
	call := func(id any, method string, params object, headers ...string) object {
		request := object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
		return p.do(200, "POST /a2a/{handle}", []string{you.handle}, request, append(me.as(), headers...)...)
	}
	part := func(what string) []any { return []any{object{"text": p.canary(p.fate, "A2A "+what)}} }
	message := object{"messageId": p.canary(p.fate, "A2A message id"), "role": "ROLE_USER", "parts": part("part"), "metadata": object{"k": p.canary(p.fate, "A2A metadata")}}
	begun := call(p.canary(never, "A2A request id"), "SendMessage", object{"message": message, "configuration": object{"returnImmediately": true}},
		"A2A-Version", "1.0."+p.canary(never, "A2A version"), "Last-Event-ID", p.canary(never, "A2A event id"))
	task := begun["result"].(object)["task"].(object)
	asked := task["history"].([]any)[0].(object)
	if asked["messageId"] != message["messageId"] {
		p.t.Fatalf("the task has the message %v", asked)
	}
	_, page, _ := p.call(p.token, "GET", "/conversations/"+task["id"].(string)+"/messages", nil, me.as()...)
	first := page["items"].([]any)[0].(object)["id"].(string)
	p.sent = append(p.sent, first)
	push := object{
		"taskId": task["id"], "id": p.canary(p.fate, "A2A push id"), "url": "https://" + p.canary(p.fate, "A2A push url") + ".example/", "token": p.canary(never, "A2A push token"),
		"authentication": object{"scheme": p.canary(never, "A2A push scheme"), "credentials": p.canary(never, "A2A push credentials")},
	}
	call(3, "CreateTaskPushNotificationConfig", push)
	got := call(4, "GetTaskPushNotificationConfig", object{"taskId": task["id"], "id": push["id"]})["result"].(object)
	if got["token"] != push["token"] {
		p.t.Fatalf("the configuration is %v", got)
	}
	q.do(201, "POST /messages/{id}/reply", []string{first}, object{
		"type": "svc.v1.task_response", "encrypted_payload": "aGVsbG8", "metadata": object{"a2a": object{"parts": part("artifact")}},
	}, you.as()...)
	call(1, p.canary(never, "A2A method"), object{})
	message["messageId"] = p.canary(never, "refused A2A message id")
	call(2, "SendMessage", object{"message": message}, "X-A2A-Timeout", p.canary(never, "A2A timeout"))
}

// sends sends messages that do not fit one page of memory, which end up in blob files and
// across the blocks of logs.
func (p *party) sends(q *party, number int) {
	p.t.Helper()
	for range number {
		text := strings.Repeat(p.canary(p.fate, "large payload")+" ", 120)
		sent := p.do(201, "POST /messages", nil, object{
			"to_agent_id": q.agents[0].id, "type": "a.b.c", "encrypted_payload": inBase64([]byte(text)), "metadata": object{"k": p.canary(p.fate, "metadata beside it")},
		}, p.agents[0].as()...)
		p.sent = append(p.sent, sent["id"].(string))
	}
}

// groups fills groups of p, in which q takes part. Texts of requests belong to the owner
// of the group.
func (p *party) groups(q *party) {
	p.t.Helper()
	me, you, second := &p.agents[0], &q.agents[0], &q.agents[1]
	found := func(owner *party, founder *member, more object) (id []string, handle string) {
		body := object{"name": owner.canary(owner.fate, "group name"), "description": "about " + owner.canary(owner.fate, "first description"), "visibility": "public"}
		for name, value := range more {
			body[name] = value
		}
		made := owner.do(201, "POST /groups", nil, body, owner.once(founder)...)
		owner.watchID(made["id"].(string))
		id = []string{made["id"].(string)}
		owner.owned = append(owner.owned, id[0])
		owner.do(200, "PATCH /groups/{id}", id, object{"name": body["name"], "description": "about " + owner.canary(owner.fate, "second description")}, founder.as()...)
		return id, made["handle"].(string)
	}
	invited := object{"handle": you.handle, "message": "join " + p.canary(p.fate, "message to an invited founder")}
	group, handle := found(p, me, object{"enrollment_policy": "closed", "members": []any{invited}})
	q.do(200, "POST /groups/{id}/join", group, object{"message": p.canary(never, "message of one who accepts")}, you.as()...)
	p.do(200, "POST /groups/{id}/invite", group, object{"handle": second.handle, "message": p.canary(p.fate, "message of an invitation")}, me.as()...)
	p.do(200, "POST /groups/{id}/invite", group, object{"agents": []any{object{"handle": p.agents[1].handle, "message": p.canary(p.fate, "message in a batch")}}}, me.as()...)
	p.do(200, "POST /groups/{id}/join", group, object{}, p.agents[1].as()...)

	broadcast := p.do(201, "POST /messages", nil, p.opening("broadcast", me, handle), p.once(me)...)
	copied := p.firstFrom(q, you, me)
	p.sent = append(p.sent, copied)
	q.do(201, "POST /messages/{id}/reply", []string{copied}, p.content("reply in a group"), q.once(you)...)
	p.do(200, "PATCH /conversations/{id}/status", []string{broadcast["conversation_id"].(string)}, object{"status": "paused", "reason": p.canary(p.fate, "reason in a group")}, me.as()...)
	p.do(200, "PATCH /groups/{id}/members/{agent_id}", []string{group[0], p.agents[1].id}, object{"role": "admin"}, me.as()...)
	p.do(204, "DELETE /groups/{id}/members/{agent_id}", []string{group[0], p.agents[1].id}, nil, me.as()...)
	p.do(409, "POST /groups/{id}/admins", group, object{"agent_id": me.id}, me.as()...)

	voted, _ := found(p, me, object{"enrollment_policy": "majority"})
	request := q.do(200, "POST /groups/{id}/join", voted, object{"message": "let me in, " + p.canary(p.fate, "message of a request")}, second.as()...)["request"].(object)
	p.do(200, "POST /groups/{id}/requests/{request_id}/vote", []string{voted[0], request["id"].(string)}, object{"vote": "approve"}, me.as()...)
	request = q.do(200, "POST /groups/{id}/join", voted, object{}, you.as()...)["request"].(object)
	q.do(204, "DELETE /groups/{id}/requests/{request_id}", []string{voted[0], request["id"].(string)}, nil, you.as()...)
	deleted, _ := found(p, me, object{})
	p.do(204, "DELETE /groups/{id}", deleted, nil, me.as()...)
	foreign, _ := found(q, you, object{"enrollment_policy": "majority"})
	p.do(200, "POST /groups/{id}/join", foreign, object{"message": p.canary(q.fate, "message of a request to another organization's group")}, me.as()...)

	sealed, _ := found(p, me, object{"enrollment_policy": "open"})
	q.do(200, "POST /groups/{id}/join", sealed, object{}, you.as()...)
	part := func(what string, data []byte) string {
		p.watch(p.fate, what, inBase64(data[:len(data)/3*3]))
		return inBase64(data)
	}
	p.do(201, "POST /groups/{id}/mls/commits", sealed, object{
		"epoch": 0, "added": []any{you.id}, "commit": part("commit", mlstest.Commit{Group: sealed[0]}.Message()),
		"group_info": part("GroupInfo", mlstest.GroupInfo{Group: sealed[0], Epoch: 1}.Message()), "welcome": part("Welcome", mlstest.Welcome(1, 0)),
	}, me.as()...)
	p.do(refused, "POST /agents/{id}/mls/key-packages/claim", []string{you.id}, object{}, me.as()...)            // it has its leaf
	q.do(refused, "DELETE /groups/{id}/mls/welcomes/{welcome_id}", []string{sealed[0], me.id}, nil, you.as()...) // the Welcome stays
}

// firstFrom waits for the first message of an agent from another, and returns its id.
func (x *story) firstFrom(of *party, to, from *member) string {
	x.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		_, page, _ := x.call(of.token, "GET", "/agents/"+to.id+"/messages?limit=1", nil)
		if items := page["items"].([]any); len(items) > 0 && items[0].(object)["from_agent_id"] == from.id && items[0].(object)["group_id"] != nil {
			return items[0].(object)["id"].(string)
		}
	}
	x.t.Fatal("no copy of the broadcast arrives")
	return ""
}

// webhooks makes webhooks whose target fails and answers with a canary.
func (p *party) webhooks(q *party) {
	p.t.Helper()
	words := p.canary(never, "answer of a target")
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, words, http.StatusInternalServerError) }))
	defer target.Close()
	secret := func(answer object) {
		p.watch(never, "secret of a webhook", strings.TrimRight(strings.TrimPrefix(answer["secret"].(string), "whsec_"), "="))
	}
	for _, address := range []string{target.URL, "http://" + p.canary(p.fate, "host of a webhook") + ".invalid"} {
		made := p.do(201, "POST /webhooks", nil, object{
			"agent_id": p.agents[0].id, "url": address + "/" + p.canary(p.fate, "url"), "description": p.canary(p.fate, "description of a webhook"),
		})
		id := []string{made["id"].(string)}
		p.watchID(id[0])
		secret(made)
		secret(p.do(200, "POST /webhooks/{id}/rotate-secret", id, nil))
		p.do(200, "POST /webhooks/{id}/test", id, nil)
		defer func() {
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if _, counts, _ := p.call(p.token, "GET", "/webhooks/"+id[0]+"/deliveries/summary", nil); counts["failed"].(float64) > 0 {
					return
				}
				if time.Now().After(deadline) {
					p.t.Fatal("no delivery fails")
				}
			}
		}()
	}
	q.do(201, "POST /messages", nil, object{"to_agent_id": p.agents[0].id, "type": "a.b.c", "encrypted_payload": "aGVsbG8"}, q.agents[0].as()...)
}

// fails makes requests that are refused. Nothing of them may be stored.
func (p *party) fails(q *party) {
	p.t.Helper()
	c := func(name string) string { return p.canary(never, "refused "+name) }
	p.story.do(refused, "", "POST /auth/verify-email", nil, object{"token": c("token")})
	p.story.do(refused, "", "POST /auth/register/solve", nil, object{"challenge_id": c("challenge_id"), "nonce": c("nonce")})
	p.story.do(refused, "", "POST /oauth/token", nil, object{"grant_type": "client_credentials", "client_id": c("client_id"), "client_secret": c("client_secret"), "scope": c("scope")})
	p.story.do(refused, "", "POST /oauth/token", nil, object{"grant_type": c("grant_type"), "client_id": c("client_id"), "client_secret": c("client_secret")})
	p.do(refused, "POST /agents/{id}/keys/retire", []string{p.agents[0].id}, object{"kid": c("kid")})
	signed := append(p.agents[0].as(), "X-Svc-Message-Signature", c("signature"))
	message := object{"type": "a.b.c", "encrypted_payload": "aGVsbG8"}
	p.do(refused, "POST /messages/{id}/reply", []string{p.sent[0]}, message, signed...)
	message["to_agent_id"] = q.agents[0].id
	p.do(refused, "POST /messages", nil, message, signed...)
	p.do(refused, "POST /messages/sync", nil, message, signed...)
}
