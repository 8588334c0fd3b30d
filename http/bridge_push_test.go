package http

import (
	"encoding/json"
	"fmt"
	stdhttp "net/http"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
)

// push creates a push notification configuration.
func (h *bridgeHarness) push(task, url string, more object) *response {
	h.t.Helper()
	params := object{"taskId": task, "url": url}
	for name, value := range more {
		params[name] = value
	}
	return h.call(h.second, "CreateTaskPushNotificationConfig", params)
}

// event returns the StreamResponse of a notification.
func (p posted) event(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(p.body), &o); err != nil || len(o) != 1 {
		t.Fatalf("%v in %s", err, p.body)
	}
	return o
}

// state returns the state in a notification, "" if it has none.
func (p posted) state(t *testing.T) string {
	t.Helper()
	update, _ := p.event(t)["statusUpdate"].(object)
	status, _ := update["status"].(object)
	state, _ := status["state"].(string)
	return state
}

// TestPushNotifications: the target gets each event that a stream sends, in their order, with
// the headers that the client chose.
func TestPushNotifications(t *testing.T) {
	h := newBridgeHarness(t)
	to := newTarget(t, 200)
	task := h.begin("m1")
	h.push(task, to.URL, object{"id": "mine", "token": "tok", "authentication": object{"scheme": "Bearer", "credentials": "cred"}}).want(200).is(object{
		"result": object{"id": "mine", "taskId": task, "url": to.URL, "token": "tok", "authentication": object{"scheme": "Bearer", "credentials": "cred"}},
	})
	stream := h.follow("SubscribeToTask", object{"id": task}, "Last-Event-ID: 0")
	stream.next()
	h.reply(task, "status_update", textParts("soon"))
	h.first.ask("PATCH", "/conversations/"+task+"/status", `{"status":"input_required","reason":"say which"}`).want(200)
	h.call(h.second, "SendMessage", h.say("m2", textParts("French."), object{"taskId": task})).want(200)
	h.reply(task, "task_response", textParts("done"))
	for i, ended := 0, false; !ended; i++ {
		p := to.next(t)
		sent, _ := stream.next()
		got, _ := json.Marshal(p.event(t))
		want, _ := json.Marshal(sent.at("result"))
		if string(got) != string(want) {
			t.Errorf("event %d: pushed %s, streamed %s", i, got, want)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/a2a+json", "Authorization": "Bearer cred", "X-A2A-Notification-Token": "tok", "A2A-Notification-Token": "tok", "Webhook-Signature": "",
		} {
			if p.head.Get(name) != value {
				t.Errorf("the header %s is %q, want %q", name, p.head.Get(name), value)
			}
		}
		ended = p.state(t) == "TASK_STATE_COMPLETED"
	}
	if n := h.second.ask("GET", "/webhooks?include_inactive=true", "").want(200).len(""); n != 0 {
		t.Errorf("%d configurations are listed as webhooks", n)
	}
}

func TestPushConfigs(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	named := func(id string) object { return object{"taskId": task, "id": id} }
	made := h.push(task, "https://hooks.example/a", nil).want(200)
	id := made.text("result.id")
	h.call(h.second, "GetTaskPushNotificationConfig", named(id)).is(object{"result": object{"id": id, "taskId": task, "url": "https://hooks.example/a"}})
	nested := object{"taskId": task, "pushNotificationConfig": object{"id": "two", "url": "https://hooks.example/b", "authentication": object{"schemes": []any{"Basic"}, "credentials": "x"}}}
	h.call(h.second, "CreateTaskPushNotificationConfig", nested).is(object{"result.id": "two", "result.authentication.scheme": "Basic", "result.taskId": task})
	h.push(task, "https://HOOKS.example/c", object{"id": "two", "token": "new"}).is(object{
		"result": object{"id": "two", "taskId": task, "url": "https://HOOKS.example/c", "token": "new"},
	})
	all := h.call(h.second, "ListTaskPushNotificationConfigs", object{"taskId": task}).want(200)
	if n := all.len("result.configs"); n != 2 {
		t.Errorf("%d configurations after one was replaced: %s", n, all.raw)
	}
	for i := 2; i < 10; i++ {
		h.push(task, "https://hooks.example/a", object{"id": fmt.Sprint("more", i)}).is(object{"result.id": fmt.Sprint("more", i)})
	}
	h.push(task, "https://hooks.example/a", nil).fails(-32000, "QUOTA_EXCEEDED")
	h.push(task, "https://hooks.example/d", object{"id": "two"}).is(object{"result.url": "https://hooks.example/d"})
	page := h.call(h.second, "ListTaskPushNotificationConfigs", object{"taskId": task, "pageSize": 7}).want(200)
	rest := h.call(h.second, "ListTaskPushNotificationConfigs", object{"taskId": task, "pageSize": 7, "pageToken": page.text("result.nextPageToken")}).want(200)
	if page.len("result.configs") != 7 || rest.len("result.configs") != 3 {
		t.Errorf("pages %s and %s", page.raw, rest.raw)
	}
	for range 2 {
		h.call(h.second, "DeleteTaskPushNotificationConfig", named("two")).is(object{"result": object{}})
		h.call(h.second, "GetTaskPushNotificationConfig", named("two")).fails(-32001, "TASK_NOT_FOUND")
	}
	h.push(h.begin("m2"), "https://hooks.example/a", object{"id": "two"}).is(object{"result.id": "two"})
	for _, x := range []struct {
		field, url string
		more       object
	}{
		{"url", "https://10.0.0.1/", nil},
		{"url", "https://169.254.169.254/", nil},
		{"url", "ftp://hooks.example/", nil},
		{"url", "", nil},
		{"token", "https://hooks.example/", object{"token": "a\nb: c"}},
		{"authentication.scheme", "https://hooks.example/", object{"authentication": object{"scheme": "a b"}}},
		{"authentication.credentials", "https://hooks.example/", object{"authentication": object{"scheme": "a", "credentials": strings.Repeat("x", 4097)}}},
		{"id", "https://hooks.example/", object{"id": strings.Repeat("x", 256)}},
	} {
		h.push(task, x.url, x.more).fails(-32602, "INVALID_PARAMS").is(object{"error.data.1.fieldViolations.0.field": x.field})
	}
	// The other side of the task does not see them, nor anybody else.
	for _, method := range []string{"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"} {
		h.call(h.first, method, object{"taskId": task, "id": id, "url": "https://hooks.example/"}).fails(-32001, "TASK_NOT_FOUND")
		h.call(h.second, method, object{"taskId": "tck", "id": id, "url": "https://hooks.example/"}).fails(-32001, "TASK_NOT_FOUND")
	}
	h.call(h.second, "GetTaskPushNotificationConfig", named(id)).is(object{"result.id": id})
	h.second.ask("DELETE", "/agents/"+h.bob, "").want(204)
	agent, _ := parley.ParseID[parley.AgentID](h.bob)
	conversation, _ := parley.ParseID[parley.ConversationID](task)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if all, err := h.node.Webhooks.PushConfigs(t.Context(), agent, conversation); err == nil && len(all) == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after the revocation there are %v, %v", all, err)
		}
	}
	h.push(task, "https://hooks.example/a", nil).fails(-32000, "GONE")
}

