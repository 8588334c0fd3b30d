package nodes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestNodeAlone kills two of three nodes. The third one makes no backup, which could lack what
// they had acknowledged, and its commands say what is wrong. When another one is back a backup
// is made again.
func TestNodeAlone(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	alone, other := n.Node(0), n.Node(1)
	to := filepath.Join(t.TempDir(), "backup")
	backup := func() (string, error) { return alone.Operate("backup", "--to", to) }
	if said, err := backup(); err != nil {
		t.Fatal(said, err)
	}
	before := treeOf(t, to)
	other.Kill()
	n.Node(2).Kill()
	n.ConsistsOf(n.Node(0))
	eventuallyStatus(t, alone, "no node leads", func(c clusterStatus) bool { return c.Groups[0].Leader == nil })

	if said, err := backup(); err == nil || !strings.Contains(said, "not caught up") {
		t.Errorf("a node without a leader makes a backup: %v %s", err, said)
	}
	if after := treeOf(t, to); after != before {
		t.Errorf("the backup directory changed from\n%s\nto\n%s", before, after)
	}
	for command, want := range map[string]string{
		"remove " + other.Flag("--node-name"): "No node leads",
		"drain":                               "No other node is ready",
		"status":                              "a is not ready: The node has no contact with a leader",
	} {
		if said, _ := alone.Operate(append([]string{"cluster"}, strings.Fields(command)...)...); !strings.Contains(said, want) {
			t.Errorf("cluster %s says, without %q:\n%s", command, want, said)
		}
	}
	if ready := metricsOf(t, alone)["parley_ready"]; ready != 0 {
		t.Errorf("parley_ready is %v", ready)
	}

	kit.Must(t, other.Again())
	eventuallyStatus(t, alone, "a node leads", func(c clusterStatus) bool { return c.state("a") == "ready" && c.state("b") == "ready" })
	if said, err := backup(); err != nil {
		t.Error(said, err)
	}
	if ready := metricsOf(t, alone)["parley_ready"]; ready != 1 {
		t.Errorf("parley_ready is %v", ready)
	}
}

// treeOf lists the files below a directory.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	kit.Must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all.WriteString(path + "\n")
		return err
	}))
	return all.String()
}

// TestLostIdentity starts a node whose directory is empty, as if its disk were not mounted, and
// one that lost what makes it a node: neither begins a cluster of its own.
func TestLostIdentity(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 2)
	node := n.Node(1)
	n.Ready(t)
	kit.Must(t, node.Drain(15*time.Second))
	empty := t.TempDir()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--cluster-listen", node.Flag("--cluster-listen"), "--data"}
	if said, code := ends(t, append(serve, empty)...); code != 2 || !strings.Contains(said, "is its disk mounted?") {
		t.Errorf("an empty directory: %d %s", code, said)
	}
	identity, away := filepath.Join(node.Dir, "cluster"), filepath.Join(t.TempDir(), "cluster")
	kit.Must(t, os.Rename(identity, away))
	if said, code := ends(t, append(serve, node.Dir)...); code != 2 || !strings.Contains(said, "has the log of a node") {
		t.Errorf("without identity: %d %s", code, said)
	}
	if said, code := ends(t, "cluster", "init", "--data", node.Dir, "--advertise", node.Flag("--cluster-listen")); code == 0 || !strings.Contains(said, "is the directory of a node") {
		t.Errorf("init without identity: %d %s", code, said)
	}
	kit.Must(t, os.Rename(away, identity))
	if said, code := ends(t, append(serve, node.Dir, "--cluster-advertise", "127.0.0.1:1")...); code != 2 || !strings.Contains(said, "the cluster knows this node by") {
		t.Errorf("another address: %d %s", code, said)
	}
	kit.Must(t, node.Again())
	n.Ready(t)
}

// TestNodesWithGivenKey: the master key of a cluster is in the environment of its nodes, and in
// no file. A node that is not given it is told so.
func TestNodesWithGivenKey(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	local := kit.LocalPlace(t.TempDir())
	n := kit.StartNodesAt(t, func(i int) (kit.Place, error) {
		p, err := local(i)
		p.Through = kit.InEnvironment(key)
		return p, err
	}, 2)
	one, other := kit.Pair(t, n.Server())
	one.Send(other.On(n.Node(1)))
	token, err := n.Node(0).Operate("cluster", "token")
	kit.Must(t, err)
	at, err := kit.UnusedAddress()
	kit.Must(t, err)
	said, code := ends(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", t.TempDir(), "--cluster-listen", at,
		"--join", n.Node(0).Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token))
	if code == 0 || !strings.Contains(said, "the same PARLEY_MASTER_KEY") {
		t.Errorf("a node without the key: %d %s", code, said)
	}
	for _, s := range n.All {
		if _, err := os.Lstat(filepath.Join(s.Dir, "master.key")); err == nil {
			t.Errorf("%s has the key in a file", s.Dir)
		}
	}
	kit.Must(t, n.Node(1).Drain(15*time.Second))
	kit.Must(t, n.Node(1).Again())
	n.Ready(t)
	if got := len(other.On(n.Node(1)).Everything()); got != 1 {
		t.Errorf("%d messages are there", got)
	}
}
