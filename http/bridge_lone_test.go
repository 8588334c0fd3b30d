package http

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// blocking sends a message and waits for the reply, beside other calls.
func (h *bridgeHarness) blocking(params object) *response {
	h.t.Helper()
	params["configuration"] = object{}
	body, _ := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
	return h.second.ask("POST", h.address, string(body), "Content-Type: application/json", "X-A2A-Timeout: 20")
}

// awaited returns the id of the task that a message of art's inbox belongs to, once it is there.
func (h *bridgeHarness) awaited(id string) string {
	h.t.Helper()
	for range 500 {
		if page := h.first.ask("GET", "/agents/"+h.art+"/messages", ""); page.len("items") > 0 && page.at("items.0.metadata.a2a.message_id") == id {
			return page.text("items.0.conversation_id")
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatalf("%s did not arrive", id)
	return ""
}

var alone = object{"parts": textParts("Hello."), "as": "message", "task_id": "dropped"}

// TestLoneMessage: an agent's first reply may answer as a message, without a task. Who waits
// gets the message, and so does a repeat; all others see a task that is completed with it.
func TestLoneMessage(t *testing.T) {
	h := newBridgeHarness(t)
	answered := make(chan *response, 1)
	go func() { answered <- h.blocking(h.say("m1", textParts("hello"), nil)) }()
	task := h.awaited("m1")
	to := newTarget(t, 200)
	h.push(task, to.URL, nil).want(200)
	h.replyWith(task, "dm", textParts("Hello."), alone)
	a := (<-answered).want(200)
	reply := object{"messageId": a.at("result.message.messageId"), "contextId": task, "role": "ROLE_AGENT", "parts": textParts("Hello.")}
	a.is(object{"result": object{"message": reply}})
	h.second.ask("GET", "/agents/"+h.bob+"/messages", "").is(object{"items.0.status": "delivered", "items.0.metadata.a2a": object{"parts": textParts("Hello."), "as": "message"}})
	h.blocking(h.say("m1", textParts("hello"), nil)).is(object{"result": object{"message": reply}})
	reply["taskId"] = task
	completed := object{"state": "TASK_STATE_COMPLETED", "message": reply}
	for prefix, seen := range map[string]*response{
		"result":      h.call(h.second, "GetTask", object{"id": task}),
		"result.task": h.call(h.second, "SendMessage", h.say("m1", textParts("hello"), nil)),
	} {
		status := seen.want(200).at(prefix + ".status").(object)
		delete(status, "timestamp")
		if seen.is(object{prefix + ".status": completed, prefix + ".history.1.parts": textParts("Hello.")}); strings.Contains(string(seen.raw), "artifacts") {
			t.Errorf("a lone message is an artifact: %s", seen.raw)
		}
	}
	following := h.follow("SubscribeToTask", object{"id": task}, "Last-Event-ID: 0")
	following.want(object{"result.task.status.state": "TASK_STATE_SUBMITTED"})
	for _, state := range []string{"TASK_STATE_WORKING", "TASK_STATE_COMPLETED"} {
		sent, _ := following.next()
		sent.is(object{"result.statusUpdate.status.state": state})
		if said := strings.Contains(string(sent.raw), "Hello."); said != (state == "TASK_STATE_COMPLETED") {
			t.Errorf("streamed %s", sent.raw)
		}
		if p := to.next(t); p.state(t) != state {
			t.Errorf("pushed %s, want %s", p.body, state)
		}
	}
	if _, end := following.next(); end != "end" {
		t.Error("the stream goes on")
	}
}

// TestLoneMessageIsTheFirstReply: later replies, those of the initiator, and those in
// conversations that were not begun over A2A are what their types say. Follow-ups do not count.
func TestLoneMessageIsTheFirstReply(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	h.reply(task, "status_update", textParts("soon"))
	h.replyWith(task, "dm", textParts("Hello."), alone)
	h.call(h.second, "GetTask", object{"id": task}).is(object{"result.status.state": "TASK_STATE_WORKING"})
	h.replyWith(task, "task_response", textParts("Hello."), alone)
	h.call(h.second, "GetTask", object{"id": task}).is(object{"result.status.state": "TASK_STATE_COMPLETED", "result.artifacts.0.parts": textParts("Hello.")})

	task = h.begin("m2")
	h.call(h.second, "SendMessage", h.say("m3", textParts("and"), object{"taskId": task})).want(200)
	answered := make(chan *response, 1)
	go func() { answered <- h.blocking(h.say("m4", textParts("more"), object{"taskId": task})) }()
	h.awaited("m4")
	h.replyWith(task, "task_response", textParts("Hello."), object{"cleartext": true, "as": "message"})
	(<-answered).is(object{"result.message.parts": textParts("Hello.")})
	h.blocking(h.say("m4", textParts("more"), object{"taskId": task})).is(object{"result.message.contextId": task})

	sent := h.second.ask("POST", "/messages", `{"to_agent_id":"`+h.art+`","type":"svc.v1.dm","encrypted_payload":"AQ"}`).want(201)
	h.replyWith(sent.text("conversation_id"), "dm", textParts("Hello."), alone)
	h.call(h.second, "GetTask", object{"id": sent.at("conversation_id")}).is(object{"result.status.state": "TASK_STATE_WORKING"})
}
