package nodes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestReceiptsOfAllNodesReachWebhooks marks messages as read on each node: the sender's webhook is
// notified about all.
func TestReceiptsOfAllNodesReachWebhooks(t *testing.T) {
	t.Parallel()
	flags, err := hooktest.TrustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := kit.StartNodes(t, 3, flags...)
	one, other := kit.Pair(t, n.Server())
	of := hooktest.Wanting(one, "message.read")
	n.Ready(t)
	for i := range 3 {
		m := one.Send(other)
		other.On(n.Node(i)).Acked(obj{"ids": []any{m["id"]}}, 1)
		of.WaitForEvent("message.read", i+1, "message_id", kit.Text(m, "id"))
	}
}

// TestNodesKillsDuringDelivery is TestKillsDuringDelivery on three nodes, of which the leader or
// a follower is killed while clients go on. Meanwhile a task proceeds whose events are pushed:
// they arrive in order, and only one that was under way comes twice.
func TestNodesKillsDuringDelivery(t *testing.T) {
	t.Parallel()
	flags, err := hooktest.TrustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := kit.StartNodes(t, 3, flags...)
	senders, hs, owed := hooktest.Announcing(t, n.Server())
	client, worker := kit.Pair(t, n.Server())
	worker.Bridged()
	task, to := client.Begins(worker, "m-1"), hooktest.SharedSink(t).Target()
	client.Reaches(worker, "CreateTaskPushNotificationConfig", obj{"taskId": task, "id": "mine", "url": to.URL}).Want(200)
	asked, said := worker.Arrival(1), 0
	var over atomic.Bool
	var writing sync.WaitGroup
	writing.Go(func() {
		for ; !over.Load(); said++ {
			writesAtLast(worker, asked, "status_update", said)
		}
	})
	for life := range 4 {
		victim, follower := n.Roles(t)
		if life%2 == 1 {
			victim = follower
		}
		hooktest.Lives(life, senders, hs, owed, func() {
			if err := n.StrikeKilled(victim, func() { time.Sleep(800 * time.Millisecond) }); err != nil {
				t.Error(err)
			}
			n.Ready(t)
		})
	}
	over.Store(true)
	writing.Wait()
	writesAtLast(worker, asked, "task_response", said)
	owed.CheckAll(t, hs)
	deliveries := 0
	for _, h := range hs {
		for _, d := range h.To.Deliveries() {
			d.Judged(t, h)
			deliveries++
		}
	}
	got, want := to.Pushed(t), client.Streamed(worker, task)
	if said < 8 || !inOrder(got, want) {
		t.Errorf("%d updates; notified %s\nstreamed %s", said, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if inOrder(slices.Concat(got, got[:1]), want) || inOrder(got, want[1:]) {
		t.Error("control: another order, or a missing event, was not found")
	}
	t.Logf("%d signed deliveries; %d events of a task, pushed in %d", deliveries, len(want), len(got))
}

// inOrder reports whether notifications are the events, of which any may come again before the
// next.
func inOrder(got, events []string) bool {
	return slices.Equal(slices.Compact(slices.Clone(got)), events)
}

// writesAtLast writes to a task, again and again with one key until that is acknowledged.
func writesAtLast(g *kit.Agent, asked obj, kind string, n int) {
	said := obj{"type": "svc.v1." + kind, "metadata": obj{"a2a": obj{"parts": []any{obj{"text": fmt.Sprint("update ", n)}}}}}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		a := g.TryReply(asked, said, "Idempotency-Key", fmt.Sprint(kind, n))
		if a.Err == nil && a.Status < 300 {
			return
		}
		if time.Since(began) > 30*time.Second {
			a.Errorf("a reply is never acknowledged")
			return
		}
	}
}
