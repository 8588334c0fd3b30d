package report

import (
	"slices"
	"strings"
	"testing"

	"parley/bench/result"
)

// nodesReport holds runs of three nodes and of a single server, in turn.
func nodesReport(sends, singleSends, page, singlePage float64) *result.Report {
	r := &result.Report{Nodes: &result.Nodes{Count: 3, Target: "3 nodes", Single: "single"}}
	for repeat := 1; repeat <= 3; repeat++ {
		k := float64(repeat - 2)
		r.Runs = append(
			r.Runs,
			run("3 nodes", "send", 256, 0, repeat, sends+k, 40), run("single", "send", 256, 0, repeat, singleSends, 18),
			run("3 nodes", "inbox", 1, 0, repeat, 1000, page+k/100), run("single", "inbox", 1, 0, repeat, 2000, singlePage),
		)
	}
	CompareNodes(r)
	r.Goals = Goals(r)
	return r
}

func TestGoalsOfNodes(t *testing.T) {
	for name, c := range map[string]struct {
		report *result.Report
		want   []string
	}{
		"met":             {nodesReport(4500, 10_000, 1.5, 0.5), []string{"0.450 met", "1.00 met"}},
		"met, and better": {nodesReport(5500, 10_000, 1, 0.5), []string{"0.550 met, and better", "0.500 met, and better"}},
		"missed":          {nodesReport(4400, 10_000, 1.6, 0.5), []string{"0.440 missed", "1.10 missed"}},
	} {
		if got := verdicts(c.report.Goals); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for count, want := range map[int]string{5: "0.440 met", 2: "1.60 missed"} {
		r := nodesReport(4400, 10_000, 2.1, 0.5)
		r.Nodes.Count = count
		if got := verdicts(Goals(r)); got[0] != want {
			t.Errorf("%d nodes: %q, want %q first", count, got, want)
		}
	}
	doubtful := nodesReport(4500, 10_000, 1.5, 0.5)
	for i := range doubtful.Runs {
		if doubtful.Runs[i].Target == "single" {
			doubtful.Runs[i].Invalid = "neighbours"
		}
	}
	CompareNodes(doubtful)
	if got := verdicts(Goals(doubtful)); !slices.Equal(got, []string{"(0.450) no valid run", "(1.00) no valid run"}) {
		t.Errorf("without a valid run of the single server: %q", got)
	}
	alone := nodesReport(4500, 10_000, 1.5, 0.5)
	alone.Nodes.Single = ""
	CompareNodes(alone)
	if got := Goals(alone); len(got) > 0 {
		t.Errorf("without a single server: %+v", got)
	}
}

// failoverReport holds a run in which the leader was killed.
func failoverReport(p99 float64) *result.Report {
	r := &result.Report{Nodes: &result.Nodes{Count: 3, Target: "3 nodes"}}
	killed := run("3 nodes", "failover", 64, 0, 1, 3000, 9)
	killed.Figures = map[string]float64{FigureKills: 24, FigureFirstP50: 385, FigureFirstP99: p99, FigureFirstMax: p99, FigureReadyP50: 1900}
	r.Runs = []result.Run{killed}
	CompareNodes(r)
	r.Goals = Goals(r)
	return r
}

func TestFailoverIsJudgedAndShown(t *testing.T) {
	for p99, want := range map[float64]string{600: "600 met, and better", 1000: "1,000 met", 1001: "1,001 missed"} {
		r := failoverReport(p99)
		if got := verdicts(r.Goals); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
		if f := r.Nodes.Failover; f.Kills != 24 || f.P50 != 385 || f.Max != p99 || f.Ready != 1900 || len(r.Nodes.Cases) != 0 {
			t.Errorf("%+v", f)
		}
		if text := render(t, Markdown, r); !strings.Contains(text, "| 24 | 385 |") {
			t.Errorf("the kills are not shown:\n%s", text)
		}
	}
}

// TestNodesVerificationIsShown: what each node gave is shown, and a difference is a violation.
func TestNodesVerificationIsShown(t *testing.T) {
	r := failoverReport(500)
	r.Verified = &result.Verification{Acknowledged: 90, Found: 90, Killed: true, Nodes: []result.NodeVerification{{Node: "a", Found: 90}, {Node: "b", Found: 90}}}
	if text := render(t, Markdown, r); !strings.Contains(text, "All 2 nodes were killed at once") || !strings.Contains(text, "| b | 90 | 90 | 0 | 0 | 0 | 0 | 0 | 0 |") {
		t.Errorf("a clean verification:\n%s", text)
	}
	r.Verified.Nodes[1].Differing, r.Verified.Reordered = 7, 2
	if text := render(t, Markdown, r); !strings.Contains(text, "VIOLATED") || !strings.Contains(text, "2 reordered, 7 mailboxes not the same on all nodes") {
		t.Errorf("a violation:\n%s", text)
	}
}

// TestNodesAreShown: the report shows the medians, the ratio and the difference.
func TestNodesAreShown(t *testing.T) {
	r := nodesReport(4500, 10_000, 1.5, 0.5)
	text := render(t, Markdown, r)
	for _, want := range []string{"Several nodes", "3 nodes on one machine", "4,500", "10,000", "0.45 × (0.45–0.45)", "+1.00", "≥ 0.45, better 0.55"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown", want)
		}
	}
}
