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
	began := time.Now()
	forEachBounded(*nodesMany, func(i int) {
		name := "many" + strconv.Itoa(i)
		var id string
		for _, next := range []func() *answer{
			func() *answer { return o.post("/agents", newAgent(name)) },
			func() *answer { return o.put("/agents/"+id+"/card", merged(plainCard(), obj{"is_public": true})) },
			func() *answer {
				return o.post("/webhooks", obj{"agent_id": id, "url": target.url, "events": []string{"message.received"}})
			},
		} {
			a := next()
			for a.status == 503 { // more than these processors can do
				time.Sleep(100 * time.Millisecond)
				a = next()
			}
			if id == "" {
				id = a.want(201).str("id")
			}
		}
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
