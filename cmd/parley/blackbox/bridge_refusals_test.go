package blackbox

import "testing"

// TestBridgeStrangers: nobody but the organization that began a task sees it, at the agent
// with which it began it.
func TestBridgeStrangers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		c := s.org(t).agent("carol").bridged()
		b.bridged()
		task, other := a.begins(b, "m-1"), a.begins(b, "m-2")
		for _, by := range []struct {
			agent, at *agent
		}{{c, b}, {a, c}, {b, c}} {
			for method, params := range map[string]obj{
				"GetTask": {"id": task}, "CancelTask": {"id": task}, "SubscribeToTask": {"id": task},
				"SendMessage": cleartext("m-3", "more", obj{"taskId": task}), "SendStreamingMessage": cleartext("m-3", "more", obj{"taskId": task}),
				"CreateTaskPushNotificationConfig": {"taskId": task, "url": "https://hooks.unknown.invalid/"}, "GetTaskPushNotificationConfig": {"taskId": task, "id": "x"},
				"ListTaskPushNotificationConfigs": {"taskId": task}, "DeleteTaskPushNotificationConfig": {"taskId": task, "id": "x"},
			} {
				by.agent.reaches(by.at, method, params).as("%s at %s", by.agent.name, by.at.name).rpcFails(-32001, "TASK_NOT_FOUND")
			}
			by.agent.reaches(by.at, "ListTasks", obj{}).want(200).is("result.totalSize", 0)
		}
		c.reaches(b, "SendMessage", cleartext("m-4", "hello", obj{"contextId": task})).rpcFails(-32602, "INVALID_PARAMS")
		a.reaches(b, "SendMessage", cleartext("m-4", "hello", obj{"taskId": task, "contextId": other})).rpcFails(-32602, "INVALID_PARAMS")
		a.reaches(b, "SendMessage", cleartext("m-4", "hello", obj{"taskId": task, "contextId": nobody})).rpcFails(-32602, "INVALID_PARAMS")
		a.reaches(b, "ListTasks", obj{}).want(200).is("result.totalSize", 2)
		if n := len(b.everything()); n != 2 {
			t.Errorf("%d messages; refused ones must not be stored", n)
		}
	})
}

// TestBridgeLimits: quota, suspension and rate refuse requests over A2A, each in the form of
// JSON-RPC.
func TestBridgeLimits(t *testing.T) {
	t.Parallel()
	const rate = 12
	admin := freeAddress(t)
	s := start(t, "--admin-listen", admin, "--quota-profile", "public", "--quota", "tier1.messages_per_day=2", "--rate", "a2a=12")
	a, b := pair(t, s)
	b.bridged()
	task := a.begins(b, "m-1")
	a.begins(b, "m-2")
	a.reaches(b, "SendMessage", cleartext("m-3", "hello")).rpcFails(-32000, "QUOTA_EXCEEDED")
	a.reaches(b, "SendMessage", cleartext("m-3", "more", obj{"taskId": task})).rpcFails(-32000, "QUOTA_EXCEEDED")
	a.reaches(b, "SendMessage", cleartext("m-1", "hello")).as("a repeat").want(200).is("result.task.id", task)

	succeeds(t, "org", "suspend", a.slug, "--admin", "http://"+admin, "--data", s.dir)
	a.reaches(b, "GetTask", obj{"id": task}).rpcFails(-32000, "SUSPENDED")
	a.reaches(b, "SendMessage", cleartext("m-1", "hello")).rpcFails(-32000, "SUSPENDED")

	for n := 0; ; n++ {
		limited := b.reaches(b, "GetTask", obj{"id": task})
		if limited.status == 429 {
			if n < rate || limited.header.Get("Retry-After") == "" {
				limited.errorf("refused after %d requests", n)
			}
			limited.is("jsonrpc", "2.0", "id", nil, "error.code", -32000, "code", "rate_limited", "request_id", limited.header.Get("X-Request-ID"))
			break
		}
		limited.rpcFails(-32001, "TASK_NOT_FOUND")
		if t.Failed() || n > 50*rate {
			limited.fatalf("request %d passes", n+1)
		}
	}
	s.call(t, b.token, "GET", "/org", nil).as("another rate").want(200)
}
