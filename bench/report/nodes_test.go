package report

import (
	"html"
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

// TestNodesAreShown: both formats show the medians, the ratio and the difference.
func TestNodesAreShown(t *testing.T) {
	r := nodesReport(4500, 10_000, 1.5, 0.5)
	for name, text := range map[string]string{"Markdown": render(t, Markdown, r), "HTML": html.UnescapeString(render(t, HTML, r))} {
		for _, want := range []string{"Several nodes", "3 nodes on one machine", "4,500", "10,000", "0.45 × (0.45–0.45)", "+1.00", "≥ 0.45, better 0.55"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
}