// TestInlinePush: a configuration that comes with a message gets the events after it.
func TestInlinePush(t *testing.T) {
	h := newBridgeHarness(t)
	to := newTarget(t, 200)
	send := func(id string, more object, url string) *response {
		params := h.say(id, textParts("hello"), more)
		params["configuration"].(object)["taskPushNotificationConfig"] = object{"url": url}
		return h.call(h.second, "SendMessage", params)
	}
	send("m0", nil, "https://127.0.0.1.nip.example@10.0.0.1/").fails(-32602, "INVALID_PARAMS")
	send("m0", nil, "https://10.0.0.1/").fails(-32602, "INVALID_PARAMS").is(object{"error.data.1.fieldViolations.0.field": "url"})
	if n := h.first.ask("GET", "/agents/"+h.art+"/messages", "").len("items"); n != 0 {
		t.Fatalf("%d messages of refused requests", n)
	}
	task := send("m1", nil, to.URL).want(200).text("result.task.id")
	send("m1", nil, to.URL).want(200).is(object{"result.task.id": task}) // replaces
	if all := h.call(h.second, "ListTaskPushNotificationConfigs", object{"taskId": task}).is(object{"result.configs.0.url": to.URL}); all.len("result.configs") != 1 {
		t.Errorf("a repeated message made another configuration: %s", all.raw)
	}
	h.reply(task, "dm", textParts("what?"))
	if state := to.next(t).state(t); state != "TASK_STATE_WORKING" {
		t.Errorf("the first notification says %q", state)
	}
	other := newTarget(t, 200)
	send("m2", object{"taskId": task}, other.URL).want(200)
	h.reply(task, "error", textParts("broken"))
	for p := other.next(t); p.state(t) != "TASK_STATE_FAILED"; p = other.next(t) {
		if strings.Contains(p.body, "what?") {
			t.Errorf("an event before the message: %s", p.body)
		}
	}
	ended := h.push(task, to.URL, object{"id": "late"}).want(200)
	h.call(h.second, "GetTaskPushNotificationConfig", object{"taskId": task, "id": "late"}).is(object{"result": ended.at("result")})
}

// TestPushOrder: no event overtakes one that may still be delivered, and a dead one lets the
// next go.
func TestPushOrder(t *testing.T) {
	t.Parallel() // it waits for timers
	h := newBridgeHarness(t)
	to := newTarget(t, stdhttp.StatusGone, stdhttp.StatusServiceUnavailable, 200)
	task := h.begin("m1")
	h.push(task, to.URL, nil).want(200)
	h.reply(task, "status_update", textParts("one"))
	h.reply(task, "status_update", textParts("two"))
	h.reply(task, "task_response", textParts("three"))
	var got []string
	for len(got) == 0 || got[len(got)-1] != "TASK_STATE_COMPLETED" {
		p := to.next(t)
		word := p.state(t)
		for _, text := range []string{"one", "two", "three"} {
			if strings.Contains(p.body, `"`+text+`"`) {
				word = text
			}
		}
		got = append(got, word)
	}
	// The first is dead. The second is refused once, and sent again before the others.
	if len(got) < 4 || got[1] != got[2] {
		t.Fatalf("notified %q", got)
	}
	want := append([]string{got[0], got[1]}, got[3:]...)
	if text := strings.Join(want, " "); text != "TASK_STATE_WORKING one two three TASK_STATE_COMPLETED" && text != "one TASK_STATE_WORKING two three TASK_STATE_COMPLETED" {
		t.Errorf("notified %q", got)
	}
}
