package http

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"parley/actors/org"
)

// TestTaskHistory: 0 leaves the history out, a number bounds it from its end, none asks for
// all of it.
func TestTaskHistory(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	h.reply(task, "dm", textParts("yes"))
	second := h.say("m2", textParts("and?"), object{"taskId": task})
	h.call(h.second, "SendMessage", second).want(200)
	for wanted, length := range map[int]any{0: 0, 2: 2, 3: 7} {
		second["configuration"] = object{"returnImmediately": true, "historyLength": length}
		for method, a := range map[string]*response{
			"GetTask": h.call(h.second, "GetTask", object{"id": task, "historyLength": length}), "SendMessage": h.call(h.second, "SendMessage", second),
			"ListTasks": h.call(h.second, "ListTasks", object{"historyLength": length}),
		} {
			at := map[string]string{"GetTask": "result", "SendMessage": "result.task", "ListTasks": "result.tasks.0"}[method]
			a.want(200).is(object{at + ".id": task})
			if strings.Contains(string(a.raw), `"history"`) != (wanted > 0) {
				t.Errorf("%s with historyLength %v: %s", method, length, a.raw)
			}
			if wanted > 0 && (a.len(at+".history") != wanted || a.at(fmt.Sprintf("%s.history.%d.messageId", at, wanted-1)) != "m2") {
				t.Errorf("%s with historyLength %v: %s", method, length, a.raw)
			}
		}
	}
	if a := h.call(h.second, "GetTask", object{"id": task}); a.len("result.history") != 3 {
		t.Errorf("GetTask: %s", a.raw)
	}
}

// TestBridgeAcceptsWhatClientsSend: shapes that clients send and a strict server might
// refuse.
func TestBridgeAcceptsWhatClientsSend(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	for _, c := range []struct{ path, id, params, head string }{
		{"", `"00000000-0000-0000-0000-000000000000"`, `{"id":"` + task + `","tenant":"acme"}`, "A2A-Version: 1.0"},
		{"/", `0`, `{"id":"` + task + `","tenant":7,"unknown":{}}`, "A2A-Extensions: https://example.org/e"},
		{"?A2A-Version=1.0", `null`, `{"id":"` + task + `"}`, "Content-Type: application/a2a+json"},
		{"/?A2A-Version=1.0.1", `-9007199254740993`, `{"id":"` + task + `","historyLength":null}`, "Content-Type: application/json; charset=utf-8"},
	} {
		a := h.second.ask("POST", h.address+c.path, `{"jsonrpc":"2.0","id":`+c.id+`,"method":"GetTask","params":`+c.params+`}`, c.head)
		a.want(200).is(object{"result.id": task})
		if !strings.Contains(string(a.raw), `"id":`+c.id+`,`) || strings.Contains(string(a.raw), `"error"`) {
			t.Errorf("the answer to the id %s: %s", c.id, a.raw)
		}
		if kind := a.head.Get("Content-Type"); kind != "application/json" {
			t.Errorf("the answer is %s", kind)
		}
	}
	h.second.ask("POST", h.address+"?A2A-Version=0.3", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`).fails(-32009, "VERSION_NOT_SUPPORTED")
	h.second.ask("POST", h.address, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`).want(200).is(object{"result.svc.a2a_enabled": true})
	for method, old := range map[string]string{"GetTask": "tasks/get", "CancelTask": "tasks/cancel"} {
		if one, two := h.call(h.second, method, object{"id": "x"}).raw, h.call(h.second, old, object{"id": "x"}).raw; len(one) != len(two) {
			t.Errorf("%s answers %s, %s %s", method, one, old, two)
		}
	}
	h.call(h.second, "message/send", h.say("m2", textParts("x"), nil)).want(200).is(object{"result.task.status.state": "TASK_STATE_SUBMITTED"})
	for _, old := range []object{h.say("m3", textParts("x"), object{"kind": "message"}), h.say("m3", []any{object{"kind": "text", "text": "x"}}, nil)} {
		if a := h.call(h.second, "message/send", old).fails(-32602, "INVALID_PARAMS"); !strings.Contains(a.text("error.message"), "kind") {
			t.Errorf("a shape of 0.3 is refused with %s", a.raw)
		}
	}
}

