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
	must(t, err)
	n := startNodes(t, 3, flags...)
	n.ready(t)
	o := n.leader().org(t)
	target := theSink(t).target()
	again := func(call func() *answer) *answer { // these may be more than the processors can do
		a := call()
		for ; a.status == 503; a = call() {
			time.Sleep(100 * time.Millisecond)
		}
		return a
	}
	began := time.Now()
	forEachBounded(*nodesMany, func(i int) {
		name := "many" + strconv.Itoa(i)
		id := again(func() *answer { return o.post("/agents", newAgent(name), "Idempotency-Key", name) }).want(201).str("id")
		again(func() *answer {
			return o.put("/agents/"+id+"/card", merged(plainCard(), obj{"is_public": true}))
		}).want(200)
		again(func() *answer {
			return o.post("/webhooks", obj{"agent_id": id, "url": target.url, "events": []string{"message.received"}})
		}).want(201)
	})
	t.Logf("%d agents after %v", *nodesMany, time.Since(began).Round(time.Second))
	w := newRecordedServer(t, n.server(), 2, 2)
	for range 5 {
		n.ready(t)
		leader := n.leader()
		n.avoid(leader, true)
		leader.kill()
		took := w.firstSend()
		t.Logf("the first message was acknowledged %v after the kill", took.Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("no message was acknowledged for %v", took)
		}
		one, other := pair(t, n.server())
		h := other.listens()
		one.send(other)
		h.to.waitForDelivery(t, 1)
		must(t, leader.again())
		n.avoid(leader, false)
	}
}
