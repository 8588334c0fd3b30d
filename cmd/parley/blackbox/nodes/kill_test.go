package nodes

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
	"parley/cmd/parley/history"
)

var nodesKills = flag.Int("nodes.kills", 6, "how often TestNodesKilled kills a node")

// numberOf is the number of a node.
func numberOf(n *kit.Nodes, s *kit.Server) int {
	for i := range n.All {
		if n.Node(i) == s {
			return i
		}
	}
	return -1
}

// firstSend sends until a message is acknowledged, and returns how long that took. It sends on
// fresh connections: a kept one may lead to a node that is halted, which never answers.
func firstSend(w *recorded.Server) time.Duration {
	began := time.Now()
	for at := (recorded.Attempt{From: w.Senders[0], To: w.Popular[0], Key: w.NewKey()}); ; time.Sleep(5 * time.Millisecond) {
		kit.Client.CloseIdleConnections()
		asked := time.Now()
		out := w.Write(at)
		if out.Outcome == history.Acked {
			return time.Since(began)
		}
		if time.Since(began) > 20*time.Second {
			w.T.Fatalf("no message is acknowledged after a node was killed; the last answer, after %v, was %v %s",
				time.Since(asked).Round(time.Millisecond), out.Outcome, out.Refusal)
		}
	}
}

// nodesKillsPerEra is after how many kills TestNodesKilled goes on with new clients: tokens expire, and
// everything is read again and again.
const nodesKillsPerEra = 25

// TestNodesKilled kills nodes of a cluster again and again, mostly the one that leads, while
// clients write, follow streams and read through a proxy. The others go on at once. Package
// history checks everything that any node answers.
func TestNodesKilled(t *testing.T) {
	n := kit.StartNodes(t, 3)
	var sum recorded.Tally
	var leaders []time.Duration
	var past []recorded.PastInbox
	for left := *nodesKills; left > 0; left -= nodesKillsPerEra {
		w := recorded.NewServer(t, n.Server(), 2, 6)
		leaders = append(leaders, killNodes(w, n, min(left, nodesKillsPerEra))...)
		w.Tally.AddTo(&sum)
		past = append(past, w.Keep()...)
		if left <= nodesKillsPerEra {
			w.CheckDetectsLosses()
		}
	}
	for _, k := range past {
		for i := range n.All {
			recorded.Read(t, n.Node(i), k)
		}
	}
	slices.Sort(leaders)
	t.Logf("%v; first 201 after the leader's death: %v at the median, %v at p99, %v at most", &sum,
		leaders[len(leaders)/2].Round(time.Millisecond), leaders[len(leaders)*99/100].Round(time.Millisecond), leaders[len(leaders)-1].Round(time.Millisecond))
	for _, s := range n.All {
		if found, err := filepath.Glob(filepath.Join(s.Dir, "raft", "*.raftlog")); err != nil || len(found) == 0 {
			t.Errorf("node %s has no log: %v", s.Flag("--node-name"), err)
		}
	}
}

// killNodes kills so many nodes under load, checks all answers after each, and returns how long
// it took until a message was acknowledged where the leader died.
func killNodes(w *recorded.Server, n *kit.Nodes, kills int) (leaders []time.Duration) {
	w.T.Helper()
	listeners := w.Listeners()
	for i := range kills {
		victim, leads := n.Leader(), true
		if i%3 == 2 {
			victim, leads = n.Follower(), false
		}
		w.RunClients(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, time.Duration(300+rand.IntN(400))*time.Millisecond, func() {
			victim.Kill()
			if took := firstSend(w); leads {
				leaders = append(leaders, took)
			}
		})
		w.RepeatUnanswered()
		if err := victim.Again(); err != nil {
			for _, s := range n.All {
				said, _ := s.Operate("cluster", "status", "--json")
				w.T.Logf("node %s says %s\n%s", s.Flag("--node-name"), said, s.Log.Tail())
			}
			w.T.Fatal(err)
		}
		n.Ready(w.T)
		w.ReadAll(listeners, i%3 == 2 || i == kills-1)
		w.Check()
	}
	return leaders
}
