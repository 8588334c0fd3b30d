package blackbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// Reaches calls a method of A2A at an agent's endpoint, as this agent, and checks nothing.
func (g *Agent) Reaches(to *Agent, method string, params obj, headers ...string) *Answer {
	return g.Post("/a2a/"+to.Handle, obj{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, append([]string{"X-Svc-Agent", g.ID}, headers...)...).As("%s", method)
}

// Cleartext is the message of a client of A2A.
func Cleartext(id, said string, more ...obj) obj {
	return obj{"message": Merged(obj{"messageId": id, "role": "ROLE_USER", "parts": []any{obj{"text": said}}}, more...), "configuration": obj{"returnImmediately": true}}
}

// Bridged makes the agent reachable over A2A.
func (g *Agent) Bridged() *Agent {
	g.Put(g.Path("/card"), BridgedCard()).Want(200)
	return g
}

// Begins begins a task and returns its id.
func (g *Agent) Begins(to *Agent, id string) string {
	g.T.Helper()
	return g.Reaches(to, "SendMessage", Cleartext(id, "hello")).Want(200).Str("result.task.id")
}

// RPCFails checks an error of JSON-RPC that has the status 200.
func (a *Answer) RPCFails(code int, reason string) *Answer {
	a.T.Helper()
	a.Want(200)
	details, _ := a.At("error.data").([]any)
	rows := Objects(details)
	if !Same(a.At("error.code"), code) || len(rows) == 0 || rows[0]["reason"] != reason {
		a.Errorf("want the error %d, %s", code, reason)
	}
	return a
}

// pushed returns the bodies of the notifications that a target has, once the task has
// ended.
func (x *target) pushed(t *testing.T) (bodies []string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		bodies = nil
		for _, d := range x.deliveries() {
			bodies = append(bodies, string(d.raw))
		}
		if len(bodies) > 0 && strings.Contains(bodies[len(bodies)-1], "TASK_STATE_COMPLETED") {
			return bodies
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last notification is not the end of the task: %q", bodies)
		}
	}
}

// Streamed returns the events of an ended task after its first message, as a stream has
// them.
func (g *Agent) Streamed(to *Agent, task string) (events []string) {
	g.T.Helper()
	a := g.Reaches(to, "SubscribeToTask", obj{"id": task}, "Last-Event-ID", "0").Want(200)
	for line := range strings.Lines(string(a.Raw)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event struct{ Result json.RawMessage }
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				a.Fatalf("%v in %q", err, line)
			}
			events = append(events, string(event.Result))
		}
	}
	if len(events) < 2 || !strings.HasPrefix(events[0], `{"task":`) {
		a.Fatalf("not the stream of a task")
	}
	return events[1:]
}

// TestPushNotifications: every event of a task arrives at the target, one after the other,
// with the client's token and credentials. An event that the target does not take is sent
// again before the next. A configuration that was deleted gets nothing more.
func TestPushNotifications(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		b.Bridged()
		task := a.Begins(b, "m-1")
		busy := says(503, "Retry-After", "1")
		to, gone, stopped := theSink(t).target(busy, says(200)), theSink(t).target(), theSink(t).target(busy, says(200))
		push := func(id string, x *target, more obj) {
			t.Helper()
			config := Merged(obj{"taskId": task, "id": id, "url": x.url}, more)
			want := obj{"jsonrpc": "2.0", "id": 1, "result": config}
			if made := a.Reaches(b, "CreateTaskPushNotificationConfig", config).Want(200); !Same(made.Body, want) {
				made.Errorf("want %v", want)
			}
		}
		remove := func(id string) {
			t.Helper()
			a.Reaches(b, "DeleteTaskPushNotificationConfig", obj{"taskId": task, "id": id}).Want(200).Is("result", obj{})
		}
		push("mine", to, obj{"token": "a-token", "authentication": obj{"scheme": "Bearer", "credentials": "a-credential"}})
		push("gone", gone, nil)
		push("stopped", stopped, nil)
		remove("gone")
		asked := b.Arrival(1)
		writes := func(kind, said string) {
			t.Helper()
			b.Reply(asked, obj{"type": "svc.v1." + kind, "metadata": obj{"a2a": obj{"parts": []any{obj{"text": said}}}}})
		}
		writes("status_update", "one")
		stopped.waitForDelivery(t, 1)
		remove("stopped")
		writes("status_update", "two")
		writes("task_response", "three")
		got, want := to.pushed(t), a.Streamed(b, task)
		if len(got) < 2 || got[0] != got[1] || !slices.Equal(got[1:], want) {
			t.Errorf("notified %q, streamed %q; the first has to come twice", got, want)
		}
		for _, d := range to.deliveries() {
			for name, value := range map[string]string{
				"Content-Type": "application/a2a+json", "Authorization": "Bearer a-credential", "X-A2A-Notification-Token": "a-token", "A2A-Notification-Token": "a-token",
			} {
				if d.method != "POST" || d.header.Get(name) != value {
					t.Errorf("%s with %s: %q, want POST and %q", d.method, name, d.header.Get(name), value)
				}
			}
		}
		if n := len(gone.deliveries()); n != 0 {
			t.Errorf("%d notifications for a configuration that was deleted before anything happened", n)
		}
		for _, d := range stopped.deliveries() {
			if string(d.raw) != got[0] {
				t.Errorf("a notification after the configuration was deleted: %s", d.raw)
			}
		}
	})
}

// refusesPushTargets checks that a server not in development mode refuses targets that are
// not public addresses, for push notifications too.
func refusesPushTargets(t *testing.T, s *Server) {
	a, b := Pair(t, s)
	b.Bridged()
	task := a.Begins(b, "m-1")
	create := func(address string) *Answer {
		return a.Reaches(b, "CreateTaskPushNotificationConfig", obj{"taskId": task, "url": address}).As("%q", address)
	}
	blocked := func(refused *Answer) {
		t.Helper()
		refused.RPCFails(-32602, "INVALID_PARAMS")
		details, _ := refused.At("error.data").([]any)
		violation := obj{}
		if rows := Objects(details); len(rows) == 2 {
			fields, _ := rows[1]["fieldViolations"].([]any)
			for _, violation = range Objects(fields) {
			}
		}
		if violation["field"] != "url" {
			refused.Errorf("want a violation of the field url")
		}
	}
	for _, host := range blockedHosts {
		blocked(create("https://" + host + "/push"))
	}
	for _, bad := range []string{"http://hooks.unknown.invalid/", "ftp://hooks.unknown.invalid/", "https://user:pass@hooks.unknown.invalid/", "https://hooks.unknown.invalid/#part", "hooks.unknown.invalid", ""} {
		blocked(create(bad))
	}
	inline := Cleartext("m-2", "hello")
	inline["configuration"] = obj{"returnImmediately": true, "taskPushNotificationConfig": obj{"url": "https://169.254.169.254/"}}
	blocked(a.Reaches(b, "SendMessage", inline))
	create("https://hooks.unknown.invalid/push").As("control").Want(200).Is("result.url", "https://hooks.unknown.invalid/push")
	if n := len(b.Everything()); n != 1 {
		t.Errorf("%d messages; a message with a blocked target must not be stored", n)
	}
}
