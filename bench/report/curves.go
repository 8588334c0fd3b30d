package report

import (
	"fmt"
	"slices"

	"parley/bench/result"
)

// seriesPlot draws one quantity second by second, with a thin line for each repeat. The
// line of an invalid repeat is dotted.
type seriesPlot struct {
	title, unit string
	of          func(result.Second) float64
	// logarithmic plots omit seconds without a value.
	logarithmic bool
}

var (
	seriesRate = seriesPlot{
		"Operations in each second", "operations per second",
		func(s result.Second) float64 { return float64(s.Operations) }, false,
	}
	seriesTail = seriesPlot{
		"p99 of each second", "p99 latency, ms",
		func(s result.Second) float64 { return s.P99 }, true,
	}
)

// value returns the value of a second, or 0 if it has none that can be drawn.
func (p seriesPlot) value(s result.Second) float64 {
	if v := p.of(s); finite(v) {
		return v
	}
	return 0
}

func (p seriesPlot) draw(id string, names []string, c caseGroups) string {
	long, low, high, failures := 0, 0.0, 0.0, false
	for _, g := range c.groups {
		for _, r := range g.runs {
			long = max(long, len(r.Series))
			for _, second := range r.Series {
				v := p.value(second)
				high = max(high, v)
				if v > 0 && (low == 0 || v < low) {
					low = v
				}
				failures = failures || second.Failures > 0
			}
		}
	}
	if long < 2 || high == 0 {
		return ""
	}
	description := "Every repeat is one line; invalid repeats are dotted."
	if failures {
		description += " A cross marks a second in which operations failed."
	}
	s := newSheet(id, p.title+": "+c.String(), description, entries(names, c.groups))
	y := linear(p.unit, s.bottom, s.top, high, 5)
	if p.logarithmic {
		y = logarithmic(p.unit, s.bottom, s.top, low, high)
	}
	x := span("seconds since the measured window began", plotLeft, plotRight, float64(long), 10)
	s.frame(x, y)
	for _, g := range c.groups {
		for _, r := range g.runs {
			s.repeat(p, x, y, slices.Index(names, g.target), r)
		}
	}
	if failures {
		s.text("small bad", "end", plotRight, s.bottom-8, "× failures in that second")
	}
	return s.done()
}

func (s sheet) repeat(p seriesPlot, x, y axis, n int, r result.Run) {
	class := fmt.Sprintf("thin c%d", n%colours)
	if r.Invalid != "" {
		class += " dotted"
	}
	var stretch []spot
	for i, second := range r.Series {
		at := spot{x.at(float64(i + 1)), y.at(p.value(second))}
		if second.Failures > 0 {
			s.text("small bad", "middle", at.x, at.y+4, "×")
		}
		if p.logarithmic && p.value(second) <= 0 {
			s.path("polyline", class, stretch)
			stretch = nil
			continue
		}
		stretch = append(stretch, at)
	}
	s.path("polyline", class, stretch)
}

// ladder is the set of open-loop cases of one scenario that differ only in their rate.
type ladder struct {
	scenario string
	clients  int
	rungs    []caseGroups
}

// ladders returns the scenarios that were run at several rates.
func ladders(cases []caseGroups) []ladder {
	var out []ladder
	for _, c := range cases {
		if c.Rate <= 0 {
			continue
		}
		at := slices.IndexFunc(out, func(l ladder) bool { return l.scenario == c.Scenario && l.clients == c.Clients })
		if at < 0 {
			at = len(out)
			out = append(out, ladder{scenario: c.Scenario, clients: c.Clients})
		}
		out[at].rungs = append(out[at].rungs, c)
	}
	return slices.DeleteFunc(out, func(l ladder) bool { return len(l.rungs) < 2 })
}

// rung is one target at one rate.
type rung struct {
	rate float64
	p99  Spread
	// proven reports whether there are valid runs.
	proven bool
	// behind reports whether fewer operations were answered than offered.
	behind bool
}

func rungs(l ladder, target string) []rung {
	var out []rung
	for _, c := range l.rungs {
		for _, g := range c.groups {
			s := g.spread(latency(p99))
			if g.target == target && s.Runs > 0 && s.Min > 0 {
				out = append(out, rung{c.Rate, s, !g.doubtful, g.spread(throughput).Median < keptUp*c.Rate})
			}
		}
	}
	return out
}

func (l ladder) title() string {
	c := Case{Scenario: l.scenario, Clients: l.clients}
	return "p99 by offered rate: " + c.Scenario + ", " + clientsText(c.Clients)
}

// draw plots p99 against the offered rate. A ring around a mark means that the target did
// not keep up; a hollow mark means that no run was valid.
func (l ladder) draw(id string, names []string) string {
	lines := map[string][]rung{}
	var legend []entry
	low, high, top := 0.0, 0.0, 0.0
	for n, name := range names {
		line := rungs(l, name)
		if len(line) == 0 {
			continue
		}
		lines[name] = line
		legend = append(legend, entry{n: n, name: name})
		for _, g := range line {
			high, top = max(high, g.p99.Max), max(top, g.rate)
			if low == 0 || g.p99.Min < low {
				low = g.p99.Min
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	s := newSheet(id, l.title(), "Latency from the intended start at each offered rate, with least and greatest over the repeats. "+
		"A ring says that the target answered fewer than were offered; a hollow mark that no run was valid.", legend)
	x := linear("offered operations per second", plotLeft, plotRight, top, 8)
	y := logarithmic("p99 latency, ms", s.bottom, s.top, low, high)
	s.frame(x, y)
	for n, name := range names {
		var way []spot
		for _, g := range lines[name] {
			at := spot{x.at(g.rate), y.at(g.p99.Median)}
			way = append(way, at)
			if g.p99.Runs > 1 {
				s.line(fmt.Sprintf("thin c%d", n%colours), at.x, y.at(g.p99.Min), at.x, y.at(g.p99.Max))
			}
		}
		s.path("polyline", ink(n), way)
		for i, g := range lines[name] {
			s.mark(n, way[i], !g.proven)
			if g.behind {
				fmt.Fprintf(&s.b, "<circle class=\"ring\" cx=\"%s\" cy=\"%s\" r=\"8\"/>\n", xy(way[i].x), xy(way[i].y))
			}
		}
	}
	return s.done()
}
