package blackbox

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestStopWhileWaiting stops a node that waits for the majority of its cluster: nothing is lost,
// so it exits with 0.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 2)
	alone := n.node(0)
	alone.eventuallyStatus(t, "both nodes vote", func(c clusterStatus) bool { return c.voters() == 2 })
	n.node(1).kill()
	alone.kill()
	n.mu.Lock()
	n.all = nil
	n.mu.Unlock()
	must(t, alone.begin("127.0.0.1:0"))
	eventually(t, "the node waits for its cluster", func() bool { return strings.Contains(alone.log.text(), "waits for the cluster") })
	if err := alone.drain(10 * time.Second); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, alone.log.tail())
	}
}

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
