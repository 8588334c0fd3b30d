package blackbox

import (
	"os/exec"
	"testing"
)

// TestDrainInterrupted: when the command that drains the leader is interrupted, the leadership
// is handed over all the same. A node that is drained again has handed it over when the command
// ends.
func TestDrainInterrupted(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	n.ready(t)
	for _, again := range []bool{false, true} {
		leader := n.leader()
		draining := drainInBackground(t, leader)
		eventually(t, "the node is draining", func() bool { return n.node(0).clusterStatus(t).state(leader.flag("--node-name")) == "draining" })
		if again {
			if said, err := leader.operate("cluster", "drain"); err != nil {
				t.Error(said, err)
			}
			if n.leader() == leader {
				t.Error("a node leads that was drained twice")
			}
		}
		_ = draining.Process.Kill()
		_ = draining.Wait()
		eventually(t, "another node leads", func() bool { now := n.leader(); return now != nil && now != leader })
	}
}

// drainInBackground begins to drain a node.
func drainInBackground(t *testing.T, s *server) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, "cluster", "drain", "--data", s.dir, "--admin", "http://"+s.flag("--admin-listen"))
	cmd.Env = cleanEnvironment()
	must(t, cmd.Start())
	return cmd
}
