package nodes

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesUpgrade = flag.Bool("nodes.upgrade", false, "run TestRollingUpgrade, which builds another program the first time")

// formerCommit is the program that TestRollingUpgrade replaces: an earlier one that served with
// several nodes.
const formerCommit = "128a604e"

// formerProgram builds the program of the former commit. bin keeps it for further runs.
func formerProgram(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	kit.Must(t, err)
	program := filepath.Join(root, "bin", "former", formerCommit)
	if kit.Exists(program) {
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
	built, err := kit.BuildIn(dir, filepath.Join(dir, "parley"), "-trimpath", "-pgo=off")
	kit.Must(t, err)
	t.Logf("the former program was built in %v", time.Since(began).Round(time.Second))
	kit.Must(t, os.MkdirAll(filepath.Dir(program), 0o700))
	kit.Must(t, os.Rename(built, program))
	return program
}

// startFormerNodes runs three nodes with the former program. Those that join later run the
// present one.
func startFormerNodes(t *testing.T) *kit.Nodes {
	t.Helper()
	program := formerProgram(t)
	local := kit.LocalPlace(t.TempDir())
	return kit.StartNodesAt(t, func(i int) (kit.Place, error) {
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
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	step := func(what string, do func()) {
		t.Helper()
		acked := w.Tally.Acked.Load()
		w.RunClients(listeners, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 3}, 300*time.Millisecond, func() {
			w.Dying.Store(false) // everything has to be answered
			do()
			n.Ready(t)
			time.Sleep(300 * time.Millisecond)
			w.Dying.Store(true)
		})
		t.Logf("%s: %d messages", what, w.Tally.Acked.Load()-acked)
	}
	upgrade := func(s *kit.Server) {
		t.Helper()
		step("node "+s.Flag("--node-name")+" is upgraded", func() {
			kit.Must(t, s.Drain(15*time.Second))
			s.Binary = ""
			kit.Must(t, s.Again())
		})
		if len(w.Pending) > 0 {
			t.Errorf("the outcome of %d requests is unknown", len(w.Pending))
		}
		readEverywhere(w, n, listeners)
	}
	lead := func(s *kit.Server) {
		t.Helper()
		step("node "+s.Flag("--node-name")+" leads", func() {
			if said, err := s.Operate("cluster", "balance", "--to", s.Flag("--node-name")); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
		})
		if n.Leader() != s {
			t.Errorf("another node leads than %s", s.Flag("--node-name"))
		}
		readEverywhere(w, n, listeners)
	}

	last := n.Leader()
	others := slices.DeleteFunc(slices.Clone(n.All), func(s *kit.Server) bool { return s == last })
	step("all nodes are former ones", func() {})
	upgrade(others[0])
	lead(others[0])
	upgrade(others[1])
	lead(last)
	kit.Must(t, n.Add(3))
	eventuallyStatus(t, last, "a new node takes part", func(c clusterStatus) bool { return c.voters() == 4 && c.state("d") == "ready" })
	upgrade(last)
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// readEverywhere reads everything behind the proxy, and all inboxes on each node.
func readEverywhere(w *recorded.Server, n *kit.Nodes, listeners []*recorded.Listener) {
	w.T.Helper()
	w.RepeatUnanswered()
	w.ReadAll(listeners, true)
	parties := w.Parties()
	for _, s := range n.All {
		w.Direct = &kit.Nodes{All: []*kit.Server{s}}
		kit.Concurrently(len(parties), func(i int) bool { return w.Whole(parties[i]) })
	}
	w.Direct = nil
	w.Check()
}
