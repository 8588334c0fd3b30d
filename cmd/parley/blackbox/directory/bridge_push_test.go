package directory

import (
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestPushNotifications: every event of a task arrives at the target, one after the other,
// with the client's token and credentials. An event that the target does not take is sent
// again before the next. A configuration that was deleted gets nothing more.
func TestPushNotifications(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		b.Bridged()
		task := a.Begins(b, "m-1")
		busy := hooktest.Says(503, "Retry-After", "1")
		to, gone, stopped := hooktest.SharedSink(t).Target(busy, hooktest.Says(200)), hooktest.SharedSink(t).Target(), hooktest.SharedSink(t).Target(busy, hooktest.Says(200))
		push := func(id string, x *hooktest.Target, more obj) {
			t.Helper()
			config := kit.Merged(obj{"taskId": task, "id": id, "url": x.URL}, more)
			want := obj{"jsonrpc": "2.0", "id": 1, "result": config}
			if made := a.Reaches(b, "CreateTaskPushNotificationConfig", config).Want(200); !kit.Same(made.Body, want) {
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
		stopped.WaitForDelivery(t, 1)
		remove("stopped")
		writes("status_update", "two")
		writes("task_response", "three")
		got, want := to.Pushed(t), a.Streamed(b, task)
		if len(got) < 2 || got[0] != got[1] || !slices.Equal(got[1:], want) {
			t.Errorf("notified %q, streamed %q; the first has to come twice", got, want)
		}
		for _, d := range to.Deliveries() {
			for name, value := range map[string]string{
				"Content-Type": "application/a2a+json", "Authorization": "Bearer a-credential", "X-A2A-Notification-Token": "a-token", "A2A-Notification-Token": "a-token",
			} {
				if d.Method != "POST" || d.Header.Get(name) != value {
					t.Errorf("%s with %s: %q, want POST and %q", d.Method, name, d.Header.Get(name), value)
				}
			}
		}
		if n := len(gone.Deliveries()); n != 0 {
			t.Errorf("%d notifications for a configuration that was deleted before anything happened", n)
		}
		for _, d := range stopped.Deliveries() {
			if string(d.Raw) != got[0] {
				t.Errorf("a notification after the configuration was deleted: %s", d.Raw)
			}
		}
	})
}
