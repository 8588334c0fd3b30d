package nodes

import (
	"flag"
	"slices"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/networktest"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesPartitions = flag.Int("nodes.partitions", 1, "how often TestPartitions causes each of its faults")

// partitions are what can go wrong between three nodes. leader and others are their numbers.
var partitions = []struct {
	name string
	// alone says that the leader has no contact with others: clients are sent elsewhere.
	alone bool
	cut   func(w *networktest.Network, leader int, others [2]int)
}{
	{"the leader is cut off", true, func(w *networktest.Network, leader int, others [2]int) {
		w.Split(leader, others[0])
		w.Split(leader, others[1])
	}},
	{"the leader hears nobody", true, func(w *networktest.Network, leader int, others [2]int) {
		w.Cut(others[0], leader)
		w.Cut(others[1], leader)
	}},
	{"nobody hears the leader", true, func(w *networktest.Network, leader int, others [2]int) {
		w.Cut(leader, others[0])
		w.Cut(leader, others[1])
	}},
	{"a follower is between the leader and the other one", false, func(w *networktest.Network, leader int, others [2]int) {
		w.Split(leader, others[0])
	}},
	{"a follower does not hear the leader", false, func(w *networktest.Network, leader int, others [2]int) {
		w.Cut(leader, others[0])
	}},
	{"the leader is between the followers", false, func(w *networktest.Network, _ int, others [2]int) {
		w.Split(others[0], others[1])
	}},
	{"a tenth of all packets is lost", false, func(w *networktest.Network, leader int, others [2]int) {
		for _, pair := range [][2]int{{leader, others[0]}, {leader, others[1]}, {others[0], others[1]}} {
			w.Lose(pair[0], pair[1], 10)
			w.Lose(pair[1], pair[0], 10)
		}
	}},
}

// TestPartitions loses packets between nodes while clients work on all of them. Nothing that
// was acknowledged is lost, by any node, no answer is stale, and where a majority
// can talk, messages go on.
func TestPartitions(t *testing.T) {
	network := networktest.New(t, 3)
	n := kit.StartNodesAt(t, network.Place, 3)
	n.Heed(t)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	for round := range *nodesPartitions {
		for _, fault := range partitions {
			leader := n.Leader()
			at := numberOf(n, leader)
			others := [2]int{(at + 1) % 3, (at + 2) % 3}
			w.RunThrough(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() {
				fault.cut(network, at, others)
				if fault.alone {
					n.Avoid(leader, true) // its health check fails
				}
				t.Logf("%s: first 201 after %v", fault.name, firstSend(w).Round(time.Millisecond))
				time.Sleep(2 * time.Second)
				network.Heal()
			})
			n.Ready(t)
			w.RepeatUnanswered()
			w.ReadAll(listeners, round == *nodesPartitions-1)
			w.Check()
		}
	}
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// TestNoMajority cuts all nodes off from each other: nobody may answer anything, and all go on
// as soon as they can talk again.
func TestNoMajority(t *testing.T) {
	network := networktest.New(t, 3)
	n := kit.StartNodesAt(t, network.Place, 3)
	s := n.Server()
	one, other := kit.Pair(t, s)
	one.Send(other)
	before := len(other.Everything())
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		network.Split(pair[0], pair[1])
	}
	time.Sleep(1500 * time.Millisecond)
	answers := kit.Concurrently(6, func(i int) *kit.Answer {
		direct := n.Node(i / 2)
		if i%2 == 0 {
			return direct.Call(t, other.Token, "GET", other.Path("/messages"), nil)
		}
		return direct.Call(t, one.Token, "POST", "/messages", obj{
			"to_agent_id": other.ID, "type": "svc.v1.dm", "encrypted_payload": kit.B64([]byte("x")), "self_encrypted_payload": kit.B64([]byte("x")),
		}, "X-Svc-Agent", one.ID)
	})
	for _, a := range answers {
		if a.Status != 503 {
			a.Errorf("a node without a majority answers")
		}
	}
	if slices.ContainsFunc(n.All, func(s *kit.Server) bool { return s.Call(t, "", "GET", "/readyz", nil).Status == 200 }) {
		t.Error("a node without a majority is ready")
	}
	network.Heal()
	began := time.Now()
	n.Ready(t)
	t.Logf("all nodes are ready %v after the network is whole again", time.Since(began).Round(time.Millisecond))
	one.Send(other)
	if rows := len(other.Everything()); rows < before+1 {
		t.Errorf("the inbox had %d messages, and has %d", before, rows)
	}
}
