package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"parley/bench/result"
)

// Every plot has this width: about the width it gets on a page with two plots side by
// side, so that its text appears at about its nominal size.
const (
	plotWidth  = 560.0
	plotLeft   = 72.0
	plotRight  = plotWidth - 22
	plotInside = 210.0
)

// sheet is the layout that all plots except the bars share.
type sheet struct {
	*drawing
	bottom, top float64
}

func newSheet(id, title, description string, entries []entry) sheet {
	const above = 20
	legend := legendHeight(plotLeft, above, plotWidth, entries)
	top := above + legend - 6
	s := sheet{bottom: top + plotInside, top: top}
	s.drawing = newDrawing(id, plotWidth, s.bottom+46, title, description)
	s.legend(plotLeft, above, entries)
	return s
}

// entries returns the legend of a case. The number of a target is its position among all
// targets, so that it has one colour on the whole page.
func entries(names []string, groups []group) []entry {
	var out []entry
	for _, g := range groups {
		out = append(out, entry{n: slices.Index(names, g.target), name: g.target, hollow: g.doubtful})
	}
	return out
}

// told describes every group's spread in words, for readers who do not see the plot.
func told(groups []group, m measure, unit string) string {
	var parts []string
	for _, g := range groups {
		parts = append(parts, g.target+": "+spreadText(g.spread(m), g.doubtful)+" "+unit)
	}
	return strings.Join(parts, "; ")
}

// bars draws throughput as bars from zero, with the spread as a whisker.
func bars(id string, names []string, c caseGroups) string {
	const row, above = 34.0, 12.0
	longest, top := 0, c.Rate
	for _, g := range c.groups {
		longest = max(longest, min(20, len([]rune(g.target))))
		top = max(top, g.spread(throughput).Max)
	}
	left := 16 + glyph*1.05*float64(longest)
	bottom := above + row*float64(len(c.groups))
	d := newDrawing(id, plotWidth, bottom+46, "Throughput: "+c.String(),
		"Operations per second, median with least and greatest. "+told(c.groups, throughput, "op/s"))
	x := linear("operations per second", left, plotWidth-160, top, 4)
	for _, t := range x.ticks {
		d.line("grid", x.at(t.at), above, x.at(t.at), bottom)
		d.text("small", "middle", x.at(t.at), bottom+17, t.label)
	}
	d.text("label", "middle", (x.from+x.to)/2, bottom+36, x.label)
	for i, g := range c.groups {
		s, y, n := g.spread(throughput), above+row*(float64(i)+0.5), slices.Index(names, g.target)
		class := fmt.Sprintf("bar c%d", n%colours)
		if g.doubtful {
			class = fmt.Sprintf("void c%d", n%colours)
		}
		d.rect(class, left, y-9, x.at(s.Median)-left, 18)
		if s.Runs > 1 {
			d.line("whisker", x.at(s.Min), y, x.at(s.Max), y)
			d.line("whisker", x.at(s.Min), y-5, x.at(s.Min), y+5)
			d.line("whisker", x.at(s.Max), y-5, x.at(s.Max), y+5)
		}
		d.text("small", "end", left-8, y+4, cut(printable(g.target), 20))
		d.text("small", "start", x.at(s.Max)+9, y+4, spreadText(s, g.doubtful))
	}
	d.line("axis", left, above, left, bottom)
	if c.Rate > 0 {
		d.line("offered", x.at(c.Rate), above-6, x.at(c.Rate), bottom)
		d.text("small", "end", x.at(c.Rate)-4, above-1, "offered")
	}
	return d.done()
}

// quantile returns the time that percentile percent of the operations did not exceed. It
// returns false if no operation was slower.
func quantile(l result.Latency, percentile float64) (float64, bool) {
	curve := curveOf(l)
	at := sort.Search(len(curve), func(i int) bool { return curve[i].Percentile >= percentile-1e-9 })
	if at == len(curve) || float64(l.Count)*(1-percentile/100) < 1-1e-6 {
		return 0, false
	}
	return curve[at].Ms, true
}

func curveOf(l result.Latency) []result.Point {
	if len(l.Curve) > 0 {
		return l.Curve
	}
	return []result.Point{{Percentile: 50, Ms: l.P50}, {Percentile: 90, Ms: l.P90}, {Percentile: 99, Ms: l.P99}, {Percentile: 99.9, Ms: l.P999}}
}

// curve returns a group's latency by percentile: the spread over its runs at each
// percentile for which every run has at least one slower operation.
func curve(g group) (percentiles []float64, spreads []Spread) {
	grid := slices.Clone(percentileTicks)
	for _, r := range g.counted {
		for _, p := range curveOf(r.Latency) {
			if p.Percentile > 50 && p.Percentile < 99.99 {
				grid = append(grid, p.Percentile)
			}
		}
	}
	slices.Sort(grid)
	for _, p := range slices.Compact(grid) {
		s := g.spread(func(r result.Run) (float64, bool) { return quantile(r.Latency, p) })
		if s.Runs == len(g.counted) && s.Max > 0 {
			percentiles, spreads = append(percentiles, p), append(spreads, s)
		}
	}
	return percentiles, spreads
}

// distribution draws latency by percentile, one line per target with a band from the
// smallest to the largest repeat. It returns "" if no latency was measured.
func distribution(id string, names []string, c caseGroups) string {
	type line struct {
		group
		percentiles []float64
		spreads     []Spread
	}
	var lines []line
	var shown []group
	low, high := 0.0, 0.0
	for _, g := range c.groups {
		ps, ss := curve(g)
		if len(ps) == 0 {
			continue
		}
		lines, shown = append(lines, line{g, ps, ss}), append(shown, g)
		for _, s := range ss {
			high = max(high, s.Max)
			if s.Min > 0 && (low == 0 || s.Min < low) {
				low = s.Min
			}
		}
	}
	if len(lines) == 0 || low == 0 {
		return ""
	}
	s := newSheet(id, "Latency by percentile: "+c.String(),
		"Median over the repeats, the band from the least to the greatest. At p99: "+told(shown, latency(p99), "ms"), entries(names, shown))
	x, y := percentileAxis(plotLeft, plotRight), logarithmic("latency, ms", s.bottom, s.top, low, high)
	s.frame(x, y)
	for _, l := range lines {
		n := slices.Index(names, l.target)
		var middle, band []spot
		for i, p := range l.percentiles {
			middle = append(middle, spot{x.at(nines(p)), y.at(l.spreads[i].Median)})
			band = append(band, spot{x.at(nines(p)), y.at(l.spreads[i].Max)})
		}
		for i := len(l.percentiles) - 1; i >= 0; i-- {
			band = append(band, spot{x.at(nines(l.percentiles[i])), y.at(l.spreads[i].Min)})
		}
		if len(l.counted) > 1 {
			s.path("polygon", fmt.Sprintf("band c%d", n%colours), band)
		}
		s.path("polyline", ink(n), middle)
		for i, p := range l.percentiles {
			if slices.Contains(percentileTicks, p) {
				s.mark(n, middle[i], l.doubtful)
			}
		}
	}
	return s.done()
}
