package blackbox

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/cmd/parley/history"
)

var nodesKills = flag.Int("nodes.kills", 6, "how often TestNodesKilled kills a node")

// Leader is the node that leads, nil while there is none.
func (n *Nodes) Leader() *Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.All {
		select {
		case <-s.Exited:
			continue
		default:
		}
		said, err := s.Operate("cluster", "status", "--json")
		var status struct {
			Nodes []struct {
				Name  string
				Leads []int
			}
		}
		if err != nil || json.Unmarshal([]byte(said), &status) != nil {
			continue
		}
		for _, one := range status.Nodes {
			if len(one.Leads) == 0 {
				continue
			}
			for _, s := range n.All {
				if s.Flag("--node-name") == one.Name {
					return s
				}
			}
		}
	}
	return nil
}

// Follower is a node that does not lead.
func (n *Nodes) Follower() *Server {
	leader := n.Leader()
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(n.All), func(s *Server) bool { return s == leader })
	return others[rand.IntN(len(others))]
}

// StartNodes runs a cluster for one test.
func StartNodes(t testing.TB, count int, flags ...string) *Nodes {
	t.Helper()
	return StartNodesAt(t, LocalPlace(t.TempDir()), count, flags...)
}

// StartNodesAt runs a cluster for one test at places of its own.
func StartNodesAt(t testing.TB, at func(i int) (Place, error), count int, flags ...string) *Nodes {
	t.Helper()
	OneServerOnly(t, "it starts nodes itself")
	n, err := openNodesAt(at, count, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil || t.Failed() {
			t.Errorf("the nodes: %v", err)
			for _, s := range n.All {
				t.Logf("node %s\n%s", s.Flag("--node-name"), s.Log.Tail())
			}
		}
	})
	return n
}

// Ready waits until all nodes are ready.
func (n *Nodes) Ready(t testing.TB) {
	t.Helper()
	for _, s := range n.All {
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			resp, err := Client.Get(s.Base + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("node %s is never ready\n%s", s.Flag("--node-name"), s.Log.Tail())
			}
		}
	}
}

// firstSend sends until a message is acknowledged, and returns how long that took. It sends on
// fresh connections: a kept one may lead to a node that is halted, which never answers.
func (w *recordedServer) firstSend() time.Duration {
	began := time.Now()
	for at := (attempt{from: w.senders[0], to: w.popular[0], key: w.newKey()}); ; time.Sleep(5 * time.Millisecond) {
		Client.CloseIdleConnections()
		asked := time.Now()
		out := w.write(at)
		if out.Outcome == history.Acked {
			return time.Since(began)
		}
		if time.Since(began) > 20*time.Second {
			w.t.Fatalf("no message is acknowledged after a node was killed; the last answer, after %v, was %v %s",
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
	n := StartNodes(t, 3)
	var sum tally
	var leaders []time.Duration
	var past []pastInbox
	for left := *nodesKills; left > 0; left -= nodesKillsPerEra {
		w := newRecordedServer(t, n.Server(), 2, 6)
		leaders = append(leaders, w.killNodes(n, min(left, nodesKillsPerEra))...)
		w.tally.addTo(&sum)
		past = append(past, w.keep()...)
		if left <= nodesKillsPerEra {
			w.checkDetectsLosses()
		}
	}
	for _, k := range past {
		for i := range n.All {
			read(t, n.Node(i), k)
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
func (w *recordedServer) killNodes(n *Nodes, kills int) (leaders []time.Duration) {
	w.t.Helper()
	listeners := w.listeners()
	for i := range kills {
		victim, leads := n.Leader(), true
		if i%3 == 2 {
			victim, leads = n.Follower(), false
		}
		w.runClients(listeners, clientCounts{12, 3, 3}, time.Duration(300+rand.IntN(400))*time.Millisecond, func() {
			victim.Kill()
			if took := w.firstSend(); leads {
				leaders = append(leaders, took)
			}
		})
		w.repeatUnanswered()
		if err := victim.Again(); err != nil {
			for _, s := range n.All {
				said, _ := s.Operate("cluster", "status", "--json")
				w.t.Logf("node %s says %s\n%s", s.Flag("--node-name"), said, s.Log.Tail())
			}
			w.t.Fatal(err)
		}
		n.Ready(w.t)
		w.readAll(listeners, i%3 == 2 || i == kills-1)
		w.check()
	}
	return leaders
}
