package http

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// parented sends a message that begins a conversation below another one, and returns its id.
func (p *tenant) parented(from, to, parent string) string {
	p.t.Helper()
	body := `{"to_agent_id":"` + to + `","type":"svc.v1.dm","encrypted_payload":"AQ"`
	if parent != "" {
		body += `,"parent_conversation_id":"` + parent + `"`
	}
	return p.ask("POST", "/messages", body+"}", as(from)).want(201).text("conversation_id")
}

// TestContextOfDeepTasks: the context of a task is the root of its conversations, however
// deep it is below it.
func TestContextOfDeepTasks(t *testing.T) {
	h := newBridgeHarness(t)
	root := h.second.parented(h.bob, h.art, "")
	deepest := root
	const depth = 80
	for range depth {
		deepest = h.second.parented(h.bob, h.art, deepest)
	}
	h.call(h.second, "GetTask", object{"id": deepest}).is(object{"result.contextId": root})
	h.call(h.second, "ListTasks", object{"contextId": root}).is(object{"result.totalSize": depth + 1})
	h.call(h.second, "ListTasks", object{"contextId": deepest}).is(object{"result.totalSize": 0})
}

// TestContextShowsNoForeignConversation: parents in which the caller takes no part are not
// shown, and cannot be named.
func TestContextShowsNoForeignConversation(t *testing.T) {
	h := newBridgeHarness(t)
	foreign := h.first.parented(h.art, h.ann, "")
	shared := h.first.parented(h.art, h.bob, foreign)
	task := h.second.parented(h.bob, h.art, shared)
	deeper := h.second.parented(h.bob, h.art, task)
	for _, id := range []string{task, deeper} {
		h.call(h.second, "GetTask", object{"id": id}).is(object{"result.contextId": shared})
	}
	h.call(h.second, "SendMessage", h.say("m1", textParts("x"), object{"contextId": shared})).is(object{"result.task.contextId": shared})
	for _, id := range []string{foreign, task, deeper} {
		h.call(h.second, "SendMessage", h.say("m2", textParts("x"), object{"contextId": id})).fails(-32602, "INVALID_PARAMS")
	}
	h.call(h.second, "ListTasks", object{"contextId": shared}).is(object{"result.totalSize": 3})
	h.call(h.second, "ListTasks", object{"contextId": foreign}).is(object{"result.totalSize": 0})
}

// TestNewTaskNamesThoseThatWait: a message that begins a task in a context learns which tasks of
// the context wait for input: at most 10, those of the caller at the same agent, the latest first.
func TestNewTaskNamesThoseThatWait(t *testing.T) {
	h := newBridgeHarness(t)
	root := h.begin("m0")
	within := object{"contextId": root}
	wait := func(task string) string {
		t.Helper()
		h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"open"}`).want(200)
		h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required"}`).want(200)
		time.Sleep(2 * time.Millisecond) // the next change is later, by the clock of statuses
		return task
	}
	begin := func(id string, more object, head ...string) *response {
		t.Helper()
		return h.call(h.second, "SendMessage", h.say(id, textParts("x"), more), head...).want(200)
	}
	if a := begin("m1", within); strings.Contains(string(a.raw), "input_required_tasks") {
		t.Errorf("nothing waits: %s", a.raw)
	}
	wait(begin("elsewhere", nil).text("result.task.id"))
	wait(h.second.parented(h.bob, h.ann, root))
	ben := h.second.parented(h.second.agent("ben"), h.art, "")
	wait(ben)
	want := []any{wait(root)}
	a := begin("m2", within).is(object{"result.task.metadata.input_required_tasks": want})
	h.call(h.second, "ListTasks", object{"contextId": root}).is(object{"result.totalSize": 3})
	again := wait(a.text("result.task.id"))
	if a = begin("m2", within).is(object{"result.task.metadata.input_required_tasks": want}); a.at("result.task.id") != again {
		t.Errorf("a repeat began %s", a.raw)
	}
	want = append([]any{again}, want...)
	if a := h.call(h.second, "GetTask", object{"id": want[0]}); strings.Contains(string(a.raw), "input_required_tasks") {
		t.Errorf("it is no new task: %s", a.raw)
	}
	for i := range 10 {
		want = append([]any{wait(begin(fmt.Sprint("more ", i), within).text("result.task.id"))}, want...)
	}
	h.follow("SendStreamingMessage", h.say("m3", textParts("x"), within)).want(object{"result.task.metadata.input_required_tasks": want[:10]})
	h.call(h.second, "SendMessage", h.say("m4", textParts("x"), object{"taskId": want[0]})).is(object{"result.task.status.state": "TASK_STATE_WORKING"})
	h.follow("SendStreamingMessage", h.say("m5", textParts("x"), within)).want(object{"result.task.metadata.input_required_tasks": want[1:11]})
}
