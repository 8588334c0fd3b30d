package http

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// conversationWithArt begins a conversation by POST /messages: artifacts do not end it. It
// returns its id and a function by which art replies.
func (h *bridgeHarness) conversationWithArt() (task string, reply func(word, text string)) {
	h.t.Helper()
	sent := h.second.ask("POST", "/messages", `{"to_agent_id":"`+h.art+`","type":"svc.v1.dm","encrypted_payload":"AQ"}`).want(201)
	return sent.text("conversation_id"), func(word, text string) {
		h.t.Helper()
		payload := base64.RawURLEncoding.EncodeToString([]byte(`[{"text":"` + text + `"}]`))
		h.first.ask("POST", "/messages/"+sent.text("id")+"/reply", `{"type":"svc.v1.`+word+`","encrypted_payload":"`+payload+`","metadata":{"a2a":{"cleartext":true}}}`, as(h.art)).want(201)
	}
}

// TestArtifactsStay: the newest 64 artifacts of a task stay with it however many messages follow,
// and the task says what it leaves out.
func TestArtifactsStay(t *testing.T) {
	h := newBridgeHarness(t)
	task, reply := h.conversationWithArt()
	get := func(more object) *response {
		t.Helper()
		more["id"] = task
		return h.call(h.second, "GetTask", more).want(200)
	}
	lacks := func(a *response, names ...string) {
		t.Helper()
		for _, name := range names {
			if strings.Contains(string(a.raw), `"`+name+`"`) {
				t.Errorf("there is a member %s in %.2000s", name, a.raw)
			}
		}
	}
	reply("task_response", "result 0")
	lacks(get(object{}).is(object{"result.artifacts.0.parts": textParts("result 0")}), "metadata")
	for i := range 120 {
		reply("dm", fmt.Sprint("message ", i))
	}
	a := get(object{}).is(object{"result.artifacts.0.parts": textParts("result 0"), "result.metadata": object{"history_truncated": true}, "result.history.99.parts": textParts("message 119")})
	if n := a.len("result.artifacts"); n != 1 {
		t.Errorf("%d artifacts", n)
	}
	for _, length := range []int{0, 5, 100} {
		lacks(get(object{"historyLength": length}).is(object{"result.artifacts.0.parts": textParts("result 0")}), "metadata")
	}
	for i := 1; i <= 70; i++ {
		reply("task_response", fmt.Sprint("result ", i))
	}
	a = get(object{}).is(object{
		"result.artifacts.0.parts": textParts("result 7"), "result.artifacts.63.parts": textParts("result 70"),
		"result.metadata": object{"artifacts_omitted": 7, "history_truncated": true},
	})
	if n := a.len("result.artifacts"); n != 64 {
		t.Errorf("%d artifacts", n)
	}
	listed := h.call(h.second, "ListTasks", object{"includeArtifacts": true}).is(object{"result.tasks.0.artifacts.63.parts": textParts("result 70"), "result.tasks.0.metadata": object{"artifacts_omitted": 7}})
	lacks(listed, "history")
	lacks(h.call(h.second, "ListTasks", object{}), "artifacts", "metadata")
	stream := h.follow("SubscribeToTask", object{"id": task})
	stream.want(object{"result.task.artifacts.63.parts": textParts("result 70"), "result.task.metadata.artifacts_omitted": 7})
}

// TestArtifactsAreBounded: a task takes 1 MiB, in which artifacts come before older messages.
func TestArtifactsAreBounded(t *testing.T) {
	h := newBridgeHarness(t)
	task, reply := h.conversationWithArt()
	large := strings.Repeat("x", 60_000)
	for i := range 16 {
		reply("task_response", fmt.Sprint(i, large))
		reply("dm", fmt.Sprint(i, large))
	}
	reply("dm", "the last")
	a := h.call(h.second, "GetTask", object{"id": task}).want(200)
	shown := a.len("result.artifacts")
	a.is(object{
		fmt.Sprintf("result.artifacts.%d.parts", shown-1): textParts(fmt.Sprint(15, large)), "result.status.message.parts": textParts("the last"),
		"result.metadata": object{"artifacts_omitted": 16 - shown, "history_truncated": true},
	})
	for _, at := range []string{"result.artifacts.0.artifactId", "result.status.message.messageId"} {
		h.first.ask("GET", "/messages/"+a.text(at), "").is(object{"status": "delivered"})
	}
	if shown < 12 || shown == 16 || len(a.raw) > 1<<20 {
		t.Errorf("%d of 16 artifacts, in %d bytes", shown, len(a.raw))
	}
}
