package nodes

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// exampleBalancer runs haproxy with the configuration of examples/cluster in front of three
// nodes, and returns its address.
func exampleBalancer(t *testing.T, n *kit.Nodes) string {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		const left = "!! NOT CHECKED: the load balancer of examples/cluster: there is no haproxy here (on Debian: apt-get install haproxy)"
		if os.Getenv("CI") == "true" {
			t.Fatal(left)
		}
		t.Skip(left)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "cluster", "haproxy.cfg"))
	kit.Must(t, err)
	front, err := kit.UnusedAddress()
	kit.Must(t, err)
	addresses := []string{"127.0.0.1:8000", front}
	for i, port := range []string{"8001", "8002", "8003"} {
		addresses = append(addresses, "127.0.0.1:"+port, n.Node(i).Addr)
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	kit.Must(t, os.WriteFile(config, []byte(strings.NewReplacer(addresses...).Replace(string(text))), 0o600))
	running := exec.Command(program, "-db", "-f", config)
	kit.Must(t, running.Start())
	t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() })
	kit.Eventually(t, "haproxy listens", func() bool {
		conn, err := net.Dial("tcp", front)
		return err == nil && conn.Close() == nil
	})
	return front
}

// TestBalancerAsksTheLeader: behind the load balancer of the examples no node passes a write on
// to another one, and the death of the leader fails no request that comes after it.
func TestBalancerAsksTheLeader(t *testing.T) {
	n := kit.StartNodes(t, 3)
	leads := func(s *kit.Server) bool { return s.Call(t, "", "GET", "/readyz?leads=true", nil).Status == 200 }
	leader, follower := n.Roles(t)
	for _, s := range n.All {
		if leads(s) != (s == leader) {
			t.Errorf("node %s says of itself that it leads: %v", s.Flag("--node-name"), s != leader)
		}
	}
	front := n.Server()
	front.Addr = exampleBalancer(t, n)
	front.Base = "http://" + front.Addr
	one, other := kit.Pair(t, n.Server())
	send := func(to *kit.Server) {
		if a := one.On(to).TrySend(other, obj{}); a.Status != 201 {
			t.Errorf("answered %d %s, %v", a.Status, a.Raw, a.Err)
		}
	}
	passedOn := func(to *kit.Server) (sum float64) {
		for range 20 {
			send(to)
		}
		time.Sleep(200 * time.Millisecond) // metrics may be 100 ms old
		for _, s := range n.All {
			sum += metricsOf(t, s).forwarded("answered")
		}
		return sum
	}
	kit.Eventually(t, "haproxy knows who leads", func() bool { return passedOn(front) == passedOn(front) })
	if before := passedOn(front); passedOn(follower) == before {
		t.Error("a follower decides writes: the test proves nothing")
	}
	leader.Kill()
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		send(front)
	}
	if !slices.ContainsFunc(n.All, func(s *kit.Server) bool { return s != leader && leads(s) }) {
		t.Error("no node says that it leads")
	}
	kit.Must(t, leader.Again())
	n.Ready(t)
}

// TestRemovalRefusesNobody replaces the node that leads, and removes another one, while clients
// work behind the load balancer of the examples. No request fails and no outcome is unknown,
// because a node leaves service first.
func TestRemovalRefusesNobody(t *testing.T) {
	n := kit.StartNodes(t, 3)
	n.Ready(t)
	front := n.Server()
	front.Addr = exampleBalancer(t, n)
	front.Base = "http://" + front.Addr
	w := recorded.NewServer(t, front, 2, 6)
	listeners := w.Listeners()
	former, all := n.Leader(), slices.Clone(n.All)
	name := former.Flag("--node-name")
	w.RunClients(listeners, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 3}, 300*time.Millisecond, func() {
		w.Dying.Store(false) // everything has to be answered
		kit.Must(t, n.Add(3, name))
		eventuallyStatus(t, n.Node(3), "a new node in its place", func(c clusterStatus) bool {
			return c.voters() == 3 && c.state(name) == "" && c.state("d") == "ready"
		})
		rest := slices.DeleteFunc(all, func(s *kit.Server) bool { return s == former })
		if said, err := n.Node(3).Operate("cluster", "remove", rest[0].Flag("--node-name")); err != nil {
			t.Fatal(said, err)
		}
		time.Sleep(4 * time.Second) // clients go on, and the balancer looks at the nodes
		w.Dying.Store(true)
	})
	if len(w.Pending) > 0 {
		t.Errorf("the outcome of %d requests is unknown", len(w.Pending))
	}
	w.ReadAll(listeners, true)
	w.Check()
	t.Log(&w.Tally)
}
