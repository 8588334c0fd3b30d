package blackbox

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var nodesUpgrade = flag.Bool("nodes.upgrade", false, "run TestRollingUpgrade, which builds another program the first time")

// formerCommit is the program that TestRollingUpgrade replaces: an earlier one that served with
// several nodes.
const formerCommit = "128a604e"

// formerProgram builds the program of the former commit. bin keeps it for further runs.
func formerProgram(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	Must(t, err)
	program := filepath.Join(root, "bin", "former", formerCommit)
	if Exists(program) {
		return program
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source.tar")
	if said, err := exec.Command("git", "-C", root, "archive", "--output", source, formerCommit).CombinedOutput(); err != nil {
		const left = "!! NOT CHECKED: an upgrade of nodes: the former program is in the history of this repository, which is not here"
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v\n%s", left, err, said)
		}
		t.Skipf("%s: %v\n%s", left, err, said)
	}
	if said, err := exec.Command("tar", "-x", "-f", source, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	began := time.Now()
	built, err := BuildIn(dir, filepath.Join(dir, "parley"), "-trimpath", "-pgo=off")
	Must(t, err)
	t.Logf("the former program was built in %v", time.Since(began).Round(time.Second))
	Must(t, os.MkdirAll(filepath.Dir(program), 0o700))
	Must(t, os.Rename(built, program))
	return program
}

// startFormerNodes runs three nodes with the former program. Those that join later run the
// present one.
func startFormerNodes(t *testing.T) *Nodes {
	t.Helper()
	program := formerProgram(t)
	local := LocalPlace(t.TempDir())
	return StartNodesAt(t, func(i int) (Place, error) {
		at, err := local(i)
		if i < 3 {
			at.Binary = program
		}
		return at, err
	}, 3, "--rate", "writes=1000000") // so that nodes tell each other what callers spend
}

// TestRollingUpgrade replaces the former program of three nodes by the present one, one node
// after the other, while clients work behind a load balancer that heeds /readyz. Nodes of both
// programs lead in between, and a new node takes the content of a former one. No request fails,
// no outcome is unknown because of an upgrade, and every node shows everything.
//
// Building the former program takes two minutes, so this runs with -nodes.upgrade only.
func TestRollingUpgrade(t *testing.T) {
	if !*nodesUpgrade {
		t.Skip("run with -nodes.upgrade")
	}
	n := startFormerNodes(t)
	n.Heed(t)
	w := newRecordedServer(t, n.Server(), 2, 6)
	listeners := w.listeners()
	step := func(what string, do func()) {
		t.Helper()
		acked := w.tally.acked.Load()
		w.runClients(listeners, clientCounts{8, 2, 3}, 300*time.Millisecond, func() {
			w.dying.Store(false) // everything has to be answered
			do()
			n.Ready(t)
			time.Sleep(300 * time.Millisecond)
			w.dying.Store(true)
		})
		t.Logf("%s: %d messages", what, w.tally.acked.Load()-acked)
	}
	upgrade := func(s *Server) {
		t.Helper()
		step("node "+s.Flag("--node-name")+" is upgraded", func() {
			Must(t, s.Drain(15*time.Second))
			s.Binary = ""
			Must(t, s.Again())
		})
		if len(w.pending) > 0 {
			t.Errorf("the outcome of %d requests is unknown", len(w.pending))
		}
		w.readEverywhere(n, listeners)
	}
	lead := func(s *Server) {
		t.Helper()
		step("node "+s.Flag("--node-name")+" leads", func() {
			if said, err := s.Operate("cluster", "balance", "--to", s.Flag("--node-name")); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
		})
		if n.Leader() != s {
			t.Errorf("another node leads than %s", s.Flag("--node-name"))
		}
		w.readEverywhere(n, listeners)
	}

	last := n.Leader()
	others := slices.DeleteFunc(slices.Clone(n.All), func(s *Server) bool { return s == last })
	step("all nodes are former ones", func() {})
	upgrade(others[0])
	lead(others[0])
	upgrade(others[1])
	lead(last)
	Must(t, n.Add(3))
	last.eventuallyStatus(t, "a new node takes part", func(c clusterStatus) bool { return c.voters() == 4 && c.state("d") == "ready" })
	upgrade(last)
	w.checkDetectsLosses()
	t.Log(&w.tally)
}

// readEverywhere reads everything behind the proxy, and all inboxes on each node.
func (w *recordedServer) readEverywhere(n *Nodes, listeners []*listener) {
	w.t.Helper()
	w.repeatUnanswered()
	w.readAll(listeners, true)
	parties := w.parties()
	for _, s := range n.All {
		w.direct = &Nodes{All: []*Server{s}}
		Concurrently(len(parties), func(i int) bool { return w.whole(parties[i]) })
	}
	w.direct = nil
	w.check()
}
