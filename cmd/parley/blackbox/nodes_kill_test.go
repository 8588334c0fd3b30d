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

// leader is the node that leads, nil while there is none.
func (n *nodes) leader() *server {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.all {
		select {
		case <-s.exited:
			continue
		default:
		}
		said, err := s.operate("cluster", "status", "--json")
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
			for _, s := range n.all {
				if s.flag("--node-name") == one.Name {
					return s
				}
			}
		}
	}
	return nil
}

// follower is a node that does not lead.
func (n *nodes) follower() *server {
	leader := n.leader()
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(n.all), func(s *server) bool { return s == leader })
	return others[rand.IntN(len(others))]
}

// startNodes runs a cluster for one test.
func startNodes(t testing.TB, count int, flags ...string) *nodes {
	t.Helper()
	return startNodesAt(t, localPlace(t.TempDir()), count, flags...)
}

// startNodesAt runs a cluster for one test at places of its own.
func startNodesAt(t testing.TB, at func(i int) (place, error), count int, flags ...string) *nodes {
	t.Helper()
	oneServerOnly(t, "it starts nodes itself")
	n, err := openNodesAt(at, count, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil || t.Failed() {
			t.Errorf("the nodes: %v", err)
			for _, s := range n.all {
				t.Logf("node %s\n%s", s.flag("--node-name"), s.log.tail())
			}
		}
	})
	return n
}

// ready waits until all nodes are ready.
func (n *nodes) ready(t testing.TB) {
	t.Helper()
	for _, s := range n.all {
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			resp, err := client.Get(s.base + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("node %s is never ready\n%s", s.flag("--node-name"), s.log.tail())
			}
		}
	}
}

// firstSend sends until a message is acknowledged, and returns how long that took. It sends on
// fresh connections: a kept one may lead to a node that is halted, which never answers.
func (w *recordedServer) firstSend() time.Duration {
	began := time.Now()
	for at := (attempt{from: w.senders[0], to: w.popular[0], key: w.newKey()}); ; time.Sleep(5 * time.Millisecond) {
		client.CloseIdleConnections()
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
	n := startNodes(t, 3)
	var sum tally
	var leaders []time.Duration
	var past []pastInbox
	for left := *nodesKills; left > 0; left -= nodesKillsPerEra {
		w := newRecordedServer(t, n.server(), 2, 6)
		leaders = append(leaders, w.killNodes(n, min(left, nodesKillsPerEra))...)
		w.tally.addTo(&sum)
		past = append(past, w.keep()...)
		if left <= nodesKillsPerEra {
			w.checkDetectsLosses()
		}
	}
	for _, k := range past {
		for i := range n.all {
			read(t, n.node(i), k)
		}
	}
	slices.Sort(leaders)
	t.Logf("%v; first 201 after the leader's death: %v at the median, %v at p99, %v at most", &sum,
		leaders[len(leaders)/2].Round(time.Millisecond), leaders[len(leaders)*99/100].Round(time.Millisecond), leaders[len(leaders)-1].Round(time.Millisecond))
	for _, s := range n.all {
		if found, err := filepath.Glob(filepath.Join(s.dir, "raft", "*.raftlog")); err != nil || len(found) == 0 {
			t.Errorf("node %s has no log: %v", s.flag("--node-name"), err)
		}
	}
}

// killNodes kills so many nodes under load, checks all answers after each, and returns how long
// it took until a message was acknowledged where the leader died.
func (w *recordedServer) killNodes(n *nodes, kills int) (leaders []time.Duration) {
	w.t.Helper()
	listeners := w.listeners()
	for i := range kills {
		victim, leads := n.leader(), true
		if i%3 == 2 {
			victim, leads = n.follower(), false
		}
		w.runClients(listeners, clientCounts{12, 3, 3}, time.Duration(300+rand.IntN(400))*time.Millisecond, func() {
			victim.kill()
			if took := w.firstSend(); leads {
				leaders = append(leaders, took)
			}
		})
		w.repeatUnanswered()
		if err := victim.again(); err != nil {
			for _, s := range n.all {
				said, _ := s.operate("cluster", "status", "--json")
				w.t.Logf("node %s says %s\n%s", s.flag("--node-name"), said, s.log.tail())
			}
			w.t.Fatal(err)
		}
		n.ready(w.t)
		w.readAll(listeners, i%3 == 2 || i == kills-1)
		w.check()
	}
	return leaders
}
