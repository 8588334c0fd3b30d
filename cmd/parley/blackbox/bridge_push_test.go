package blackbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// reaches calls a method of A2A at an agent's endpoint, as this agent, and checks nothing.
func (g *agent) reaches(to *agent, method string, params obj, headers ...string) *answer {
	return g.post("/a2a/"+to.handle, obj{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, append([]string{"X-Svc-Agent", g.id}, headers...)...).as("%s", method)
}

// cleartext is the message of a client of A2A.
func cleartext(id, said string, more ...obj) obj {
	return obj{"message": merged(obj{"messageId": id, "role": "ROLE_USER", "parts": []any{obj{"text": said}}}, more...), "configuration": obj{"returnImmediately": true}}
}

// bridged makes the agent reachable over A2A.
func (g *agent) bridged() *agent {
	g.put(g.path("/card"), bridgedCard()).want(200)
	return g
}

// begins begins a task and returns its id.
func (g *agent) begins(to *agent, id string) string {
	g.t.Helper()
	return g.reaches(to, "SendMessage", cleartext(id, "hello")).want(200).str("result.task.id")
}

// rpcFails checks an error of JSON-RPC that has the status 200.
func (a *answer) rpcFails(code int, reason string) *answer {
	a.t.Helper()
	a.want(200)
	details, _ := a.at("error.data").([]any)
	rows := objects(details)
	if !same(a.at("error.code"), code) || len(rows) == 0 || rows[0]["reason"] != reason {
		a.errorf("want the error %d, %s", code, reason)
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

// streamed returns the events of an ended task after its first message, as a stream has
// them.
func (g *agent) streamed(to *agent, task string) (events []string) {
	g.t.Helper()
	a := g.reaches(to, "SubscribeToTask", obj{"id": task}, "Last-Event-ID", "0").want(200)
	for line := range strings.Lines(string(a.raw)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event struct{ Result json.RawMessage }
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				a.fatalf("%v in %q", err, line)
			}
			events = append(events, string(event.Result))
		}
	}
	if len(events) < 2 || !strings.HasPrefix(events[0], `{"task":`) {
		a.fatalf("not the stream of a task")
	}
	return events[1:]
}

// TestPushNotifications: every event of a task arrives at the target, one after the other,
// with the client's token and credentials. An event that the target does not take is sent
// again before the next. A configuration that was deleted gets nothing more.
func TestPushNotifications(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		b.bridged()
		task := a.begins(b, "m-1")
		busy := says(503, "Retry-After", "1")
		to, gone, stopped := theSink(t).target(busy, says(200)), theSink(t).target(), theSink(t).target(busy, says(200))
		push := func(id string, x *target, more obj) {
			t.Helper()
			config := merged(obj{"taskId": task, "id": id, "url": x.url}, more)
			want := obj{"jsonrpc": "2.0", "id": 1, "result": config}
			if made := a.reaches(b, "CreateTaskPushNotificationConfig", config).want(200); !same(made.body, want) {
				made.errorf("want %v", want)
			}
		}
		remove := func(id string) {
			t.Helper()
			a.reaches(b, "DeleteTaskPushNotificationConfig", obj{"taskId": task, "id": id}).want(200).is("result", obj{})
		}
		push("mine", to, obj{"token": "a-token", "authentication": obj{"scheme": "Bearer", "credentials": "a-credential"}})
		push("gone", gone, nil)
		push("stopped", stopped, nil)
		remove("gone")
		asked := b.arrival(1)
		writes := func(kind, said string) {
			t.Helper()
			b.reply(asked, obj{"type": "svc.v1." + kind, "metadata": obj{"a2a": obj{"parts": []any{obj{"text": said}}}}})
		}
		writes("status_update", "one")
		stopped.waitForDelivery(t, 1)
		remove("stopped")
		writes("status_update", "two")
		writes("task_response", "three")
		got, want := to.pushed(t), a.streamed(b, task)
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
func refusesPushTargets(t *testing.T, s *server) {
	a, b := pair(t, s)
	b.bridged()
	task := a.begins(b, "m-1")
	create := func(address string) *answer {
		return a.reaches(b, "CreateTaskPushNotificationConfig", obj{"taskId": task, "url": address}).as("%q", address)
	}
	blocked := func(refused *answer) {
		t.Helper()
		refused.rpcFails(-32602, "INVALID_PARAMS")
		details, _ := refused.at("error.data").([]any)
		violation := obj{}
		if rows := objects(details); len(rows) == 2 {
			fields, _ := rows[1]["fieldViolations"].([]any)
			for _, violation = range objects(fields) {
			}
		}
		if violation["field"] != "url" {
			refused.errorf("want a violation of the field url")
		}
	}
	for _, host := range blockedHosts {
		blocked(create("https://" + host + "/push"))
	}
	for _, bad := range []string{"http://hooks.unknown.invalid/", "ftp://hooks.unknown.invalid/", "https://user:pass@hooks.unknown.invalid/", "https://hooks.unknown.invalid/#part", "hooks.unknown.invalid", ""} {
		blocked(create(bad))
	}
	inline := cleartext("m-2", "hello")
	inline["configuration"] = obj{"returnImmediately": true, "taskPushNotificationConfig": obj{"url": "https://169.254.169.254/"}}
	blocked(a.reaches(b, "SendMessage", inline))
	create("https://hooks.unknown.invalid/push").as("control").want(200).is("result.url", "https://hooks.unknown.invalid/push")
	if n := len(b.everything()); n != 1 {
		t.Errorf("%d messages; a message with a blocked target must not be stored", n)
	}
}
