package nodes

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// readiness is what a node says about itself.
func readiness(t testing.TB, s *kit.Server) (status int, reason string) {
	t.Helper()
	resp, err := kit.Client.Get(s.Base + "/readyz")
	kit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var said struct{ Reason string }
	kit.Must(t, json.NewDecoder(resp.Body).Decode(&said))
	return resp.StatusCode, said.Reason
}

// TestWrongClock: a node whose wall clock becomes wrong, or is wrong when it starts, leaves
// service and the leadership while the others stay, says by how much it is wrong, and comes back
// when its clock is right. One that joins with a wrong clock is refused.
func TestWrongClock(t *testing.T) {
	if *nodesClocks == 0 {
		t.Skip("runs only with -nodes.clocks")
	}
	dir := t.TempDir()
	n, clocks := startWithClocks(t, dir)
	wrong := func(s *kit.Server) {
		t.Helper()
		began := time.Now()
		kit.Eventually(t, "a node with a wrong clock is not ready", func() bool {
			status, reason := readiness(t, s)
			return status == http.StatusServiceUnavailable && strings.Contains(reason, "wall clock")
		})
		t.Logf("not ready after %v", time.Since(began).Round(100*time.Millisecond))
		for _, other := range n.All {
			if status, reason := readiness(t, other); other != s && status != http.StatusOK {
				t.Errorf("node %s, whose clock is right, is not ready: %s", other.Flag("--node-name"), reason)
			}
		}
	}
	right := func(s *kit.Server) {
		t.Helper()
		kit.Must(t, clocks[numberOf(n, s)].set(0))
		began := time.Now()
		n.Ready(t)
		t.Logf("ready again after %v", time.Since(began).Round(100*time.Millisecond))
	}
	says := func(s *kit.Server, what string) {
		t.Helper()
		if count := strings.Count(s.Log.Text(), what); count != 1 {
			t.Errorf("node %s says %d times %q\n%s", s.Flag("--node-name"), count, what, s.Log.Tail())
		}
	}
	const clockWrong = "the wall clock of this node is wrong"

	leader, follower := n.Roles(t)
	for s, ahead := range map[*kit.Server]time.Duration{leader: -time.Minute, follower: time.Hour} {
		kit.Must(t, clocks[numberOf(n, s)].set(ahead))
		wrong(s)
		says(s, clockWrong)
		says(s, ahead.String())
		kit.Eventually(t, "a node whose clock is right leads", func() bool { now := n.Leader(); return now != nil && now != s })
		far := 0
		for name, value := range metricsOf(t, s) {
			if strings.HasPrefix(name, "parley_cluster_clock_offset_seconds{") && value > -ahead.Seconds()-1 && value < -ahead.Seconds()+1 {
				far++
			}
		}
		if far != 2 {
			t.Errorf("the clock of %d nodes differs from that of one whose own is ahead by %v", far, ahead)
		}
		right(s)
	}

	kit.Must(t, follower.Drain(15*time.Second))
	kit.Must(t, clocks[numberOf(n, follower)].set(-time.Minute))
	kit.Must(t, follower.Again())
	wrong(follower)
	right(follower)
	says(follower, clockWrong)

	kit.Must(t, clockIn(dir, 3).set(time.Minute))
	if err := n.Add(3); err == nil || !strings.Contains(err.Error(), "the wall clock of the new node is 1m0s ahead of") && !strings.Contains(err.Error(), "the wall clock of the new node is 59.9") {
		t.Errorf("a node with a wrong clock joins: %v", err)
	}
	kit.Must(t, clockIn(dir, 3).set(0))
	kit.Must(t, n.Add(3))
	n.Ready(t)
}
