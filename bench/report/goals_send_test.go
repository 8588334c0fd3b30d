package report

import (
	"slices"
	"testing"

	"parley/bench/result"
)

func TestGoalsOfSending(t *testing.T) {
	long := func(r result.Run) result.Run { r.Window = 60; return r }
	half := run("parley", "send", 256, 2000, 1, 2000, 2)
	half.Share = 0.5
	quarter := half
	quarter.Share = 0.25
	invalid := run("floor", "send", 64, 0, 1, 1000, 2)
	invalid.Invalid = "neighbours"
	reply := run("parley", "reply", 64, 2000, 1, 2000, 2)
	stream := run("parley", "stream", 1, 0, 1, 0, 2)
	stream.Figures = map[string]float64{"bytes_per_stream": 3584, "last_ms": 71}
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"of the floor": {
			[]result.Run{
				run("parley", "send", 64, 0, 1, 660, 2), run("floor", "send", 64, 0, 1, 1000, 2),
				run("parley", "send", 256, 0, 1, 690, 2), run("floor", "send", 256, 0, 1, 1000, 2),
			},
			[]string{"0.660 met", "0.690 missed"},
		},
		"long windows are goals of their own": {
			[]result.Run{
				run("parley", "send", 64, 0, 1, 900, 2), run("floor", "send", 64, 0, 1, 1000, 2),
				long(run("parley", "send", 64, 0, 1, 600, 2)), long(run("floor", "send", 64, 0, 1, 1000, 2)),
			},
			[]string{"0.900 met", "0.600 missed"},
		},
		"of other peers": {
			[]result.Run{
				run("parley", "send", 64, 0, 1, 3000, 2), run("postgres", "send", 64, 0, 1, 1000, 2), run("jetstream", "send", 64, 0, 1, 2000, 2),
			},
			[]string{"3.00 met", "1.50 missed"},
		},
		"one client waits": {
			[]result.Run{run("parley", "send", 1, 0, 1, 100, 2.4), run("floor", "send", 1, 0, 1, 1000, 2)},
			[]string{"1.20 met"},
		},
		"an invalid floor":    {[]result.Run{run("parley", "send", 64, 0, 1, 900, 2), invalid}, []string{"(0.900) no valid run"}},
		"alone":               {[]result.Run{run("parley", "send", 64, 0, 1, 900, 2)}, nil},
		"half of capacity":    {[]result.Run{half}, []string{number(half.Latency.P99) + " met"}},
		"quarter of capacity": {[]result.Run{quarter}, nil},
		"replies":             {[]result.Run{reply}, []string{number(reply.Latency.P99) + " met"}},
		"streams":             {[]result.Run{stream}, []string{"3,584 met", "71.0 missed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdicts(Goals(&result.Report{Runs: c.runs})); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
