package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley/bench/result"
)

// needsBalancer skips a test where haproxy is missing, with a prominent notice; in CI it fails.
func needsBalancer(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err == nil {
		return
	}
	const left = "!! NOT CHECKED: the bench of several nodes: there is no haproxy here (on Debian: apt-get install haproxy)"
	if os.Getenv("CI") == "true" {
		t.Fatal(left)
	}
	t.Skip(left)
}

// measuredNodes runs the bench with several nodes and returns all of its results.
func measuredNodes(t *testing.T, args ...string) *result.Report {
	t.Helper()
	needsBalancer(t)
	_, out := measured(t, append([]string{
		"--duration", "1s", "--warmup", "100ms", "--repeats", "1", "--agents", "12",
	}, args...)...)
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	var all result.Report
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || all.Nodes == nil {
		t.Fatalf("results.json: %v, nodes %v", err, all.Nodes)
	}
	return &all
}

// TestBenchNodes runs three nodes and a single server in turn for a moment. It does not
// measure, but each answer is checked, and what was acknowledged is read from each node.
func TestBenchNodes(t *testing.T) {
	t.Parallel()
	all := measuredNodes(t, "--nodes", "3", "--beside-single", "--clients", "6", "--verify", "send", "inbox")
	n := all.Nodes
	if n.Count != 3 || n.Target != "3 nodes" || n.Single != "single" || len(n.Cases) != 2 {
		t.Fatalf("%+v", n)
	}
	for _, c := range n.Cases {
		if c.PerSecond <= 0 || c.SinglePerSecond <= 0 || c.OfSingle <= 0 || c.P50 <= 0 || c.SingleP50 <= 0 || c.Later != c.P50-c.SingleP50 {
			t.Errorf("%+v", c)
		}
	}
	for _, run := range all.Runs {
		if run.Failures != 0 {
			t.Errorf("%s, %s: failures %v", run.Target, run.Scenario, run.Reasons)
		}
	}
	checkNodes(t, all.Verified, 3)
}

// checkNodes checks that every node was read, and that each has everything once.
func checkNodes(t *testing.T, v *result.Verification, count int) {
	t.Helper()
	if v == nil || !v.Clean() || !v.Killed || v.Acknowledged == 0 || len(v.Nodes) != count {
		t.Fatalf("verification: %+v", v)
	}
	for _, n := range v.Nodes {
		if n.Found != v.Acknowledged {
			t.Errorf("node %s has %d of %d messages", n.Node, n.Found, v.Acknowledged)
		}
	}
}

// TestBenchOneNode: one node is a cluster of one voter.
func TestBenchOneNode(t *testing.T) {
	t.Parallel()
	all := measuredNodes(t, "--nodes", "1", "--clients", "2", "--verify", "send")
	if n := all.Nodes; n.Count != 1 || n.Single != "" || len(n.Cases) != 1 || n.Cases[0].PerSecond <= 0 {
		t.Errorf("%+v", n)
	}
	checkNodes(t, all.Verified, 1)
}

// TestBenchFailover kills the leader of three nodes twice. It does not measure, but the time
// until the next 201 must be possible, and no node may lack what was acknowledged.
func TestBenchFailover(t *testing.T) {
	t.Parallel()
	all := measuredNodes(t, "--nodes", "3", "--clients", "6", "--kills", "2", "--repeats", "3", "failover")
	f := all.Nodes.Failover
	if f == nil || len(all.Runs) != 1 || f.Kills != 2 || f.P50 <= 0 || f.P50 > f.P99 || f.P99 > f.Max || f.Max > 60_000 || f.Ready <= 0 {
		t.Fatalf("%+v in %d runs", f, len(all.Runs))
	}
	if len(all.Goals) != 1 || all.Goals[0].Measured != f.P99 {
		t.Errorf("goals: %+v", all.Goals)
	}
	if run := all.Runs[0]; run.Operations == 0 {
		t.Errorf("%d operations, failures %v", run.Operations, run.Reasons)
	}
	checkNodes(t, all.Verified, 3)
}
