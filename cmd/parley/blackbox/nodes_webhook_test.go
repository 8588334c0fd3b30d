package blackbox

import "testing"

// TestReceiptsOfAllNodesReachWebhooks marks messages as read on each node: the sender's webhook is
// notified about all.
func TestReceiptsOfAllNodesReachWebhooks(t *testing.T) {
	t.Parallel()
	flags, err := trustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := startNodes(t, 3, flags...)
	one, other := pair(t, n.server())
	of := one.wants("message.read")
	n.ready(t)
	for i := range 3 {
		m := one.send(other)
		other.on(n.node(i)).acked(obj{"ids": []any{m["id"]}}, 1)
		of.waitForEvent("message.read", i+1, "message_id", text(m, "id"))
	}
}
