package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/bench/result"
)

func runTable(c caseGroups) table {
	t := table{head: []string{"Target", "Runs", "op/s", "p50, ms", "p99, ms", "p99.9, ms", "CPU per op, µs", "Failures"}, left: 1}
	for _, g := range c.groups {
		show := func(m measure) string { return spreadText(g.spread(m), g.doubtful) }
		t.rows = append(t.rows, []string{
			g.target, runsText(g), show(throughput),
			show(latency(p50)), show(latency(p99)), show(latency(p999)), show(perOperation), failuresText(g),
		})
	}
	return t
}

// costTable shows the processor time by user, and the memory of each target.
func costTable(c caseGroups) table {
	t := table{head: []string{"Target", "Target's cores", "Generator's", "Neighbours'", "Memory"}, left: 1}
	for _, g := range c.groups {
		t.rows = append(t.rows, []string{
			g.target,
			medianText(g, cores(func(c result.CPU) float64 { return c.Target }), fixed2),
			medianText(g, cores(func(c result.CPU) float64 { return c.Generator }), fixed2),
			medianText(g, cores(func(c result.CPU) float64 { return c.Neighbours }), fixed2),
			medianText(g, resident, func(v float64) string { return bytesSize(uint64(v)) }),
		})
	}
	return t
}

func runsText(g group) string {
	switch {
	case g.doubtful:
		return fmt.Sprintf("0 of %d", len(g.runs))
	case len(g.counted) < len(g.runs):
		return fmt.Sprintf("%d of %d", len(g.counted), len(g.runs))
	}
	return fmt.Sprint(len(g.runs))
}

// cores measures one part of the split. A run in which no process used the processor was
// not measured.
func cores(of func(result.CPU) float64) measure {
	return func(r result.Run) (float64, bool) {
		return of(r.CPU), r.CPU.Target > 0 || r.CPU.Generator > 0 || r.CPU.Neighbours > 0
	}
}

func medianText(g group, m measure, show func(float64) string) string {
	s := g.spread(m)
	switch {
	case s.Runs == 0:
		return none
	case g.doubtful:
		return "(" + show(s.Median) + ")"
	}
	return show(s.Median)
}

func failuresText(g group) string {
	var sum int64
	for _, r := range g.counted {
		sum += r.Failures
	}
	if g.doubtful {
		return "(" + whole(float64(sum)) + ")"
	}
	return whole(float64(sum))
}

// notes lists the runs that were left out, and why operations failed.
func notes(c caseGroups) []string {
	var out []string
	for _, g := range c.groups {
		for _, r := range g.runs {
			if r.Invalid == "" {
				continue
			}
			fate := "left out of the medians"
			if g.doubtful {
				fate = "shown in parentheses, no run being valid"
			}
			out = append(out, fmt.Sprintf("Invalid: %s, repeat %d, %s (%s op/s, p99 %s ms): %s.",
				g.target, r.Repeat, fate, number(r.PerSecond), number(r.Latency.P99), strings.TrimRight(r.Invalid, ". \n")))
		}
		for _, r := range g.runs {
			if r.Failures > 0 {
				out = append(out, fmt.Sprintf("Failures: %s, repeat %d: %s.", g.target, r.Repeat, reasons(r)))
			}
		}
	}
	return append(out, shortfalls(c)...)
}

func reasons(r result.Run) string {
	words := slices.Collect(maps.Keys(r.Reasons))
	slices.SortFunc(words, func(a, b string) int {
		if r.Reasons[a] != r.Reasons[b] {
			return int(min(1, max(-1, r.Reasons[b]-r.Reasons[a])))
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(words)+1)
	var named int64
	for _, w := range words {
		named += r.Reasons[w]
		parts = append(parts, whole(float64(r.Reasons[w]))+" × "+w)
	}
	if named < r.Failures {
		parts = append(parts, whole(float64(r.Failures-named))+" without a reason")
	}
	return strings.Join(parts, ", ")
}

// keptUp is the smallest share of the offered rate that counts as keeping up.
const keptUp = 0.98

func shortfalls(c caseGroups) []string {
	var out []string
	for _, g := range c.groups {
		s := g.spread(throughput)
		if c.Rate > 0 && c.Scenario != "overload" && s.Runs > 0 && s.Median < keptUp*c.Rate {
			out = append(out, fmt.Sprintf("Behind: %s answered %s of the %s offered each second (median).", g.target, number(s.Median), plain(c.Rate)))
		}
	}
	return out
}

// partsTable shows latencies besides the main one: the time from the actual sending in an
// open loop, and the parts that a scenario names.
func partsTable(c caseGroups) table {
	t := table{head: []string{"Target", "Part", "p50, ms", "p99, ms", "p99.9, ms", "Greatest, ms"}, left: 2}
	for _, g := range c.groups {
		add := func(name string, of func(part func(result.Latency) float64) measure) {
			row := []string{g.target, name}
			for _, part := range []func(result.Latency) float64{p50, p99, p999, longest} {
				row = append(row, spreadText(g.spread(of(part)), g.doubtful))
			}
			t.rows = append(t.rows, row)
		}
		if c.Rate > 0 {
			add("from the real sending", service)
		}
		for _, name := range names(g, func(r result.Run) map[string]result.Latency { return r.Parts }) {
			add(name, func(part func(result.Latency) float64) measure { return partOf(name, part) })
		}
	}
	return t
}

func figureTable(c caseGroups) table {
	t := table{head: []string{"Target", "Figure", "Value"}, left: 2}
	for _, g := range c.groups {
		for _, name := range names(g, func(r result.Run) map[string]float64 { return r.Figures }) {
			t.rows = append(t.rows, []string{g.target, name, spreadText(g.spread(figure(name)), g.doubtful)})
		}
	}
	return t
}

// names returns the keys of all counted runs of the group, sorted.
func names[V any](g group, of func(result.Run) map[string]V) []string {
	seen := map[string]bool{}
	for _, r := range g.counted {
		for name := range of(r) {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
