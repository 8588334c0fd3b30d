package http

import "testing"

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
