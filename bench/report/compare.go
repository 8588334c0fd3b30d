package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/bench/result"
)

// Judgement says whether a change is significant.
type Judgement string

// A change is Better or Worse only if the ranges of both sides do not overlap and the
// medians differ by more than the spread of either side. Anything less is WithinNoise. A
// change is Unproven if one side has a single run, or no valid run.
const (
	Better      Judgement = "better"
	Worse       Judgement = "worse"
	WithinNoise Judgement = "within noise"
	Unproven    Judgement = "not judged"
)

// Comparison lists the changes from report A to report B.
type Comparison struct {
	// Differences lists the circumstances that differ. Any of them may have caused a
	// change.
	Differences []Difference `json:"differences"`
	Changes     []Change     `json:"changes"`
	// OnlyA and OnlyB list what was measured on one side only.
	OnlyA []string `json:"only_a"`
	OnlyB []string `json:"only_b"`
}

// Difference is one circumstance that differs.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Change is one quantity of one target in one case, on both sides.
type Change struct {
	Case     Case   `json:"case"`
	Target   string `json:"target"`
	Quantity string `json:"quantity"`
	A        Spread `json:"a"`
	B        Spread `json:"b"`
	// DoubtfulA and DoubtfulB report that no run of that side was valid.
	DoubtfulA bool      `json:"doubtful_a"`
	DoubtfulB bool      `json:"doubtful_b"`
	Judgement Judgement `json:"judgement"`
	// Why explains a Judgement of Unproven.
	Why string `json:"why,omitempty"`
}

// Percent returns the change of the median in percent of A's; NaN if A has none.
func (c Change) Percent() float64 {
	if c.A.Median == 0 {
		return math.NaN()
	}
	return 100 * (c.B.Median - c.A.Median) / c.A.Median
}

// quantities are compared. more reports whether a higher value is better.
var quantities = []struct {
	name string
	of   measure
	more bool
}{
	{"throughput, op/s", throughput, true},
	{"p50, ms", latency(p50), false},
	{"p99, ms", latency(p99), false},
	{"CPU per operation, µs", perOperation, false},
}

// Compare compares b with a, case by case and target by target, in the order of a.
func Compare(a, b *result.Report) Comparison {
	out := Comparison{Differences: differences(a, b), Changes: []Change{}, OnlyA: []string{}, OnlyB: []string{}}
	before, after := byCase(a), byCase(b)
	for _, c := range before {
		for _, g := range c.groups {
			other, ok := find(after, c.Case, g.target)
			if !ok {
				out.OnlyA = append(out.OnlyA, g.target+": "+c.String())
				continue
			}
			for _, q := range quantities {
				if change, ok := newChange(g, other, q.of, q.more); ok {
					change.Case, change.Target, change.Quantity = c.Case, g.target, q.name
					out.Changes = append(out.Changes, change)
				}
			}
		}
	}
	for _, c := range after {
		for _, g := range c.groups {
			if _, ok := find(before, c.Case, g.target); !ok {
				out.OnlyB = append(out.OnlyB, g.target+": "+c.String())
			}
		}
	}
	return out
}

func find(cases []caseGroups, c Case, target string) (group, bool) {
	for _, one := range cases {
		for _, g := range one.groups {
			if one.Case == c && g.target == target {
				return g, true
			}
		}
	}
	return group{}, false
}

func newChange(a, b group, m measure, more bool) (Change, bool) {
	c := Change{A: a.spread(m), B: b.spread(m), DoubtfulA: a.doubtful, DoubtfulB: b.doubtful}
	if c.A.Runs == 0 || c.B.Runs == 0 {
		return Change{}, false
	}
	switch {
	case a.doubtful && b.doubtful:
		c.Judgement, c.Why = Unproven, "no valid run on either side"
	case a.doubtful:
		c.Judgement, c.Why = Unproven, "no valid run in A"
	case b.doubtful:
		c.Judgement, c.Why = Unproven, "no valid run in B"
	case c.A.Runs < 2 || c.B.Runs < 2:
		c.Judgement, c.Why = Unproven, "a single run shows no spread"
	default:
		c.Judgement = judge(c.A, c.B, more)
	}
	return c, true
}

func judge(a, b Spread, more bool) Judgement {
	apart := b.Min > a.Max || b.Max < a.Min
	if !apart || math.Abs(b.Median-a.Median) <= max(a.Max-a.Min, b.Max-b.Min) {
		return WithinNoise
	}
	if (b.Median > a.Median) == more {
		return Better
	}
	return Worse
}

// differences lists what else differs: the machine, its disk, the versions, the command.
func differences(a, b *result.Report) []Difference {
	out := []Difference{}
	add := func(what, x, y string) {
		if x != y {
			out = append(out, Difference{what, x, y})
		}
	}
	rows, others := machineTable(a.Machine).rows, machineTable(b.Machine).rows
	for i, row := range rows {
		add(row[0], row[1], others[i][1])
	}
	if diskChange(a.DiskBefore, b.DiskBefore) != "" || (a.DiskBefore.Syncs == 0) != (b.DiskBefore.Syncs == 0) {
		add("Disk, median sync before the runs", syncText(a.DiskBefore), syncText(b.DiskBefore))
	}
	names := targets(a)
	for _, name := range targets(b) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		x, inA := a.Versions[name]
		y, inB := b.Versions[name]
		if inA || inB {
			add("Version of "+name, orUnknown(x), orUnknown(y))
		}
	}
	add("Command", commandLine(a.Command), commandLine(b.Command))
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func syncText(d result.Disk) string {
	if d.Syncs == 0 {
		return "not probed"
	}
	return number(d.P50ms) + " ms"
}

// summary counts the judgements in one sentence.
func (c Comparison) summary() string {
	counts := map[Judgement]int{}
	for _, change := range c.Changes {
		counts[change.Judgement]++
	}
	var parts []string
	for _, j := range []Judgement{Better, Worse, WithinNoise, Unproven} {
		if counts[j] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[j], j))
		}
	}
	if len(parts) == 0 {
		return "Nothing was measured on both sides."
	}
	return fmt.Sprintf("Of %d quantities: %s.", len(c.Changes), strings.Join(parts, ", "))
}
