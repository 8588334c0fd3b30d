package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the plots

	"parley/bench/result"
)

const (
	plotWidth  = 14 * vg.Centimeter
	plotHeight = 8 * vg.Centimeter
)

// drawing is one plot as SVG. Its title is also the text for readers who do not see it.
type drawing struct {
	file, title string
	svg         []byte
}

// draw draws the latencies of each case, and each growth curve.
func draw(r *result.Report) ([]drawing, error) {
	var all []drawing
	add := func(file, title string, p *plot.Plot, lines []any) error {
		if len(lines) == 0 {
			return nil
		}
		p.Title.Text = title
		p.Add(plotter.NewGrid())
		if err := plotutil.AddLinePoints(p, lines...); err != nil {
			return fmt.Errorf("plot %s: %w", title, err)
		}
		if _, logarithmic := p.Y.Scale.(plot.LogScale); logarithmic { // an axis of one value would reach zero
			p.Y.Min, p.Y.Max = p.Y.Min*0.9, p.Y.Max*1.1
		} else {
			p.Y.Min = 0
		}
		to, err := p.WriterTo(plotWidth, plotHeight, "svg")
		if err != nil {
			return err
		}
		var svg bytes.Buffer
		if _, err := to.WriteTo(&svg); err != nil {
			return err
		}
		all = append(all, drawing{file, title, svg.Bytes()})
		return nil
	}
	grown, others := growths(byCase(r))
	for i, c := range others {
		p := plot.New()
		if err := add(fmt.Sprintf("latency-%d.svg", i+1), "Latency: "+c.String(), p, latencyLines(p, c)); err != nil {
			return nil, err
		}
	}
	for i, g := range grown {
		for k, chart := range growthCharts {
			p := plot.New()
			if err := add(fmt.Sprintf("growth-%d-%d.svg", i+1, k+1), chart.title+" by "+g.growing, p, chart.lines(p, g)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// latencyLines sets the axes for latency by percentile, and returns a line for each target.
func latencyLines(p *plot.Plot, c caseGroups) (lines []any) {
	p.X.Label.Text, p.Y.Label.Text = "percentile of operations", "latency, ms"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	var ticks plot.ConstantTicks
	for _, percentile := range []float64{50, 90, 99, 99.9, 99.99} {
		ticks = append(ticks, plot.Tick{Value: nines(percentile), Label: plain(percentile)})
	}
	p.X.Tick.Marker = ticks
	for _, g := range c.groups {
		if curve := curveOf(g); len(curve) > 0 {
			lines = append(lines, printable(g.target), curve)
		}
	}
	return lines
}

// nines maps a percentile so that each further nine is one step to the right.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// curveOf returns the medians over the repeats at each percentile from 50 on that all of them have.
// Curves have the same percentiles; longer runs have more of them.
func curveOf(g group) (curve plotter.XYs) {
	for i := 0; ; i++ {
		var values []float64
		percentile := 0.0
		for _, run := range g.counted {
			if i < len(run.Latency.Curve) && run.Latency.Curve[i].Percentile < 100 {
				percentile = run.Latency.Curve[i].Percentile
				values = append(values, run.Latency.Curve[i].Ms)
			}
		}
		if len(values) < len(g.counted) || len(values) == 0 {
			return curve
		}
		if v := NewSpread(values).Median; percentile >= 50 && finite(v) && v > 0 {
			curve = append(curve, plotter.XY{X: nines(percentile), Y: v})
		}
	}
}

// growthChart is a plot of quantities by size.
type growthChart struct {
	title, unit string
	// by is the divisor of values for the axis.
	by         float64
	quantities []quantity
}

var growthCharts = []growthChart{
	{"Throughput", "operations per second", 1, []quantity{{name: "op/s", of: throughput}}},
	{"Memory", "MiB", 1 << 20, []quantity{
		{name: "resident", of: resident},
		{name: "with active agents", of: figure("resident_active_bytes")},
		{name: "restarted, with active agents", of: figure("resident_restarted_bytes")},
	}},
	{"Bytes on the disk", "bytes", 1, []quantity{
		{name: "per agent", of: figure("disk_bytes_per_agent")},
		{name: "per message", of: figure("disk_bytes_per_message")},
	}},
	{"Inbox pages", "p50, ms", 1, []quantity{
		{name: "first page", of: figure("first_page_p50_ms")},
		{name: "deep page", of: figure("deep_page_p50_ms")},
	}},
	{"Restart", "seconds", 1, []quantity{
		{name: "after SIGTERM", of: figure("restart_term_seconds")},
		{name: "after SIGKILL", of: figure("restart_kill_seconds")},
	}},
}

// lines sets the axes, and returns a line for each quantity of each target. Size is on a logarithmic
// scale, on which an empty server is where one of size 1 would be.
func (c growthChart) lines(p *plot.Plot, g growth) (lines []any) {
	p.X.Label.Text, p.Y.Label.Text = g.growing+" (log scale)", c.unit
	var ticks plot.ConstantTicks
	for _, step := range g.steps {
		ticks = append(ticks, plot.Tick{Value: decades(step.Size), Label: whole(float64(step.Size))})
	}
	p.X.Tick.Marker = ticks
	for _, target := range g.targets() {
		for _, q := range c.quantities {
			var points plotter.XYs
			for _, step := range g.steps {
				of, there := step.of(target)
				if s := of.spread(q.of); there && s.Runs > 0 {
					points = append(points, plotter.XY{X: decades(step.Size), Y: s.Median / c.by})
				}
			}
			if len(points) > 1 {
				lines = append(lines, strings.TrimSpace(printable(target)+" "+q.name), points)
			}
		}
	}
	return lines
}

func decades(size int64) float64 { return math.Log10(float64(max(size, 1))) }
