package blackbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNodeAlone kills two of three nodes. The third one makes no backup, which could lack what
// they had acknowledged, and its commands say what is wrong. When another one is back a backup
// is made again.
func TestNodeAlone(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	alone, other := n.node(0), n.node(1)
	to := filepath.Join(t.TempDir(), "backup")
	backup := func() (string, error) { return alone.operate("backup", "--to", to) }
	if said, err := backup(); err != nil {
		t.Fatal(said, err)
	}
	before := treeOf(t, to)
	other.kill()
	n.node(2).kill()
	n.consistsOf(n.node(0))
	alone.eventuallyStatus(t, "no node leads", func(c clusterStatus) bool { return c.Groups[0].Leader == nil })

	if said, err := backup(); err == nil || !strings.Contains(said, "not caught up") {
		t.Errorf("a node without a leader makes a backup: %v %s", err, said)
	}
	if after := treeOf(t, to); after != before {
		t.Errorf("the backup directory changed from\n%s\nto\n%s", before, after)
	}
	for command, want := range map[string]string{
		"remove " + other.flag("--node-name"): "No node leads",
		"drain":                               "No other node is ready",
		"status":                              "a is not ready: The node has no contact with a leader",
	} {
		if said, _ := alone.operate(append([]string{"cluster"}, strings.Fields(command)...)...); !strings.Contains(said, want) {
			t.Errorf("cluster %s says, without %q:\n%s", command, want, said)
		}
	}
	if ready := alone.metrics(t)["parley_ready"]; ready != 0 {
		t.Errorf("parley_ready is %v", ready)
	}

	must(t, other.again())
	alone.eventuallyStatus(t, "a node leads", func(c clusterStatus) bool { return c.state("a") == "ready" && c.state("b") == "ready" })
	if said, err := backup(); err != nil {
		t.Error(said, err)
	}
	if ready := alone.metrics(t)["parley_ready"]; ready != 1 {
		t.Errorf("parley_ready is %v", ready)
	}
}

// treeOf lists the files below a directory.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all.WriteString(path + "\n")
		return err
	}))
	return all.String()
}

// TestLostIdentity starts a node whose directory is empty, as if its disk were not mounted, and
// one that lost what makes it a node: neither begins a cluster of its own.
func TestLostIdentity(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 2)
	node := n.node(1)
	n.ready(t)
	must(t, node.drain(15*time.Second))
	empty := t.TempDir()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--cluster-listen", node.flag("--cluster-listen"), "--data"}
	if said, code := ends(t, append(serve, empty)...); code != 2 || !strings.Contains(said, "is its disk mounted?") {
		t.Errorf("an empty directory: %d %s", code, said)
	}
	identity, away := filepath.Join(node.dir, "cluster"), filepath.Join(t.TempDir(), "cluster")
	must(t, os.Rename(identity, away))
	if said, code := ends(t, append(serve, node.dir)...); code != 2 || !strings.Contains(said, "has the log of a node") {
		t.Errorf("without identity: %d %s", code, said)
	}
	if said, code := ends(t, "cluster", "init", "--data", node.dir, "--advertise", node.flag("--cluster-listen")); code == 0 || !strings.Contains(said, "is the directory of a node") {
		t.Errorf("init without identity: %d %s", code, said)
	}
	must(t, os.Rename(away, identity))
	if said, code := ends(t, append(serve, node.dir, "--cluster-advertise", "127.0.0.1:1")...); code != 2 || !strings.Contains(said, "the cluster knows this node by") {
		t.Errorf("another address: %d %s", code, said)
	}
	must(t, node.again())
	n.ready(t)
}

// TestNodesWithGivenKey: the master key of a cluster is in the environment of its nodes, and in
// no file. A node that is not given it is told so.
func TestNodesWithGivenKey(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	local := localPlace(t.TempDir())
	n := startNodesAt(t, func(i int) (place, error) {
		p, err := local(i)
		p.through = inEnvironment(key)
		return p, err
	}, 2)
	one, other := pair(t, n.server())
	one.send(other.on(n.node(1)))
	token, err := n.node(0).operate("cluster", "token")
	must(t, err)
	at, err := unusedAddress()
	must(t, err)
	said, code := ends(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", t.TempDir(), "--cluster-listen", at,
		"--join", n.node(0).flag("--cluster-listen"), "--join-token", strings.TrimSpace(token))
	if code == 0 || !strings.Contains(said, "the same PARLEY_MASTER_KEY") {
		t.Errorf("a node without the key: %d %s", code, said)
	}
	for _, s := range n.all {
		if _, err := os.Lstat(filepath.Join(s.dir, "master.key")); err == nil {
			t.Errorf("%s has the key in a file", s.dir)
		}
	}
	must(t, n.node(1).drain(15*time.Second))
	must(t, n.node(1).again())
	n.ready(t)
	if got := len(other.on(n.node(1)).everything()); got != 1 {
		t.Errorf("%d messages are there", got)
	}
}
