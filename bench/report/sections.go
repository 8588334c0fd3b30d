package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/bench/result"
)

func newSection(c caseGroups) section {
	s := section{caseGroups: c, tables: []table{runTable(c)}, notes: notes(c)}
	for _, t := range []table{partTable(c), figureTable(c), costTable(c)} {
		if len(t.rows) > 0 {
			s.tables = append(s.tables, t)
		}
	}
	return s
}

func runTable(c caseGroups) table {
	t := table{
		caption: "Results",
		head:    []string{"Target", "Runs", "op/s", "p50, ms", "p99, ms", "p99.9, ms", "CPU per op, µs", "Failures"}, left: 1,
	}
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
	t := table{
		caption: "Processor, in cores, and memory",
		head:    []string{"Target", "Target's cores", "Generator's", "Neighbours'", "Memory"}, left: 1,
	}
	for _, g := range c.groups {
		t.rows = append(t.rows, []string{
			g.target,
			cores(g, func(c result.CPU) float64 { return c.Target }),
			cores(g, func(c result.CPU) float64 { return c.Generator }),
			cores(g, func(c result.CPU) float64 { return c.Neighbours }),
			residentText(g),
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

// cores formats one part of the split. A run in which no process used the processor was
// not measured, and shows nothing.
func cores(g group, of func(result.CPU) float64) string {
	s := g.spread(func(r result.Run) (float64, bool) {
		seen := r.CPU.Target > 0 || r.CPU.Generator > 0 || r.CPU.Neighbours > 0
		return of(r.CPU), seen
	})
	if s.Runs == 0 {
		return none
	}
	text := fmt.Sprintf("%.2f", s.Median)
	if g.doubtful {
		return "(" + text + ")"
	}
	return text
}

func residentText(g group) string {
	s := g.spread(func(r result.Run) (float64, bool) { return float64(r.Resident), r.Resident > 0 })
	if s.Runs == 0 {
		return none
	}
	text := bytesSize(uint64(s.Median))
	if g.doubtful {
		return "(" + text + ")"
	}
	return text
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
		if c.Rate > 0 && c.Scenario != scenarioOverload && s.Runs > 0 && s.Median < keptUp*c.Rate {
			out = append(out, fmt.Sprintf("Behind: %s answered %s of the %s offered each second (median).", g.target, number(s.Median), plain(c.Rate)))
		}
	}
	return out
}

// partTable shows latencies besides the main one: the time from the actual sending in an
// open loop, and the parts that a scenario names.
func partTable(c caseGroups) table {
	t := table{
		caption: "Parts of an operation",
		head:    []string{"Target", "Part", "p50, ms", "p99, ms", "p99.9, ms", "Greatest, ms"}, left: 2,
	}
	for _, g := range c.groups {
		add := func(name string, of func(result.Run) (result.Latency, bool)) {
			show := func(part func(result.Latency) float64) string {
				return spreadText(g.spread(func(r result.Run) (float64, bool) {
					l, ok := of(r)
					return part(l), ok && l.Count > 0
				}), g.doubtful)
			}
			greatest := func(l result.Latency) float64 { return l.Max }
			t.rows = append(t.rows, []string{g.target, name, show(p50), show(p99), show(p999), show(greatest)})
		}
		if c.Rate > 0 {
			add("from the real sending", func(r result.Run) (result.Latency, bool) { return r.Service, true })
		}
		for _, name := range names(g, func(r result.Run) map[string]result.Latency { return r.Laps }) {
			add(name, func(r result.Run) (result.Latency, bool) {
				l, ok := r.Laps[name]
				return l, ok
			})
		}
	}
	return t
}

func figureTable(c caseGroups) table {
	t := table{caption: "Further figures", head: []string{"Target", "Figure", "Value"}, left: 2}
	for _, g := range c.groups {
		for _, name := range names(g, func(r result.Run) map[string]float64 { return r.Figures }) {
			s := g.spread(func(r result.Run) (float64, bool) {
				v, ok := r.Figures[name]
				return v, ok
			})
			t.rows = append(t.rows, []string{g.target, name, spreadText(s, g.doubtful)})
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
