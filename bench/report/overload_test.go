package report

import (
	"strings"
	"testing"

	"parley/bench/result"
)

// pressedRun is one run of overload.
func pressedRun(factor, accepted, p99, memory float64) result.Run {
	return result.Run{
		Target: "parley", Scenario: "overload", Clients: 4096, Rate: factor * 1000, Repeat: 1, PerSecond: accepted, Share: factor,
		Service: result.Latency{Count: 10, P50: p99 / 2, P99: p99}, Latency: result.Latency{Count: 10, P99: p99 + 1},
		Laps:    map[string]result.Latency{lapRefused: {Count: 1, P99: 7}},
		Figures: map[string]float64{figurePeak: memory, figureIntended: factor * 1000, figureOffered: accepted, figureRefused: factor},
	}
}

func TestOverloadsAreHeldAgainstTheirGoals(t *testing.T) {
	runs := []result.Run{
		pressedRun(0, 1000, 20, 1e6), pressedRun(0.5, 500, 10, 1e6), pressedRun(1, 990, 15, 2e6), pressedRun(2, 980, 18, 2e6), pressedRun(5, 900, 25, 2.4e6),
	}
	spoilt := pressedRun(5, 10, 9999, 9e9)
	spoilt.Invalid, spoilt.Repeat = "neighbours", 2
	all := Overloads(&result.Report{Runs: append(runs, spoilt, result.Run{Target: "parley", Scenario: "send"})})
	if len(all) != 1 || len(all[0].Steps) != 5 {
		t.Fatalf("%+v", all)
	}
	o := all[0]
	if o.Capacity != 1000 || o.Peak != 1000 || o.Goodput != 0.9 || o.P99 != 2.5 || o.Memory != 1.2 || o.Failures != 0 {
		t.Errorf("%+v", o)
	}
	if verdict := strings.Join(overloadVerdict(o), "\n"); strings.Contains(verdict, "missed") || strings.Count(verdict, "met") != 4 {
		t.Errorf("good figures: %s", verdict)
	}
	bad := []result.Run{pressedRun(0, 1000, 20, 1e6), pressedRun(0.5, 500, 10, 1e6), pressedRun(1, 990, 15, 2e6), pressedRun(5, 700, 31, 4e6)}
	bad[3].Failures = 1
	if verdict := strings.Join(overloadVerdict(Overloads(&result.Report{Runs: bad})[0]), "\n"); strings.Count(verdict, "missed") != 4 {
		t.Errorf("bad figures: %s", verdict)
	}
	if verdict := strings.Join(overloadVerdict(Overloads(&result.Report{Runs: bad[:2]})[0]), "\n"); strings.Count(verdict, "not measured") != 3 {
		t.Errorf("with half of the figures: %s", verdict)
	}
}

func TestOverloadsAreShown(t *testing.T) {
	r := &result.Report{Runs: []result.Run{pressedRun(0, 1000, 20, 1e6), pressedRun(0.5, 500, 10, 1e6), pressedRun(1, 990, 15, 2e6), pressedRun(5, 900, 25, 2.4e6)}}
	r.Overloads = Overloads(r)
	text := render(t, Markdown, r)
	for _, want := range []string{"Overload: parley", "5 ×", "closed loop", "goal: at least 0.80): 0.90, met", overloadReading[:60]} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if strings.Contains(text, "Behind") {
		t.Error("a target is called late that was offered more than it can do")
	}
}
