package report

import (
	"math"
	"strconv"
)

// tick is a labelled position on an axis.
type tick struct {
	at    float64
	label string
}

// axis maps values to coordinates in a drawing.
type axis struct {
	label string
	// from and to are the coordinates of low and high.
	from, to  float64
	low, high float64
	// A logarithmic axis has a low above zero.
	logarithmic bool
	// nought, if above zero, is the coordinate of the separate zero of a logarithmic
	// axis.
	nought float64
	ticks  []tick
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.nought > 0 && v <= 0 {
		return a.nought
	}
	if a.logarithmic {
		v, low, high = math.Log10(max(v, a.low)), math.Log10(low), math.Log10(high)
	}
	share := min(1, max(0, (v-low)/(high-low)))
	return a.from + share*(a.to-a.from)
}

// linear returns an axis from zero to a round number that is at least top.
func linear(label string, from, to, top float64, most int) axis {
	if top <= 0 || !finite(top) {
		top = 1
	}
	step := roundStep(top / float64(most))
	count := int(math.Ceil(top/step - 1e-9))
	a := axis{label: label, from: from, to: to, high: float64(count) * step}
	for i := range count + 1 {
		v := float64(i) * step
		a.ticks = append(a.ticks, tick{v, tickLabel(v)})
	}
	return a
}

// span returns an axis from zero to exactly top, as used for time.
func span(label string, from, to, top float64, most int) axis {
	a := linear(label, from, to, top, most)
	a.high = max(top, 1e-9)
	for len(a.ticks) > 1 && a.ticks[len(a.ticks)-1].at > a.high {
		a.ticks = a.ticks[:len(a.ticks)-1]
	}
	return a
}

// roundStep returns the smallest of 1, 2 or 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic returns an axis from low to high, rounded outwards to 1, 2 or 5 times a
// power of ten. Both must be above zero.
func logarithmic(label string, from, to, low, high float64) axis {
	low = min(max(low, 1e-6), 1e12)
	high = min(max(high, low), 1e12)
	var marks []float64
	for exponent := math.Floor(math.Log10(low)) - 1; exponent <= math.Ceil(math.Log10(high))+1; exponent++ {
		for _, m := range []float64{1, 2, 5} {
			marks = append(marks, m*math.Pow(10, exponent))
		}
	}
	first, last := 0, len(marks)-1
	for marks[first+1] <= low*(1+1e-9) {
		first++
	}
	for marks[last-1] >= high*(1-1e-9) && last-1 > first {
		last--
	}
	a := axis{label: label + " (log scale)", from: from, to: to, low: marks[first], high: marks[last], logarithmic: true}
	for i := first; i <= last; i++ {
		if last-first > 9 && i%3 != 0 {
			continue
		}
		a.ticks = append(a.ticks, tick{marks[i], tickLabel(marks[i])})
	}
	return a
}

// tickLabel formats a value without the rounding error of adding steps.
func tickLabel(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return none
	}
	if math.Abs(rounded) < 1 {
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return plain(rounded)
}

// nines maps a percentile so that each further nine is one step to the right.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// percentileTicks are the percentiles that get a label and a tick.
var percentileTicks = []float64{50, 90, 99, 99.9, 99.99}

func percentileAxis(from, to float64) axis {
	a := axis{
		label: "percentile of operations (each further nine: ten times rarer)",
		from:  from, to: to, low: nines(50), high: nines(99.99),
	}
	for _, p := range percentileTicks {
		a.ticks = append(a.ticks, tick{nines(p), strconv.FormatFloat(p, 'f', -1, 64)})
	}
	return a
}

// frame draws both axes with their grids, labels and units.
func (d *drawing) frame(x, y axis) {
	left := x.from
	if x.nought > 0 {
		left = x.nought
	}
	for _, t := range y.ticks {
		d.line("grid", left, y.at(t.at), x.to, y.at(t.at))
		d.text("small", "end", left-7, y.at(t.at)+4, t.label)
	}
	for _, t := range x.ticks {
		d.line("grid", x.at(t.at), y.from, x.at(t.at), y.to)
		d.text("small", "middle", x.at(t.at), y.from+17, t.label)
	}
	d.line("axis", left, y.from, x.to, y.from)
	d.line("axis", left, y.from, left, y.to)
	d.text("label", "middle", (left+x.to)/2, y.from+36, x.label)
	d.textUp("label", 13, (y.from+y.to)/2, y.label)
}
