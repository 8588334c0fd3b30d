package report

import (
	"slices"
	"strings"

	"parley/bench/result"
)

const growthReading = "Each column is a size that was reached, measured there before going on; the figures are of one run each."

// growth is one scaling curve: the same scenario at several sizes.
type growth struct {
	growing, scenario string
	steps             []caseGroups
}

// String returns the name of the curve.
func (g growth) String() string {
	return "Growing " + g.growing + ": " + g.scenario + ", " + clientsText(g.steps[0].Clients)
}

// growths separates the scaling curves from the other cases. The cases are sorted by
// size.
func growths(cases []caseGroups) (curves []growth, others []caseGroups) {
	for _, c := range cases {
		if c.Growing == "" {
			others = append(others, c)
			continue
		}
		at := slices.IndexFunc(curves, func(g growth) bool { return g.growing == c.Growing && g.scenario == c.Scenario })
		if at < 0 {
			at = len(curves)
			curves = append(curves, growth{growing: c.Growing, scenario: c.Scenario})
		}
		curves[at].steps = append(curves[at].steps, c)
	}
	return curves, others
}

// growthSection is a curve as text and numbers.
type growthSection struct {
	growth
	table table
	notes []string
}

func newGrowthSection(g growth) growthSection {
	s := growthSection{growth: g, table: growthTable(g)}
	for _, step := range g.steps {
		for _, note := range notes(step) {
			s.notes = append(s.notes, "At "+whole(float64(step.Size))+" "+g.growing+": "+note)
		}
	}
	return s
}

// quantity is one row of a growth table.
type quantity struct {
	name string
	of   measure
	show func(float64) string
}

func resident(r result.Run) (float64, bool) { return float64(r.Resident), r.Resident > 0 }

func figure(name string) measure {
	return func(r result.Run) (float64, bool) {
		v, ok := r.Figures[name]
		return v, ok
	}
}

func asBytes(v float64) string { return bytesSize(uint64(max(0, v))) }

// targets returns the targets of the curve, in the order in which they ran.
func (g growth) targets() (all []string) {
	for _, step := range g.steps {
		for _, one := range step.groups {
			if !slices.Contains(all, one.target) {
				all = append(all, one.target)
			}
		}
	}
	return all
}

// growthTable returns a table with a row for each quantity that any size has, and a
// column for each size.
func growthTable(g growth) table {
	targetNames := g.targets()
	t := table{head: []string{"Quantity, by " + g.growing}, left: 1}
	if len(targetNames) > 1 {
		t.head, t.left = append([]string{"Target"}, t.head...), 2
	}
	var figureNames []string
	for _, step := range g.steps {
		t.head = append(t.head, whole(float64(step.Size)))
		for _, one := range step.groups {
			figureNames = append(figureNames, names(one, func(r result.Run) map[string]float64 { return r.Figures })...)
		}
	}
	rows := []quantity{
		{"op/s", throughput, number},
		{"p50, ms", latency(p50), number},
		{"p99, ms", latency(p99), number},
		{"CPU per op, µs", perOperation, number},
		{"resident", resident, asBytes},
	}
	slices.Sort(figureNames)
	for _, name := range slices.Compact(figureNames) {
		show := number
		if strings.HasSuffix(name, "_bytes") {
			show = asBytes
		}
		rows = append(rows, quantity{name, figure(name), show})
	}
	for _, target := range targetNames {
		for _, q := range rows {
			if row, measured := growthRow(g, target, q); measured {
				t.rows = append(t.rows, row[2-t.left:])
			}
		}
	}
	return t
}

func growthRow(g growth, target string, q quantity) (row []string, measured bool) {
	row = []string{target, q.name}
	for _, step := range g.steps {
		text := none
		for _, one := range step.groups {
			s := one.spread(q.of)
			if one.target != target || s.Runs == 0 {
				continue
			}
			measured = true
			if text = q.show(s.Median); one.doubtful {
				text = "(" + text + ")"
			}
		}
		row = append(row, text)
	}
	return row, measured
}
