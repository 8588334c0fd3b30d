package nodes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// TestBackupsOfNodes takes a backup of each of three nodes while clients write, of the one that
// leads first. Each restores as a server on its own, which has everything that was acknowledged
// before its backup began. parley verify finds nothing in it, neither before nor after it has
// served, nor in the directories of the nodes, and misses a witness that is lost.
func TestBackupsOfNodes(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	s := n.Server()
	to := s.Org(t).Agent("target")
	l := &recorded.SentMessages{Stop: make(chan struct{})}
	var senders []*kit.Agent
	for range 6 {
		from := s.Org(t).Agent("sender")
		senders = append(senders, from)
		l.Wg.Go(func() { l.Write(from, to) })
	}
	leader := n.Leader()
	order := append([]*kit.Server{leader}, slices.DeleteFunc(slices.Clone(n.All), func(s *kit.Server) bool { return s == leader })...)
	dir, before := t.TempDir(), map[*kit.Server][]*kit.Answer{}
	for i, node := range order {
		before[node] = l.WaitForMore(t, []int{300, 40, 40}[i])
		if said, err := node.Operate("backup", "--to", filepath.Join(dir, node.Flag("--node-name"))); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	close(l.Stop)
	l.Wg.Wait()
	for _, node := range order {
		from := filepath.Join(dir, node.Flag("--node-name"))
		data := filepath.Join(t.TempDir(), "data")
		kit.Succeeds(t, "backup", "check", from)
		kit.Succeeds(t, "restore", "--from", from, "--data", data)
		kit.Succeeds(t, "verify", "--data", data)
		recorded.CheckRestored(t, s, data, to, senders, before[node])
		kit.Succeeds(t, "verify", "--data", data)
		reportsLostWitness(t, data, "journal", "witness")
	}
	for i, node := range order {
		if i == 1 {
			node.Kill() // its tables are older than its log
		} else {
			kit.Must(t, node.Drain(15*time.Second))
		}
		kit.Succeeds(t, "verify", "--data", node.Dir)
		reportsLostWitness(t, node.Dir, "journal", "witness")
		reportsLostWitness(t, node.Dir, "raft", "node-log")
		kit.Must(t, node.Again())
	}
	t.Logf("%d messages", len(l.Known()))
}

// reportsLostWitness has parley verify look at a directory of which one part lost its
// durability witness, and expects the faults of one check.
func reportsLostWitness(t *testing.T, data, part, check string) {
	t.Helper()
	witness := filepath.Join(data, part, "witness")
	kit.Must(t, os.Rename(witness, witness+".away"))
	if out, said, code := kit.Command(t, "verify", "--data", data); code == 0 || !strings.Contains(out, "\n"+check+": ") {
		t.Errorf("verify does not miss the witness of the %s: %s%s", part, out, said)
	}
	kit.Must(t, os.Rename(witness+".away", witness))
}
