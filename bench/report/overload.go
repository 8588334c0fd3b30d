package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"parley/bench/result"
)

// Names of the scenario, the figures and the part of runs that this file reads.
const (
	figurePeak       = "resident_peak_bytes"
	figureIntended   = "intended_per_second"
	figureOffered    = "offered_per_second"
	figureRefused    = "refused_per_second"
	scenarioOverload = "overload"
	lapRefused       = "refused, from the real sending"
)

// Unloaded is the factor with which the others are compared.
const Unloaded = 0.5

// Overloads summarizes the runs of overload, by target. Its steps are shares of capacity; 0 is
// the closed loop.
func Overloads(r *result.Report) []result.Overload {
	var out []result.Overload
	for _, name := range targets(r) {
		byFactor := map[float64][]result.Run{}
		for _, run := range r.Runs {
			if run.Scenario == scenarioOverload && run.Target == name {
				byFactor[run.Share] = append(byFactor[run.Share], run)
			}
		}
		if len(byFactor) == 0 {
			continue
		}
		o := result.Overload{Target: name}
		for factor, runs := range byFactor {
			g, _ := newGroup(name, runs)
			o.Steps = append(o.Steps, stepOf(factor, g))
		}
		slices.SortFunc(o.Steps, func(a, b result.OverloadStep) int { return cmp.Compare(a.Factor, b.Factor) })
		conclude(&o)
		out = append(out, o)
	}
	return out
}

func stepOf(factor float64, g group) result.OverloadStep {
	median := func(of func(result.Run) float64) float64 {
		return g.spread(func(r result.Run) (float64, bool) { return of(r), true }).Median
	}
	figure := func(name string) float64 { return median(func(r result.Run) float64 { return r.Figures[name] }) }
	s := result.OverloadStep{
		Factor: factor, Doubtful: g.doubtful, Connections: g.runs[0].Clients,
		Intended: figure(figureIntended), Offered: figure(figureOffered), Refused: figure(figureRefused), Resident: figure(figurePeak),
		Accepted:    median(func(r result.Run) float64 { return r.PerSecond }),
		P50:         median(func(r result.Run) float64 { return r.Service.P50 }),
		P99:         median(func(r result.Run) float64 { return r.Service.P99 }),
		IntendedP99: median(func(r result.Run) float64 { return r.Latency.P99 }),
		RefusedP99:  median(func(r result.Run) float64 { return r.Laps[lapRefused].P99 }),
		Target:      median(func(r result.Run) float64 { return r.CPU.Target }),
		Generator:   median(func(r result.Run) float64 { return r.CPU.Generator }),
	}
	for _, run := range g.runs {
		s.Failures += run.Failures
	}
	return s
}

// conclude compares the last step with the others.
func conclude(o *result.Overload) {
	last := o.Steps[len(o.Steps)-1]
	for _, s := range o.Steps {
		o.Peak = max(o.Peak, s.Accepted)
		o.Failures += s.Failures
		switch {
		case s.Factor == 0:
			o.Capacity = s.Accepted
		case last.Factor <= 1:
		case s.Factor == Unloaded && s.P99 > 0:
			o.P99 = last.P99 / s.P99
		case s.Factor == 1 && s.Resident > 0:
			o.Memory = last.Resident / s.Resident
		}
	}
	if last.Factor > 1 && o.Peak > 0 {
		o.Goodput = last.Accepted / o.Peak
	}
}

const overloadReading = "Latencies are of accepted messages and count from the real sending on the wire; the column after them counts from the intended time. " +
	"An arrival that finds every connection waiting is not offered. Offered is what the target was really asked. " +
	"Generator and target share the processors: what the generator takes at a high rate, the target lacks."

// overloadSection is the part of the report about one overload.
type overloadSection struct {
	table    table
	verdicts []string
}

// overloadTable lists the steps of one target.
func overloadTable(o result.Overload) table {
	t := table{
		caption: "Overload: " + o.Target,
		head: []string{
			"Of capacity", "Connections", "Intended/s", "Offered/s", "Accepted/s", "Refused/s", "Other",
			"p50, ms", "p99, ms", "p99 intended, ms", "p99 refused, ms", "Peak memory", "Target's cores", "Generator's",
		}, left: 1,
	}
	for _, s := range o.Steps {
		name := strconv.FormatFloat(s.Factor, 'g', -1, 64) + " ×"
		intended := number(s.Intended)
		if s.Factor == 0 {
			name, intended = "closed loop", none
		}
		if s.Doubtful {
			name += " (invalid)"
		}
		memory, refused := none, none
		if s.Resident > 0 {
			memory = bytesSize(uint64(s.Resident))
		}
		if s.Refused > 0 {
			refused = number(s.RefusedP99)
		}
		t.rows = append(t.rows, []string{
			name, whole(float64(s.Connections)), intended, number(s.Offered), number(s.Accepted), number(s.Refused), whole(float64(s.Failures)),
			number(s.P50), number(s.P99), number(s.IntendedP99), refused, memory, fixed2(s.Target), fixed2(s.Generator),
		})
	}
	return t
}

// overloadVerdict compares an overload with its goals.
func overloadVerdict(o result.Overload) []string {
	judge := func(text string, value float64, good bool) string {
		if value == 0 {
			return text + ": not measured"
		}
		verdict := "missed"
		if good {
			verdict = "met"
		}
		return text + ": " + fixed2(value) + ", " + verdict
	}
	last := o.Steps[len(o.Steps)-1]
	at := "at " + strconv.FormatFloat(last.Factor, 'g', -1, 64) + " ×"
	failures := "Neither accepted nor refused in good order: none, met"
	if o.Failures > 0 {
		failures = fmt.Sprintf("Neither accepted nor refused in good order: %s, missed", whole(float64(o.Failures)))
	}
	return []string{
		judge(fmt.Sprintf("Accepted %s of the peak (goal: at least %s)", at, fixed2(result.GoodputLeast)), o.Goodput, o.Goodput >= result.GoodputLeast),
		judge(fmt.Sprintf("p99 of the accepted %s of that at half of capacity (goal: at most %s)", at, fixed2(result.P99Most)), o.P99, o.P99 <= result.P99Most),
		judge(fmt.Sprintf("Peak memory %s of that at capacity (goal: at most %s)", at, fixed2(result.MemoryMost)), o.Memory, o.Memory <= result.MemoryMost),
		failures,
	}
}
