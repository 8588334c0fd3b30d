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

func TestVerificationOfGroups(t *testing.T) {
	v := result.Verification{Acknowledged: 3000, Found: 3000, Broadcasts: 3, Copies: 3000, Commands: 40, Killed: true}
	if said, _ := verification(&v); !strings.Contains(said, "Clean") || !strings.Contains(said, "copies of 3 broadcasts") || !strings.Contains(said, "All 40 votes") {
		t.Errorf("clean: %s", said)
	}
	for what, change := range map[string]func(*result.Verification){
		"1 broadcasts with some members only": func(v *result.Verification) { v.Partial = 1 },
		"2 votes or seats not in effect":      func(v *result.Verification) { v.CommandsLost = 2 },
	} {
		bad := v
		change(&bad)
		if said, _ := verification(&bad); bad.Clean() || !strings.Contains(said, "VIOLATED") || !strings.Contains(said, what) {
			t.Errorf("%s: %s", what, said)
		}
	}
}
