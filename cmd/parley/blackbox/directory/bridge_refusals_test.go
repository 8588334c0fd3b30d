package directory

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestBridgeStrangers: nobody but the organization that began a task sees it, at the agent
// with which it began it.
func TestBridgeStrangers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		c := s.Org(t).Agent("carol").Bridged()
		b.Bridged()
		task, other := a.Begins(b, "m-1"), a.Begins(b, "m-2")
		for _, by := range []struct {
			agent, at *kit.Agent
		}{{c, b}, {a, c}, {b, c}} {
			for method, params := range map[string]obj{
				"GetTask": {"id": task}, "CancelTask": {"id": task}, "SubscribeToTask": {"id": task},
				"SendMessage": kit.Cleartext("m-3", "more", obj{"taskId": task}), "SendStreamingMessage": kit.Cleartext("m-3", "more", obj{"taskId": task}),
				"CreateTaskPushNotificationConfig": {"taskId": task, "url": "https://hooks.unknown.invalid/"}, "GetTaskPushNotificationConfig": {"taskId": task, "id": "x"},
				"ListTaskPushNotificationConfigs": {"taskId": task}, "DeleteTaskPushNotificationConfig": {"taskId": task, "id": "x"},
			} {
				by.agent.Reaches(by.at, method, params).As("%s at %s", by.agent.Name, by.at.Name).RPCFails(-32001, "TASK_NOT_FOUND")
			}
			by.agent.Reaches(by.at, "ListTasks", obj{}).Want(200).Is("result.totalSize", 0)
		}
		c.Reaches(b, "SendMessage", kit.Cleartext("m-4", "hello", obj{"contextId": task})).RPCFails(-32602, "INVALID_PARAMS")
		a.Reaches(b, "SendMessage", kit.Cleartext("m-4", "hello", obj{"taskId": task, "contextId": other})).RPCFails(-32602, "INVALID_PARAMS")
		a.Reaches(b, "SendMessage", kit.Cleartext("m-4", "hello", obj{"taskId": task, "contextId": kit.Nobody})).RPCFails(-32602, "INVALID_PARAMS")
		a.Reaches(b, "ListTasks", obj{}).Want(200).Is("result.totalSize", 2)
		if n := len(b.Everything()); n != 2 {
			t.Errorf("%d messages; refused ones must not be stored", n)
		}
	})
}

// TestBridgeLimits: quota, suspension and rate refuse requests over A2A, each in the form of
// JSON-RPC.
func TestBridgeLimits(t *testing.T) {
	t.Parallel()
	const rate = 12
	admin := kit.FreeAddress(t)
	s := kit.Start(t, "--admin-listen", admin, "--quota-profile", "public", "--quota", "tier1.messages_per_day=2", "--rate", "a2a=12")
	a, b := kit.Pair(t, s)
	b.Bridged()
	task := a.Begins(b, "m-1")
	a.Begins(b, "m-2")
	a.Reaches(b, "SendMessage", kit.Cleartext("m-3", "hello")).RPCFails(-32000, "QUOTA_EXCEEDED")
	a.Reaches(b, "SendMessage", kit.Cleartext("m-3", "more", obj{"taskId": task})).RPCFails(-32000, "QUOTA_EXCEEDED")
	a.Reaches(b, "SendMessage", kit.Cleartext("m-1", "hello")).As("a repeat").Want(200).Is("result.task.id", task)

	kit.Succeeds(t, "org", "suspend", a.Slug, "--admin", "http://"+admin, "--data", s.Dir)
	a.Reaches(b, "GetTask", obj{"id": task}).RPCFails(-32000, "SUSPENDED")
	a.Reaches(b, "SendMessage", kit.Cleartext("m-1", "hello")).RPCFails(-32000, "SUSPENDED")

	for n := 0; ; n++ {
		limited := b.Reaches(b, "GetTask", obj{"id": task})
		if limited.Status == 429 {
			if n < rate || limited.Header.Get("Retry-After") == "" {
				limited.Errorf("refused after %d requests", n)
			}
			limited.Is("jsonrpc", "2.0", "id", nil, "error.code", -32000, "code", "rate_limited", "request_id", limited.Header.Get("X-Request-ID"))
			break
		}
		limited.RPCFails(-32001, "TASK_NOT_FOUND")
		if t.Failed() || n > 50*rate {
			limited.Fatalf("request %d passes", n+1)
		}
	}
	s.Call(t, b.Token, "GET", "/org", nil).As("another rate").Want(200)
}
