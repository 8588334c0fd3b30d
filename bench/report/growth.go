package report

import (
	"fmt"
	"slices"
	"strings"

	"parley/bench/result"
)

const growthReading = "Each column is a size that was reached, measured there before going on; the figures are of one run each. " +
	"Sizes stand on a logarithmic scale with zero apart from it, and every other axis begins at zero."

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

// chart is one plot against size, with a line for each of its quantities.
type chart struct {
	title, note, unit string
	// by is the divisor of values for the axis.
	by    float64
	lines []chartLine
}

type chartLine struct {
	name string
	of   measure
}

const mebibyte = 1 << 20

// growthCharts are drawn if they have values.
var growthCharts = []chart{
	{"Throughput by size", "Closed loop. A hollow mark is an invalid run.", "operations per second", 1, []chartLine{{"op/s", throughput}}},
	{"Memory by size", "Resident memory of the server's process.", "MiB", mebibyte, []chartLine{
		{"resident", resident},
		{"with active agents", figure("resident_active_bytes")},
		{"restarted, with active agents", figure("resident_restarted_bytes")},
	}},
	{"Disk by size", "The length of all files in the data directory, divided by the size.", "bytes", 1, []chartLine{
		{"bytes per agent", figure("disk_bytes_per_agent")},
		{"bytes per message", figure("disk_bytes_per_message")},
	}},
	{"Inbox pages by size", "One client; the first page and the deepest one of the same long inbox in turn.", "ms", 1, []chartLine{
		{"first page, p50", figure("first_page_p50_ms")},
		{"deep page, p50", figure("deep_page_p50_ms")},
		{"first page, p99", figure("first_page_p99_ms")},
		{"deep page, p99", figure("deep_page_p99_ms")},
	}},
	{"Restart by size", "From the start of the process to the first 200 on /health.", "seconds", 1, []chartLine{
		{"after SIGTERM", figure("restart_term_seconds")},
		{"after SIGKILL", figure("restart_kill_seconds")},
	}},
}

// chartPoint is one quantity at one size.
type chartPoint struct {
	size, value float64
	hollow      bool
}

func (l chartLine) points(g growth, target string, by float64) (points []chartPoint) {
	for _, step := range g.steps {
		for _, one := range step.groups {
			if s := one.spread(l.of); one.target == target && s.Runs > 0 {
				points = append(points, chartPoint{float64(step.Size), max(0, s.Median/by), one.doubtful})
			}
		}
	}
	return points
}

// draw returns "" if no quantity has two sizes.
func (c chart) draw(id string, g growth) string {
	targets := g.targets()
	var legend []entry
	var lines [][]chartPoint
	var spoken []string
	long, top := 0, 0.0
	for _, target := range targets {
		for _, l := range c.lines {
			points := l.points(g, target, c.by)
			if len(points) == 0 {
				continue
			}
			name := l.name
			if len(targets) > 1 {
				name = target + ": " + name
			}
			legend = append(legend, entry{n: len(lines), name: name})
			lines, long = append(lines, points), max(long, len(points))
			var said []string
			for _, p := range points {
				top = max(top, p.value)
				said = append(said, number(p.value)+" at "+whole(p.size))
			}
			spoken = append(spoken, name+": "+strings.Join(said, ", "))
		}
	}
	if long < 2 {
		return ""
	}
	s := newSheet(id, c.title+", growing "+g.growing, c.note+" In "+c.unit+". "+strings.Join(spoken, "; "), legend)
	x, y := sizeAxis(g), linear(c.unit, s.bottom, s.top, top, 5)
	s.frame(x, y)
	for n, points := range lines {
		var way []spot
		for _, p := range points {
			way = append(way, spot{x.at(p.size), y.at(p.value)})
		}
		s.path("polyline", ink(n), way)
		for i, p := range points {
			s.mark(n, way[i], p.hollow)
		}
	}
	return s.done()
}

// sizeAxis returns a logarithmic axis over the sizes of a curve, with a tick at each
// size. If zero is one of them, it is a little to the left of the others.
func sizeAxis(g growth) axis {
	const apart = 66
	low, high, zero := 0.0, 0.0, false
	for _, step := range g.steps {
		size := float64(step.Size)
		if zero = zero || size <= 0; size <= 0 {
			continue
		}
		if low == 0 {
			low = size
		}
		low, high = min(low, size), max(high, size)
	}
	low = max(low, 1)
	x := axis{
		label: fmt.Sprintf("%s (log scale)", g.growing), logarithmic: true,
		from: plotLeft, to: plotRight - 22, low: low, high: max(high, 10*low),
	}
	if zero {
		x.nought, x.from = plotLeft, plotLeft+apart
		x.ticks = append(x.ticks, tick{0, "0"})
	}
	last := x.from - apart
	for _, step := range g.steps {
		size := float64(step.Size)
		if at := x.at(size); size > 0 && at-last >= apart {
			x.ticks, last = append(x.ticks, tick{size, whole(size)}), at
		}
	}
	return x
}
