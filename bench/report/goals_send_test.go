package report

import (
	"slices"
	"testing"

	"parley/bench/result"
)

func TestGoalsOfSending(t *testing.T) {
	long := func(r result.Run) result.Run { r.Window = 60; return r }
	half := run("parley", scenarioSend, 256, 2000, 1, 2000, 2)
	half.Share = halfOfCapacity
	quarter := half
	quarter.Share = 0.25
	invalid := run("floor", scenarioSend, 64, 0, 1, 1000, 2)
	invalid.Invalid = "neighbours"
	reply := run("parley", scenarioReply, 64, replyRate, 1, replyRate, 2)
	stream := run("parley", scenarioStream, 1, 0, 1, 0, 2)
	stream.Figures = map[string]float64{"bytes_per_stream": 3584, "last_ms": 71}
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"of the floor": {
			[]result.Run{
				run("parley", scenarioSend, 64, 0, 1, 660, 2), run("floor", scenarioSend, 64, 0, 1, 1000, 2),
				run("parley", scenarioSend, 256, 0, 1, 690, 2), run("floor", scenarioSend, 256, 0, 1, 1000, 2),
			},
			[]string{"0.660 met", "0.690 missed"},
		},
		"long windows are goals of their own": {
			[]result.Run{
				run("parley", scenarioSend, 64, 0, 1, 900, 2), run("floor", scenarioSend, 64, 0, 1, 1000, 2),
				long(run("parley", scenarioSend, 64, 0, 1, 600, 2)), long(run("floor", scenarioSend, 64, 0, 1, 1000, 2)),
			},
			[]string{"0.900 met", "0.600 missed"},
		},
		"of other peers": {
			[]result.Run{
				run("parley", scenarioSend, 64, 0, 1, 3000, 2), run("postgres", scenarioSend, 64, 0, 1, 1000, 2), run("jetstream", scenarioSend, 64, 0, 1, 2000, 2),
			},
			[]string{"3.00 met", "1.50 missed"},
		},
		"one client waits": {
			[]result.Run{run("parley", scenarioSend, 1, 0, 1, 100, 2.4), run("floor", scenarioSend, 1, 0, 1, 1000, 2)},
			[]string{"1.20 met"},
		},
		"an invalid floor":    {[]result.Run{run("parley", scenarioSend, 64, 0, 1, 900, 2), invalid}, []string{"(0.900) no valid run"}},
		"alone":               {[]result.Run{run("parley", scenarioSend, 64, 0, 1, 900, 2)}, nil},
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
