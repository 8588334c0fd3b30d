package report

import (
	"cmp"
	"slices"

	"parley/bench/result"
)

// Case is one combination of parameters that every target runs.
type Case struct {
	Scenario string
	// Clients is the number of concurrent connections.
	Clients int
	// Rate is the arrivals per second of an open loop; 0 is a closed loop.
	Rate float64
	// Window and Size are as in result.Run.
	Window float64
	Size   int64
}

// CaseOf returns the case that a run belongs to.
func CaseOf(run result.Run) Case {
	return Case{Scenario: run.Scenario, Clients: run.Clients, Rate: run.Rate, Window: run.Window, Size: run.Size}
}

// String returns the name of the case, as headings show it.
func (c Case) String() string {
	loop := "closed loop"
	if c.Rate > 0 {
		loop = "open loop at " + plain(c.Rate) + "/s"
	}
	text := c.Scenario + ", " + clientsText(c.Clients) + ", " + loop
	if c.Window > 0 {
		text += ", " + plain(c.Window) + " s"
	}
	if c.Size > 0 {
		text += ", at " + whole(float64(c.Size))
	}
	return text
}

func clientsText(n int) string {
	if n == 1 {
		return "1 client"
	}
	return whole(float64(n)) + " clients"
}

// Spread is a quantity over the repeats of one case.
type Spread struct {
	// Runs is the number of repeats; if it is 0, there is no value.
	Runs             int
	Median, Min, Max float64
}

// NewSpread returns the median, the minimum and the maximum of values. The median of an
// even number of values is the mean of the middle two.
func NewSpread(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{
		Runs:   n,
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Min:    sorted[0],
		Max:    sorted[n-1],
	}
}

// group holds the runs of one target in one case.
type group struct {
	target string
	// runs are all repeats in their order.
	runs []result.Run
	// counted are the runs that enter medians: the valid ones, or all if none is valid.
	counted []result.Run
	// doubtful reports that no repeat was valid, so that the medians prove nothing.
	doubtful bool
}

// caseGroups is one case with the targets that ran it.
type caseGroups struct {
	Case
	groups []group
}

// targets returns the names in the order in which they first ran. The first is ours.
func targets(r *result.Report) []string {
	var names []string
	for _, run := range r.Runs {
		if !slices.Contains(names, run.Target) {
			names = append(names, run.Target)
		}
	}
	return names
}

// byCase groups the runs by case. Scenarios and targets keep the order in which they
// first ran. Within a scenario the closed loops come first, then the rates, each sorted
// by clients.
func byCase(r *result.Report) []caseGroups {
	var scenarios []string
	runs := map[Case][]result.Run{}
	for _, run := range r.Runs {
		c := CaseOf(run)
		if !slices.Contains(scenarios, c.Scenario) {
			scenarios = append(scenarios, c.Scenario)
		}
		runs[c] = append(runs[c], run)
	}
	names := targets(r)
	var out []caseGroups
	for c, of := range runs {
		one := caseGroups{Case: c}
		for _, name := range names {
			if g, ok := newGroup(name, of); ok {
				one.groups = append(one.groups, g)
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b caseGroups) int {
		return cmp.Or(
			cmp.Compare(slices.Index(scenarios, a.Scenario), slices.Index(scenarios, b.Scenario)),
			cmp.Compare(a.Size, b.Size),
			openLast(a.Rate, b.Rate),
			cmp.Compare(a.Window, b.Window),
			cmp.Compare(a.Clients, b.Clients),
			cmp.Compare(a.Rate, b.Rate),
		)
	})
	return out
}

func openLast(a, b float64) int {
	switch {
	case (a > 0) == (b > 0):
		return 0
	case a > 0:
		return 1
	}
	return -1
}

func newGroup(target string, runs []result.Run) (group, bool) {
	g := group{target: target}
	for _, run := range runs {
		if run.Target != target {
			continue
		}
		g.runs = append(g.runs, run)
		if run.Invalid == "" {
			g.counted = append(g.counted, run)
		}
	}
	slices.SortStableFunc(g.runs, func(a, b result.Run) int { return cmp.Compare(a.Repeat, b.Repeat) })
	slices.SortStableFunc(g.counted, func(a, b result.Run) int { return cmp.Compare(a.Repeat, b.Repeat) })
	if len(g.counted) == 0 {
		g.counted, g.doubtful = g.runs, true
	}
	return g, len(g.runs) > 0
}

// measure returns one quantity of a run; ok is false if the run does not have it. A value
// that is not finite counts as missing.
type measure func(result.Run) (value float64, ok bool)

func throughput(r result.Run) (float64, bool) { return r.PerSecond, true }

// perOperation returns false if the target's processes could not be observed.
func perOperation(r result.Run) (float64, bool) { return r.CPU.PerOperation, r.CPU.PerOperation > 0 }

func latency(of func(result.Latency) float64) measure {
	return func(r result.Run) (float64, bool) { return of(r.Latency), r.Latency.Count > 0 }
}

// service measures the time from the actual sending.
func service(of func(result.Latency) float64) measure {
	return func(r result.Run) (float64, bool) { return of(r.Service), r.Service.Count > 0 }
}

// partOf measures a part of an operation.
func partOf(name string, of func(result.Latency) float64) measure {
	return func(r result.Run) (float64, bool) {
		l, there := r.Parts[name]
		return of(l), there && l.Count > 0
	}
}

func figure(name string) measure {
	return func(r result.Run) (float64, bool) {
		v, ok := r.Figures[name]
		return v, ok
	}
}

func resident(r result.Run) (float64, bool) { return float64(r.Resident), r.Resident > 0 }

func p50(l result.Latency) float64     { return l.P50 }
func p99(l result.Latency) float64     { return l.P99 }
func p999(l result.Latency) float64    { return l.P999 }
func longest(l result.Latency) float64 { return l.Max }

func (g group) spread(m measure) Spread {
	var values []float64
	for _, run := range g.counted {
		if v, ok := m(run); ok && finite(v) {
			values = append(values, v)
		}
	}
	return NewSpread(values)
}

// Ratio compares one quantity of our target with that of another target.
type Ratio struct {
	// OfMedians is the ratio of the two medians; 0 if either has no value.
	OfMedians float64
	// Paired is the spread of the ratios of repeats with the same number, which ran one
	// after the other under the same conditions.
	Paired Spread
	// Doubtful reports that one side has no valid run.
	Doubtful bool
}

func ratio(ours, other group, m measure) Ratio {
	out := Ratio{Doubtful: ours.doubtful || other.doubtful}
	a, b := ours.spread(m), other.spread(m)
	if a.Runs > 0 && b.Runs > 0 && b.Median > 0 {
		out.OfMedians = a.Median / b.Median
	}
	var pairs []float64
	for _, mine := range ours.counted {
		at := slices.IndexFunc(other.counted, func(r result.Run) bool { return r.Repeat == mine.Repeat })
		if at < 0 {
			continue
		}
		x, okX := m(mine)
		y, okY := m(other.counted[at])
		if okX && okY && y > 0 && finite(x/y) {
			pairs = append(pairs, x/y)
		}
	}
	out.Paired = NewSpread(pairs)
	return out
}
