package nodes

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// metrics are those of a node at one instant, by their names with labels.
type metrics map[string]float64

func metricsOf(t testing.TB, s *kit.Server) metrics {
	t.Helper()
	resp, err := kit.Client.Get("http://" + s.Flag("--admin-listen") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v\n%s", resp.StatusCode, err, text)
	}
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = n
		}
	}
	return m
}

// of is a figure of the group.
func (m metrics) of(name string) float64 { return m["parley_cluster_"+name+`{group="0"}`] }

// link is a figure of the link to a node.
func (m metrics) link(name, peer string) (float64, bool) {
	n, ok := m["parley_cluster_link_"+name+fmt.Sprintf("{peer=%q}", peer)]
	return n, ok
}

// forwarded are the requests to the leader with an outcome.
func (m metrics) forwarded(outcome string) float64 {
	return m["parley_cluster_forwarded_total"+fmt.Sprintf("{group=\"0\",outcome=%q}", outcome)]
}

// eventuallyMetrics waits until the metrics of some nodes are as wanted: met returns what they
// lack.
func eventuallyMetrics(t *testing.T, of []*kit.Server, met func([]metrics) string) (all []metrics) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		all = all[:0]
		for _, s := range of {
			all = append(all, metricsOf(t, s))
		}
		lack := met(all)
		if lack == "" {
			return all
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the metrics never show what they should: %s", lack)
		}
	}
}

// agree says what some nodes of a cluster, some of which may be down, have to show when nothing
// is under way, if they do not.
func agree(all []metrics, members int) string {
	leads, term := 0.0, all[0].of("term")
	for i, m := range all {
		leads += m.of("leads")
		switch {
		case m.of("has_leader") != 1 || m.of("term") != term || term == 0:
			return fmt.Sprintf("node %d is in term %v, the first one in %v", i, m.of("term"), term)
		case m.of("applied_lag_entries") != 0 || m.of("applied_index") != all[0].of("applied_index") || m.of("commit_index") != m.of("applied_index"):
			return fmt.Sprintf("node %d has applied %v of %v, the first one %v", i, m.of("applied_index"), m.of("commit_index"), all[0].of("applied_index"))
		case m.of("voters") != float64(members) || m.of("learners") != 0 || m.of("members_up") != float64(len(all)):
			return fmt.Sprintf("node %d knows %v voters and %v learners, and reaches %v", i, m.of("voters"), m.of("learners"), m.of("members_up"))
		}
	}
	if leads != 1 {
		return fmt.Sprintf("%v nodes lead", leads)
	}
	return ""
}

// checkWorked checks the metrics of nodes that had work, and have none now.
func checkWorked(t *testing.T, nodes []*kit.Server, ids map[*kit.Server]string, all []metrics) {
	t.Helper()
	answered := 0.0
	for i, m := range all {
		answered += m.forwarded("answered")
		for _, name := range []string{"log_bytes", "log_segments", "log_written_bytes_total", "log_syncs_total", "fence_seconds_count", "fence_seconds_sum", "leaderships_total", "window_entries_max", "window_bytes_max"} {
			if m.of(name) <= 0 {
				t.Errorf("node %d: %s is %v", i, name, m.of(name))
			}
		}
		for j, peer := range nodes {
			if i == j || m.of("leads")+all[j].of("leads") == 0 {
				continue // followers have nothing to say to each other
			}
			for _, name := range []string{"messages_sent_total", "messages_received_total", "sent_bytes_total", "received_bytes_total"} {
				if count, _ := m.link(name, ids[peer]); count <= 0 {
					t.Errorf("node %d: %s of the link to %s is %v", i, name, ids[peer], count)
				}
			}
		}
		if m.of("window_entries") != 0 || m.of("window_bytes") != 0 {
			t.Errorf("node %d: %v entries of %v bytes are under way", i, m.of("window_entries"), m.of("window_bytes"))
		}
		if age := m.of("sync_age_seconds"); age < 0 || age > 5 {
			t.Errorf("node %d: a record waits for its sync for %v s", i, age)
		}
	}
	if answered == 0 {
		t.Error("under load, no request went to the leader")
	}
}

// TestNodesMetrics reads the metrics of a cluster with all nodes, while one is down, and when
// it is back.
func TestNodesMetrics(t *testing.T) {
	n := kit.StartNodes(t, 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	w.RunClients(nil, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 0}, 500*time.Millisecond, func() {})
	ids := map[*kit.Server]string{}
	for _, one := range clusterStatusOf(t, n.All[0]).Nodes {
		for _, s := range n.All {
			if s.Flag("--node-name") == one.Name {
				ids[s] = one.ID
			}
		}
	}
	up := func(nodes []*kit.Server, all []metrics, down *kit.Server) string {
		for i, s := range nodes {
			for _, peer := range n.All {
				up, known := all[i].link("up", ids[peer])
				if known != (peer != s) || known && (up == 1) != (peer != down) {
					return fmt.Sprintf("the link of node %s to node %s is %v", ids[s], ids[peer], up)
				}
			}
		}
		return ""
	}
	all := eventuallyMetrics(t, n.All, func(all []metrics) string { return agree(all, 3) + up(n.All, all, nil) })
	checkWorked(t, n.All, ids, all)

	victim := n.Follower()
	var others []*kit.Server
	for _, s := range n.All {
		if s != victim {
			others = append(others, s)
		}
	}
	victim.Kill()
	eventuallyMetrics(t, others, func(all []metrics) string { return agree(all, 3) + up(others, all, victim) })
	if err := victim.Again(); err != nil {
		t.Fatal(err)
	}
	back := eventuallyMetrics(t, n.All, func(all []metrics) string { return agree(all, 3) + up(n.All, all, nil) })
	for i, s := range n.All {
		if s != victim && back[i].of("leaderships_total") < all[i].of("leaderships_total") {
			t.Errorf("node %d: the leaderships went from %v to %v", i, all[i].of("leaderships_total"), back[i].of("leaderships_total"))
		}
	}
}

// TestAloneWithoutClusterMetrics: a server on its own has none.
func TestAloneWithoutClusterMetrics(t *testing.T) {
	kit.OneServerOnly(t, "it judges a server on its own")
	admin, err := kit.UnusedAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := kit.Start(t, "--admin-listen", admin)
	m := metricsOf(t, s)
	for name := range m {
		if strings.HasPrefix(name, "parley_cluster_") {
			t.Errorf("a server on its own shows %s", name)
		}
	}
	if m["parley_writes_accepted"] != 1 {
		t.Error("the metrics were not read")
	}
}
