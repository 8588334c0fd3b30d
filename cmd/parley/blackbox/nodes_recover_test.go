package blackbox

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// logEnd is what cluster recover --json prints.
type logEnd struct {
	ClusterID   *string `json:"cluster_id"`
	Index, Term uint64
}

func recovery(t *testing.T, s *server, args ...string) (end logEnd) {
	t.Helper()
	said, err := execute(append([]string{"cluster", "recover", "--json", "--data", s.dir}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(said), &end)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return end
}

// TestMajorityLost kills all nodes of a cluster in the middle of work, and goes on with the one
// that has most: it has everything that was acknowledged, takes in new nodes, and has no
// contact with the former ones.
func TestMajorityLost(t *testing.T) {
	n := startNodes(t, 3)
	w := newRecordedServer(t, n.server(), 2, 6)
	w.runClients(nil, clientCounts{12, 2, 0}, time.Second, func() {
		for _, s := range n.all {
			s.kill()
		}
	})
	status := exec.Command(binary, "cluster", "status", "--data", n.all[0].dir, "--admin", "http://"+n.all[0].flag("--admin-listen"))
	if said, err := status.CombinedOutput(); err == nil {
		t.Fatalf("a node still runs:\n%s", said)
	}

	ends := map[*server]logEnd{}
	for _, s := range n.all {
		if ends[s] = recovery(t, s); ends[s].ClusterID != nil {
			t.Error("the question alone begins a cluster")
		}
	}
	best := slices.MaxFunc(n.all, func(a, b *server) int {
		x, y := ends[a], ends[b]
		return slices.Compare([]uint64{x.Term, x.Index}, []uint64{y.Term, y.Index})
	})
	former := slices.DeleteFunc(slices.Clone(n.all), func(s *server) bool { return s == best })
	n.consistsOf(best)
	for range 2 { // as after a crash in the middle of it
		if end := recovery(t, best, "--i-accept-loss"); end.ClusterID == nil || end.Index != ends[best].Index || end.Term != ends[best].Term {
			t.Errorf("recovered is %+v, there was %+v", end, ends[best])
		}
	}
	if err := best.again(); err != nil {
		t.Fatal(err)
	}
	w.repeatUnanswered()
	w.readAll(nil, true)
	w.check()

	old := exec.Command(binary, slices.Concat([]string{"serve", "--data", former[0].dir, "--listen", former[0].addr}, former[0].flags)...)
	old.Env, old.SysProcAttr = cleanEnvironment(), dieWithParent()
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.add(3); err != nil {
		t.Fatal(err)
	}
	best.eventuallyStatus(t, "two voters", func(c clusterStatus) bool { return c.voters() == 2 && c.state("d") == "ready" })
	if resp, err := client.Get(former[0].base + "/readyz"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a former node answers: %s", resp.Status)
	}
	_ = old.Process.Kill()
	_ = old.Wait()
	w.readAll(nil, true)
	w.check()
	w.checkDetectsLosses()
	t.Log(&w.tally)

	n.all[1].kill()
	if said, err := best.operate("cluster", "replace", "d"); err == nil || !strings.Contains(said, "cluster recover") {
		t.Errorf("a token without a majority: %v\n%s", err, said)
	}
	n.consistsOf(n.node(0))
}
