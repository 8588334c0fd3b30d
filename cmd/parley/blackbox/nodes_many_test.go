package blackbox

import (
	"flag"
	"strconv"
	"testing"
	"time"
)

var nodesMany = flag.Int("nodes.many", 1000, "how many agents with a card and a webhook TestLeaderOfManyKilled makes")

// TestLeaderOfManyKilled kills the node that leads while there are many webhooks and cards: the
// next one takes requests before it has looked at all of them, and delivers.
func TestLeaderOfManyKilled(t *testing.T) {
	flags, err := trustSink()
	Must(t, err)
	n := StartNodes(t, 3, flags...)
	n.Ready(t)
	o := n.Leader().Org(t)
	target := theSink(t).target()
	again := func(call func() *Answer) *Answer { // these may be more than the processors can do
		a := call()
		for ; a.Status == 503; a = call() {
			time.Sleep(100 * time.Millisecond)
		}
		return a
	}
	began := time.Now()
	ForEachBounded(*nodesMany, func(i int) {
		name := "many" + strconv.Itoa(i)
		id := again(func() *Answer { return o.Post("/agents", NewAgent(name), "Idempotency-Key", name) }).Want(201).Str("id")
		again(func() *Answer {
			return o.Put("/agents/"+id+"/card", Merged(PlainCard(), obj{"is_public": true}))
		}).Want(200)
		again(func() *Answer {
			return o.Post("/webhooks", obj{"agent_id": id, "url": target.url, "events": []string{"message.received"}})
		}).Want(201)
	})
	t.Logf("%d agents after %v", *nodesMany, time.Since(began).Round(time.Second))
	w := newRecordedServer(t, n.Server(), 2, 2)
	for range 5 {
		n.Ready(t)
		leader := n.Leader()
		n.Avoid(leader, true)
		leader.Kill()
		took := w.firstSend()
		t.Logf("the first message was acknowledged %v after the kill", took.Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("no message was acknowledged for %v", took)
		}
		one, other := Pair(t, n.Server())
		h := other.listens()
		one.Send(other)
		h.to.waitForDelivery(t, 1)
		Must(t, leader.Again())
		n.Avoid(leader, false)
	}
}