// TestBridgeRefusesSuspended: an organization that is suspended is refused with the id of its
// request.
func TestBridgeRefusesSuspended(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.second.owner, org.Suspend{}); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GetTask", "CancelTask", "SendMessage", "NoSuchMethod"} {
		h.call(h.second, method, object{"id": task}).fails(-32000, "SUSPENDED")
	}
}

// TestBridgePartsHaveABound: the largest parts arrive, in the payload alone; a byte more is
// refused.
func TestBridgePartsHaveABound(t *testing.T) {
	h := newBridgeHarness(t)
	frame := len(`[{"text":""}]`)
	largest := textParts(strings.Repeat("x", 98304-frame))
	a := h.call(h.second, "SendMessage", h.say("m1", largest, nil)).want(200).is(object{"result.task.history.0.parts": largest})
	page := h.first.ask("GET", "/agents/"+h.art+"/messages", "").is(object{
		"items.0.metadata.a2a": object{"task_id": a.at("result.task.id"), "context_id": a.at("result.task.id"), "message_id": "m1", "cleartext": true},
	})
	if plain, _ := base64.RawURLEncoding.DecodeString(page.text("items.0.encrypted_payload")); len(plain) != 98304 {
		t.Errorf("the payload takes %d bytes", len(plain))
	}
	h.call(h.second, "SendMessage", h.say("m2", textParts(strings.Repeat("x", 98305-frame)), nil)).fails(-32602, "INVALID_PARAMS")
	for _, parts := range [][]any{textParts(strings.Repeat("x", 2048-frame)), textParts(strings.Repeat("x", 2049-frame))} {
		h.call(h.second, "SendMessage", h.say(fmt.Sprint("m", len(parts[0].(object)["text"].(string))), parts, nil)).want(200)
		page := h.first.ask("GET", "/agents/"+h.art+"/messages", "")
		inline := strings.Contains(string(page.raw), fmt.Sprintf(`"message_id":"m%d","parts"`, len(parts[0].(object)["text"].(string))))
		if inline != (len(parts[0].(object)["text"].(string)) == 2048-frame) {
			t.Errorf("parts of %d bytes stand in the metadata: %v", len(parts[0].(object)["text"].(string))+frame, inline)
		}
	}
}

// TestBridgeAppliesRulesOfMessages: what POST /messages refuses is refused as -32000 with
// the code as the reason, and a revoked agent is not there.
func TestBridgeAppliesRulesOfMessages(t *testing.T) {
	h := newBridgeHarness(t)
	refused := func(reason string, head ...string) {
		t.Helper()
		h.call(h.second, "SendMessage", h.say("m", textParts("x"), nil), head...).fails(-32000, reason)
	}
	refused("NOT_OWNER", as(h.art))
	task := h.begin("before")
	h.first.ask("PATCH", "/agents/"+h.art, `{"incoming_policy":"groups_only"}`).want(200)
	refused("INCOMING_POLICY")
	h.first.ask("PATCH", "/agents/"+h.art, `{"incoming_policy":"accept_all"}`).want(200)
	for _, a := range h.second.ask("GET", "/agents", "").body.([]any) {
		h.second.ask("DELETE", "/agents/"+a.(map[string]any)["id"].(string), "").want(204)
	}
	refused("AGENT_REQUIRED")
	h.call(h.second, "GetTask", object{"id": task}).want(200).is(object{"result.id": task})
	h.first.ask("DELETE", "/agents/"+h.art, "")
	h.second.ask("POST", h.address, `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"`+task+`"}}`).want(404).is(object{"error.code": -32000, "id": nil, "code": "not_found"})
}
