package report

import (
	"slices"
	"strings"
	"testing"

	"parley/bench/result"
)

func fanned(clients int, deliveries, ofDirect, logged float64) result.Run {
	r := run("parley", "fanout", clients, 0, 1, deliveries/1000, 5)
	r.Figures = map[string]float64{"recipients": 1000, "deliveries_per_second": deliveries, "broadcast_of_direct_p50": ofDirect, "log_bytes_per_copy": logged}
	return r
}

func verdicts(goals []result.Goal) (all []string) {
	for _, row := range goalTable(goals).rows {
		all = append(all, row[3]+" "+row[4])
	}
	return all
}

func TestGoalsOfGroups(t *testing.T) {
	invalid := run("parley", "cold", 512, 0, 1, 1000, 9)
	invalid.Invalid = "neighbours"
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"met": {
			[]result.Run{fanned(8, 400_000, 2, 250), run("parley", "hotgroup", 512, 0, 1, 700, 9), run("parley", "cold", 512, 0, 1, 1000, 9)},
			[]string{"400,000 met", "2.00 met", "250 met", "0.700 met"},
		},
		"missed, by the case with the most clients": {
			[]result.Run{fanned(4, 500_000, 1, 1), fanned(8, 399_000, 2.1, 251), run("parley", "hotgroup", 512, 0, 1, 690, 9), run("parley", "cold", 512, 0, 1, 1000, 9)},
			[]string{"399,000 missed", "2.10 missed", "251 missed", "0.690 missed"},
		},
		"no valid run": {[]result.Run{run("parley", "hotgroup", 512, 0, 1, 900, 9), invalid}, []string{"(0.900) no valid run"}},
		"other clients, other targets": {
			[]result.Run{run("parley", "hotgroup", 512, 0, 1, 900, 9), run("parley", "cold", 64, 0, 1, 1000, 9), run("floor", "cold", 512, 0, 1, 1000, 9)}, nil,
		},
		"what was not seen": {
			[]result.Run{func() result.Run { r := fanned(8, 1, 9, 0); delete(r.Figures, "log_bytes_per_copy"); return r }()}, []string{"1.00 missed", "9.00 missed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdicts(Goals(&result.Report{Runs: c.runs})); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestGoalsAreShown(t *testing.T) {
	r := &result.Report{Runs: []result.Run{fanned(8, 450_000, 2, 100)}}
	r.Goals = Goals(r)
	text := render(t, Markdown, r)
	for _, want := range []string{"fan-out to 1,000 members: durable deliveries a second", "≥ 400,000", "450,000", "met"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown", want)
		}
	}
}

func TestGoalsOfOverload(t *testing.T) {
	step := func(share, accepted, p99, memory float64) result.Run {
		return result.Run{
			Target: "parley", Scenario: "overload", Clients: 4096, Rate: share * 1000, Repeat: 1, PerSecond: accepted, Share: share,
			Service: result.Latency{Count: 10, P99: p99}, Figures: map[string]float64{"resident_peak_bytes": memory},
		}
	}
	runs := []result.Run{step(0, 1000, 20, 1e6), step(0.5, 500, 10, 1e6), step(1, 990, 15, 2e6), step(2, 980, 18, 2e6), step(5, 900, 25, 2.4e6)}
	spoilt := step(5, 10, 9999, 9e9)
	spoilt.Invalid, spoilt.Repeat = "neighbours", 2
	bad := append(slices.Clone(runs[:4]), step(5, 700, 31, 4e6))
	bad[4].Failures = 1
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"met":                 {append(runs, spoilt), []string{"0.900 met", "2.50 met", "1.20 met", "0 met"}},
		"missed":              {bad, []string{"0.700 missed", "3.10 missed", "2.00 missed", "1.00 missed"}},
		"without the highest": {runs[:4], nil},
	} {
		report := &result.Report{Runs: c.runs}
		if got := verdicts(Goals(report)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if strings.Contains(render(t, Markdown, report), "Behind") {
			t.Errorf("%s: a target is called late that was offered more than it can do", name)
		}
	}
}

// nodesReport holds runs of a cluster and of a single server, in turn.
func nodesReport(nodes int, sends, singleSends, page, singlePage float64) *result.Report {
	r := &result.Report{Nodes: nodes}
	for repeat := 1; repeat <= 3; repeat++ {
		k := float64(repeat - 2)
		r.Runs = append(
			r.Runs,
			run("nodes", "send", 256, 0, repeat, sends+k, 40), run("single", "send", 256, 0, repeat, singleSends, 18),
			run("nodes", "inbox", 1, 0, repeat, 1000, page+k/100), run("single", "inbox", 1, 0, repeat, 2000, singlePage),
		)
	}
	return r
}

func TestGoalsOfNodes(t *testing.T) {
	invalid := nodesReport(3, 4500, 10_000, 1.5, 0.5)
	alone := &result.Report{Nodes: 3}
	for i, one := range invalid.Runs {
		if one.Target == "single" {
			invalid.Runs[i].Invalid = "neighbours"
		} else {
			alone.Runs = append(alone.Runs, one)
		}
	}
	killed := run("nodes", "failover", 64, 0, 1, 3000, 9)
	killed.Figures = map[string]float64{"first_201_p99_ms": 1001}
	for name, c := range map[string]struct {
		report *result.Report
		want   []string
	}{
		"met":                     {nodesReport(3, 4500, 10_000, 1.5, 0.5), []string{"0.450 met", "1.00 met"}},
		"missed":                  {nodesReport(3, 4400, 10_000, 1.6, 0.5), []string{"0.440 missed", "1.10 missed"}},
		"five nodes":              {nodesReport(5, 4400, 10_000, 2.1, 0.5), []string{"0.440 met", "1.60 missed"}},
		"two nodes":               {nodesReport(2, 4400, 10_000, 2.1, 0.5), []string{"1.60 missed"}},
		"an invalid single":       {invalid, []string{"(0.450) no valid run", "(1.00) no valid run"}},
		"without a single server": {alone, nil},
		"the leader is killed":    {&result.Report{Nodes: 3, Runs: []result.Run{killed}}, []string{"1,001 missed"}},
	} {
		if got := verdicts(Goals(c.report)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestVerification: violations are named, and each node of a cluster has a column.
func TestVerification(t *testing.T) {
	v := result.Verification{
		Acknowledged: 3000, Found: 3000, Broadcasts: 3, Copies: 3000, Commands: 40, Deliveries: 1200, DeliveredAgain: 7, Killed: true,
		Nodes: []result.Verification{{Node: "a", Found: 3000}, {Node: "b", Found: 2990}},
	}
	text := render(t, Markdown, &result.Report{Verified: &v})
	for _, want := range []string{"Clean", "| Messages | All | Node a | Node b |", "| found | 3,000 | 3,000 | 2,990 |", "| webhook deliveries made again | 7 |", "| copies of broadcasts | 3,000 |"} {
		if !v.Clean() || !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for what, change := range map[string]func(*result.Verification){
		"1 broadcasts with some members only":   func(v *result.Verification) { v.Partial = 1 },
		"2 votes and seats not in effect":       func(v *result.Verification) { v.CommandsLost = 2 },
		"2 webhook deliveries never made":       func(v *result.Verification) { v.DeliveriesLost = 2 },
		"7 mailboxes not the same on all nodes": func(v *result.Verification) { v.Differing = 7 },
		"5 missing, 2 reordered":                func(v *result.Verification) { v.Missing, v.Reordered = 5, 2 },
	} {
		bad := v
		change(&bad)
		if verdict, _ := verification(&bad); bad.Clean() || verdict != "VIOLATED: "+what+"." {
			t.Errorf("%s: %s", what, verdict)
		}
	}
}
