package nodes

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestClusterCommandsFail: each mistake has the exit code of its kind, and a message in plain
// words. Another service at the address of a node is one of them.
func TestClusterCommandsFail(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 1)
	node := n.Node(0)
	plain, secured := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	t.Cleanup(plain.Close)
	t.Cleanup(secured.Close)
	free, err := kit.UnusedAddress()
	kit.Must(t, err)
	token := func() string {
		said, err := node.Operate("cluster", "token")
		kit.Must(t, err)
		return strings.TrimSpace(said)
	}
	stopped := t.TempDir()
	if _, said, code := kit.Command(t, "cluster", "init", "--data", stopped, "--advertise", free); code != 0 {
		t.Fatal(said)
	}
	other := kit.StartNodes(t, 1).Node(0).Flag("--cluster-listen")
	serve := func(flags ...string) []string {
		return append([]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", t.TempDir()}, flags...)
	}
	join := func(address, token string) []string {
		return serve("--cluster-listen", free, "--join", address, "--join-token", token)
	}
	const usage, forbidden, missing, conflict, unreached = 2, 4, 5, 6, 8
	for what, c := range map[string]struct {
		args []string
		code int
	}{
		"init of a node":             {[]string{"cluster", "init", "--data", node.Dir, "--advertise", free}, conflict},
		"init with a bad address":    {[]string{"cluster", "init", "--data", t.TempDir(), "--advertise", "here"}, usage},
		"init with port 0":           {[]string{"cluster", "init", "--data", t.TempDir(), "--advertise", "127.0.0.1:0"}, usage},
		"init without an address":    {[]string{"cluster", "init", "--data", t.TempDir()}, usage},
		"init with a bad name":       {[]string{"cluster", "init", "--data", t.TempDir(), "--advertise", free, "--node-name", "a\nb"}, usage},
		"a backup of a stopped node": {[]string{"backup", "--data", stopped, "--to", t.TempDir()}, usage},
		"a token of no node":         {[]string{"cluster", "token", "--data", t.TempDir()}, missing},
		"to recover no node":         {[]string{"cluster", "recover", "--data", t.TempDir()}, missing},
		"a token without a join":     {serve("--join-token", token()), usage},
		"a join without a token":     {serve("--cluster-listen", free, "--join", node.Flag("--cluster-listen")), usage},
		"a listener of no node":      {serve("--cluster-listen", free), usage},
		"no token":                   {join(node.Flag("--cluster-listen"), "abc"), forbidden},
		"a token of another":         {join(other, token()), unreached},
		"nobody there":               {join(free, token()), unreached},
		"a plain service":            {join(plain.Listener.Addr().String(), token()), unreached},
		"a TLS service":              {join(secured.Listener.Addr().String(), token()), unreached},
		"the public address":         {join(node.Addr, token()), unreached},
	} {
		said, code := ends(t, c.args...)
		if code != c.code || strings.Contains(said, "desc =") || strings.Contains(said, "rpc") || strings.Contains(said, "goroutine") || said == "" {
			t.Errorf("%s: exit code %d, want %d\n%s", what, code, c.code, said)
		} else {
			t.Logf("%s: %s", what, strings.TrimSpace(said))
		}
	}
}

// ends runs the binary, which must end soon, and returns what it printed and its exit code.
func ends(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, kit.Binary, args...)
	cmd.Env, cmd.Dir = kit.CleanEnvironment(), t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestStopWhileWaiting stops a node that waits for the majority of its cluster: nothing is lost,
// so it exits with 0.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 2)
	alone := n.Node(0)
	eventuallyStatus(t, alone, "both nodes vote", func(c clusterStatus) bool { return c.voters() == 2 })
	n.Node(1).Kill()
	alone.Kill()
	n.ConsistsOf()
	kit.Must(t, alone.Begin("127.0.0.1:0"))
	kit.Eventually(t, "the node waits for its cluster", func() bool { return strings.Contains(alone.Log.Text(), "waits for the cluster") })
	if err := alone.Drain(10 * time.Second); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, alone.Log.Tail())
	}
}

// TestDrainInterrupted: when the command that drains the leader is interrupted, the leadership
// is handed over all the same. A node that is drained again has handed it over when the command
// ends.
func TestDrainInterrupted(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	n.Ready(t)
	for _, again := range []bool{false, true} {
		leader := n.Leader()
		draining := drainInBackground(t, leader)
		kit.Eventually(t, "the node is draining", func() bool { return clusterStatusOf(t, n.Node(0)).state(leader.Flag("--node-name")) == "draining" })
		if again {
			if said, err := leader.Operate("cluster", "drain"); err != nil {
				t.Error(said, err)
			}
			if n.Leader() == leader {
				t.Error("a node leads that was drained twice")
			}
		}
		_ = draining.Process.Kill()
		_ = draining.Wait()
		kit.Eventually(t, "another node leads", func() bool { now := n.Leader(); return now != nil && now != leader })
	}
}

// drainInBackground begins to drain a node.
func drainInBackground(t *testing.T, s *kit.Server) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(kit.Binary, "cluster", "drain", "--data", s.Dir, "--admin", "http://"+s.Flag("--admin-listen"))
	cmd.Env = kit.CleanEnvironment()
	kit.Must(t, cmd.Start())
	return cmd
}
