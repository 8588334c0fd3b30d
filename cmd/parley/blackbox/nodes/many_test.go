package nodes

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesMany = flag.Int("nodes.many", 1000, "how many agents with a card and a webhook TestLeaderOfManyKilled makes")

// TestLeaderOfManyKilled kills the node that leads while there are many webhooks and cards: the
// next one takes requests before it has looked at all of them, and delivers.
func TestLeaderOfManyKilled(t *testing.T) {
	flags, err := hooktest.TrustSink()
	kit.Must(t, err)
	n := kit.StartNodes(t, 3, flags...)
	n.Ready(t)
	o := n.Leader().Org(t)
	target := hooktest.SharedSink(t).Target()
	again := func(call func() *kit.Answer) *kit.Answer { // these may be more than the processors can do
		a := call()
		for ; a.Status == 503; a = call() {
			time.Sleep(100 * time.Millisecond)
		}
		return a
	}
	began := time.Now()
	kit.ForEachBounded(*nodesMany, func(i int) {
		name := "many" + strconv.Itoa(i)
		id := again(func() *kit.Answer { return o.Post("/agents", kit.NewAgent(name), "Idempotency-Key", name) }).Want(201).Str("id")
		again(func() *kit.Answer {
			return o.Put("/agents/"+id+"/card", kit.Merged(kit.PlainCard(), obj{"is_public": true}))
		}).Want(200)
		again(func() *kit.Answer {
			return o.Post("/webhooks", obj{"agent_id": id, "url": target.URL, "events": []string{"message.received"}})
		}).Want(201)
	})
	t.Logf("%d agents after %v", *nodesMany, time.Since(began).Round(time.Second))
	w := recorded.NewServer(t, n.Server(), 2, 2)
	for range 5 {
		n.Ready(t)
		leader := n.Leader()
		n.Avoid(leader, true)
		leader.Kill()
		took := firstSend(w)
		t.Logf("the first message was acknowledged %v after the kill", took.Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("no message was acknowledged for %v", took)
		}
		one, other := kit.Pair(t, n.Server())
		h := hooktest.Listening(other)
		one.Send(other)
		h.To.WaitForDelivery(t, 1)
		kit.Must(t, leader.Again())
		n.Avoid(leader, false)
	}
}
