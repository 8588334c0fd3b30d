package blackbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBackupsOfNodes takes a backup of each of three nodes while clients write, of the one that
// leads first. Each restores as a server on its own, which has everything that was acknowledged
// before its backup began. parley verify finds nothing in it, neither before nor after it has
// served, nor in the directories of the nodes, and misses a witness that is lost.
func TestBackupsOfNodes(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	s := n.server()
	to := s.org(t).agent("target")
	l := &sentMessages{stop: make(chan struct{})}
	var senders []*agent
	for range 6 {
		from := s.org(t).agent("sender")
		senders = append(senders, from)
		l.wg.Go(func() { l.write(from, to) })
	}
	leader := n.leader()
	order := append([]*server{leader}, slices.DeleteFunc(slices.Clone(n.all), func(s *server) bool { return s == leader })...)
	dir, before := t.TempDir(), map[*server][]*answer{}
	for i, node := range order {
		before[node] = l.waitForMore(t, []int{300, 40, 40}[i])
		if said, err := node.operate("backup", "--to", filepath.Join(dir, node.flag("--node-name"))); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	close(l.stop)
	l.wg.Wait()
	for _, node := range order {
		from := filepath.Join(dir, node.flag("--node-name"))
		data := filepath.Join(t.TempDir(), "data")
		succeeds(t, "backup", "check", from)
		succeeds(t, "restore", "--from", from, "--data", data)
		succeeds(t, "verify", "--data", data)
		checkRestored(t, s, data, to, senders, before[node])
		succeeds(t, "verify", "--data", data)
		reportsLostWitness(t, data, "journal", "witness")
	}
	for i, node := range order {
		if i == 1 {
			node.kill() // its tables are older than its log
		} else {
			must(t, node.drain(15*time.Second))
		}
		succeeds(t, "verify", "--data", node.dir)
		reportsLostWitness(t, node.dir, "journal", "witness")
		reportsLostWitness(t, node.dir, "raft", "node-log")
		must(t, node.again())
	}
	t.Logf("%d messages", len(l.known()))
}

// reportsLostWitness has parley verify look at a directory of which one part lost its
// durability witness, and expects the faults of one check.
func reportsLostWitness(t *testing.T, data, part, check string) {
	t.Helper()
	witness := filepath.Join(data, part, "witness")
	must(t, os.Rename(witness, witness+".away"))
	if out, said, code := command(t, "verify", "--data", data); code == 0 || !strings.Contains(out, "\n"+check+": ") {
		t.Errorf("verify does not miss the witness of the %s: %s%s", part, out, said)
	}
	must(t, os.Rename(witness+".away", witness))
}
