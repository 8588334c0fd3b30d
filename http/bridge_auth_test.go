package http

import "testing"

// TestAuthRequired: a task whose agent asks for an authorization is in a state of its own for
// everybody who sees it, until the initiator writes again.
func TestAuthRequired(t *testing.T) {
	h := newBridgeHarness(t)
	task, other := h.begin("m1"), h.begin("m2")
	ask := func(task, reason string) {
		t.Helper()
		h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"open"}`, as(h.art)).want(200)
		h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"`+reason+`"}`, as(h.art)).want(200)
	}
	to := newTarget(t, 200)
	h.push(task, to.URL, nil).want(200)
	waits := make(chan *response, 1)
	go func() { waits <- h.blocking(h.say("m3", textParts("more"), object{"taskId": task})) }()
	h.awaited("m3")
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"auth_required"}`, as(h.art)).want(200)
	ask(other, "auth_required: no")
	(<-waits).is(object{"result.task.status.state": "TASK_STATE_AUTH_REQUIRED"})
	for name, want := range map[string]string{task: "TASK_STATE_AUTH_REQUIRED", other: "TASK_STATE_INPUT_REQUIRED"} {
		h.call(h.second, "GetTask", object{"id": name}).is(object{"result.status.state": want})
		h.call(h.second, "ListTasks", object{"status": want}).is(object{"result.totalSize": 1, "result.tasks.0.id": name, "result.tasks.0.status.state": want})
		h.second.ask("GET", "/conversations/"+name, "").is(object{"status": "input_required"})
	}
	stream := h.follow("SubscribeToTask", object{"id": task}, "Last-Event-ID: 0")
	stream.want(object{"result.task.status.state": "TASK_STATE_SUBMITTED"})
	for _, state := range []string{"TASK_STATE_WORKING", "TASK_STATE_AUTH_REQUIRED"} {
		stream.want(object{"result.statusUpdate.status.state": state})
		if p := to.next(t); p.state(t) != state {
			t.Errorf("pushed %s, want %s", p.body, state)
		}
	}
	brief := h.follow("SendStreamingMessage", h.say("m4", textParts("done"), object{"taskId": task}))
	brief.want(object{"result.task.status.state": "TASK_STATE_WORKING"})
	stream.want(object{"result.statusUpdate.status.state": "TASK_STATE_WORKING"})
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"auth_required"}`, as(h.art)).want(200)
	brief.want(object{"result.statusUpdate.status.state": "TASK_STATE_AUTH_REQUIRED", "result.statusUpdate.metadata.reason": "auth_required"})
	if _, end := brief.next(); end != "end" {
		t.Error("the stream of a message goes on while the task waits for an authorization")
	}
}
