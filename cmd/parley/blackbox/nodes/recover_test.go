package nodes

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// logEnd is what cluster recover --json prints.
type logEnd struct {
	ClusterID   *string `json:"cluster_id"`
	Index, Term uint64
}

func recovery(t *testing.T, s *kit.Server, args ...string) (end logEnd) {
	t.Helper()
	said, err := kit.Execute(append([]string{"cluster", "recover", "--json", "--data", s.Dir}, args...)...)
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
	n := kit.StartNodes(t, 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	w.RunClients(nil, recorded.ClientCounts{Writers: 12, Movers: 2, Readers: 0}, time.Second, func() {
		for _, s := range n.All {
			s.Kill()
		}
	})
	status := exec.Command(kit.Binary, "cluster", "status", "--data", n.All[0].Dir, "--admin", "http://"+n.All[0].Flag("--admin-listen"))
	if said, err := status.CombinedOutput(); err == nil {
		t.Fatalf("a node still runs:\n%s", said)
	}

	ends := map[*kit.Server]logEnd{}
	for _, s := range n.All {
		if ends[s] = recovery(t, s); ends[s].ClusterID != nil {
			t.Error("the question alone begins a cluster")
		}
	}
	best := slices.MaxFunc(n.All, func(a, b *kit.Server) int {
		x, y := ends[a], ends[b]
		return slices.Compare([]uint64{x.Term, x.Index}, []uint64{y.Term, y.Index})
	})
	former := slices.DeleteFunc(slices.Clone(n.All), func(s *kit.Server) bool { return s == best })
	n.ConsistsOf(best)
	for range 2 { // as after a crash in the middle of it
		if end := recovery(t, best, "--i-accept-loss"); end.ClusterID == nil || end.Index != ends[best].Index || end.Term != ends[best].Term {
			t.Errorf("recovered is %+v, there was %+v", end, ends[best])
		}
	}
	if err := best.Again(); err != nil {
		t.Fatal(err)
	}
	w.RepeatUnanswered()
	w.ReadAll(nil, true)
	w.Check()

	old := exec.Command(kit.Binary, slices.Concat([]string{"serve", "--data", former[0].Dir, "--listen", former[0].Addr}, former[0].Flags)...)
	old.Env, old.SysProcAttr = kit.CleanEnvironment(), kit.DieWithParent()
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.Add(3); err != nil {
		t.Fatal(err)
	}
	eventuallyStatus(t, best, "two voters", func(c clusterStatus) bool { return c.voters() == 2 && c.state("d") == "ready" })
	if resp, err := kit.Client.Get(former[0].Base + "/readyz"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a former node answers: %s", resp.Status)
	}
	_ = old.Process.Kill()
	_ = old.Wait()
	w.ReadAll(nil, true)
	w.Check()
	w.CheckDetectsLosses()
	t.Log(&w.Tally)

	n.All[1].Kill()
	if said, err := best.Operate("cluster", "replace", "d"); err == nil || !strings.Contains(said, "cluster recover") {
		t.Errorf("a token without a majority: %v\n%s", err, said)
	}
	n.ConsistsOf(n.Node(0))
}
