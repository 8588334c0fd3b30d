package blackbox

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var nodesPartitions = flag.Int("nodes.partitions", 1, "how often TestPartitions causes each of its faults")

// partitions are what can go wrong between three nodes. leader and others are their numbers.
var partitions = []struct {
	name string
	// alone says that the leader has no contact with others: clients are sent elsewhere.
	alone bool
	cut   func(w *network, leader int, others [2]int)
}{
	{"the leader is cut off", true, func(w *network, leader int, others [2]int) {
		w.split(leader, others[0])
		w.split(leader, others[1])
	}},
	{"the leader hears nobody", true, func(w *network, leader int, others [2]int) {
		w.cut(others[0], leader)
		w.cut(others[1], leader)
	}},
	{"nobody hears the leader", true, func(w *network, leader int, others [2]int) {
		w.cut(leader, others[0])
		w.cut(leader, others[1])
	}},
	{"a follower is between the leader and the other one", false, func(w *network, leader int, others [2]int) {
		w.split(leader, others[0])
	}},
	{"a follower does not hear the leader", false, func(w *network, leader int, others [2]int) {
		w.cut(leader, others[0])
	}},
	{"the leader is between the followers", false, func(w *network, _ int, others [2]int) {
		w.split(others[0], others[1])
	}},
	{"a tenth of all packets is lost", false, func(w *network, leader int, others [2]int) {
		for _, pair := range [][2]int{{leader, others[0]}, {leader, others[1]}, {others[0], others[1]}} {
			w.lose(pair[0], pair[1], 10)
			w.lose(pair[1], pair[0], 10)
		}
	}},
}

// TestPartitions loses packets between nodes while clients work on all of them. Nothing that
// was acknowledged is lost, by any node, no answer is stale, and where a majority
// can talk, messages go on.
func TestPartitions(t *testing.T) {
	network := newNetwork(t, 3)
	n := StartNodesAt(t, network.place, 3)
	n.Heed(t)
	w := newRecordedServer(t, n.Server(), 2, 6)
	listeners := w.listeners()
	for round := range *nodesPartitions {
		for _, fault := range partitions {
			leader := n.Leader()
			at := n.numberOf(leader)
			others := [2]int{(at + 1) % 3, (at + 2) % 3}
			w.runThrough(listeners, clientCounts{12, 3, 3}, 300*time.Millisecond, func() {
				fault.cut(network, at, others)
				if fault.alone {
					n.Avoid(leader, true) // its health check fails
				}
				t.Logf("%s: first 201 after %v", fault.name, w.firstSend().Round(time.Millisecond))
				time.Sleep(2 * time.Second)
				network.heal()
			})
			n.Ready(t)
			w.repeatUnanswered()
			w.readAll(listeners, round == *nodesPartitions-1)
			w.check()
		}
	}
	w.checkDetectsLosses()
	t.Log(&w.tally)
}

// TestNoMajority cuts all nodes off from each other: nobody may answer anything, and all go on
// as soon as they can talk again.
func TestNoMajority(t *testing.T) {
	network := newNetwork(t, 3)
	n := StartNodesAt(t, network.place, 3)
	s := n.Server()
	one, other := Pair(t, s)
	one.Send(other)
	before := len(other.Everything())
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		network.split(pair[0], pair[1])
	}
	time.Sleep(1500 * time.Millisecond)
	answers := Concurrently(6, func(i int) *Answer {
		direct := n.Node(i / 2)
		if i%2 == 0 {
			return direct.Call(t, other.Token, "GET", other.Path("/messages"), nil)
		}
		return direct.Call(t, one.Token, "POST", "/messages", obj{
			"to_agent_id": other.ID, "type": "svc.v1.dm", "encrypted_payload": B64([]byte("x")), "self_encrypted_payload": B64([]byte("x")),
		}, "X-Svc-Agent", one.ID)
	})
	for _, a := range answers {
		if a.Status != 503 {
			a.Errorf("a node without a majority answers")
		}
	}
	if slices.ContainsFunc(n.All, func(s *Server) bool { return s.Call(t, "", "GET", "/readyz", nil).Status == 200 }) {
		t.Error("a node without a majority is ready")
	}
	network.heal()
	began := time.Now()
	n.Ready(t)
	t.Logf("all nodes are ready %v after the network is whole again", time.Since(began).Round(time.Millisecond))
	one.Send(other)
	if rows := len(other.Everything()); rows < before+1 {
		t.Errorf("the inbox had %d messages, and has %d", before, rows)
	}
}
