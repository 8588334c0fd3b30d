package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/bench/result"
)

// part is a section of a report. It is left out if it has neither text nor rows nor notes.
type part struct {
	// level is that of the heading, as many as the number signs in Markdown.
	level   int
	heading string
	text    string
	table   table
	notes   []string
}

// table has text in its first left columns and numbers in the others.
type table struct {
	head []string
	left int
	rows [][]string
}

const reading = "Every figure is the median over the valid repeats, with the least and the greatest in parentheses. " +
	"A figure that stands wholly in parentheses comes from invalid runs only and proves nothing. " +
	"In an open loop latency counts from the intended start, so that waiting for a slow server is part of it. " +
	"Failures are summed over the runs that count."

// parts returns what follows the warnings of a report.
func parts(r *result.Report) []part {
	verdict, counts := verification(r.Verified)
	groups := byCase(r)
	all := []part{
		{level: 2, heading: "Machine", table: machineTable(r.Machine)},
		{level: 2, heading: "Disk: one thread appends 4 KiB and waits for fdatasync", table: diskTable(r)},
		{level: 2, heading: "Targets", table: versionTable(r)},
		{level: 2, heading: "Verification", text: verdict, table: counts},
		ratioPart(targets(r), groups),
		{level: 2, heading: "Goals", table: goalTable(r.Goals)},
	}
	if len(groups) > 0 {
		all = append(all, part{level: 2, heading: "Results", text: reading})
	}
	for _, c := range groups {
		all = append(
			all,
			part{level: 3, heading: c.String(), table: runTable(c)},
			part{level: 4, heading: "Parts of an operation", table: partsTable(c)},
			part{level: 4, heading: "Further figures", table: figureTable(c)},
			part{level: 4, heading: "Processor, in cores, and memory", table: costTable(c)},
			part{notes: notes(c)},
		)
	}
	return all
}

func commandLine(args []string) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(c rune) bool { return c <= ' ' || strings.ContainsRune(`"'\$&|;<>()*?`+"`", c) }) {
			a = strconv.Quote(a)
		}
		words = append(words, a)
	}
	return printable(strings.Join(words, " "))
}

func warnings(r *result.Report) []string {
	var out []string
	if len(r.Runs) == 0 {
		out = append(out, "There are no runs in this report.")
	}
	if broken(r.Verified) {
		out = append(out, "Not every acknowledged message is there, once and as it was sent: see the verification. No speed makes up for that.")
	}
	invalid := 0
	for _, run := range r.Runs {
		if run.Invalid != "" {
			invalid++
		}
	}
	if invalid > 0 {
		out = append(out, fmt.Sprintf("%d of %d runs are invalid and left out of the medians; each is named with its reason at its case.", invalid, len(r.Runs)))
	}
	if text := diskChange(r.DiskBefore, r.DiskAfter); text != "" {
		out = append(out, text)
	}
	return out
}

// diskShift is the ratio between the medians of two probes above which they count as two
// different disks.
const diskShift = 1.25

func diskChange(before, after result.Disk) string {
	if before.P50ms <= 0 || after.P50ms <= 0 {
		return ""
	}
	factor := after.P50ms / before.P50ms
	if factor < diskShift && factor > 1/diskShift {
		return ""
	}
	return fmt.Sprintf("The disk changed its speed during the bench: a sync took %s ms before and %s ms after (medians). Early and late runs are not comparable.",
		number(before.P50ms), number(after.P50ms))
}

func orUnknown(s string, seen bool) string {
	if !seen || s == "" {
		return "not seen here"
	}
	return s
}

func machineTable(m result.Machine) table {
	return table{head: []string{"What", "Value"}, left: 2, rows: [][]string{
		{"Processor", orUnknown(m.CPU, true)},
		{"Cores", orUnknown(strconv.Itoa(m.Cores), m.Cores > 0)},
		{"Memory", orUnknown(bytesSize(m.Memory), m.Memory > 0)},
		{"Kernel", orUnknown(m.Kernel, true)},
		{"Go", orUnknown(m.Go, true)},
		{"Open files, limit", orUnknown(whole(float64(m.FileMax)), m.FileMax > 0)},
		{"Data path", orUnknown(m.DataPath, true)},
	}}
}

func diskTable(r *result.Report) table {
	row := func(name string, d result.Disk) []string {
		if d.Syncs == 0 {
			return []string{name, "not probed", none, none}
		}
		return []string{name, whole(float64(d.Syncs)), number(d.P50ms), number(d.P99ms)}
	}
	return table{
		head: []string{"Probe", "Syncs", "p50, ms", "p99, ms"}, left: 1,
		rows: [][]string{row("before the runs", r.DiskBefore), row("after the runs", r.DiskAfter)},
	}
}

func versionTable(r *result.Report) table {
	t := table{head: []string{"Target", "Version"}, left: 2}
	names := targets(r)
	var others []string
	for name := range r.Versions {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, name := range append(names, others...) {
		version := r.Versions[name]
		if version == "" {
			version = "unknown"
		}
		t.rows = append(t.rows, []string{name, version})
	}
	return t
}

// broken reports whether a verification was made and found violations.
func broken(v *result.Verification) bool {
	return v != nil && (!v.Clean() || v.Found != v.Acknowledged)
}

func verification(v *result.Verification) (verdict string, counts table) {
	if v == nil {
		return "Not verified: the server was not killed and its acknowledged messages were not read again.", table{}
	}
	counts = verificationTable(v)
	switch {
	case !v.Clean():
		return "VIOLATED: " + strings.Join(v.Violations(), ", ") + ".", counts
	case v.Acknowledged == 0:
		return "Nothing was acknowledged, so nothing is proven.", counts
	case v.Found != v.Acknowledged:
		return "INCOMPLETE: fewer messages were found than acknowledged, though none was reported missing.", counts
	case !v.Killed:
		return "Every acknowledged message is there, once and as it was sent; but the server was not killed, so this says nothing about durability.", counts
	case v.SampleOf > 0:
		return "Clean: every acknowledged message of the sample is there, as it was sent, after SIGKILL and a restart.", counts
	}
	return "Clean: every acknowledged message is there, once and as it was sent, after SIGKILL and a restart.", counts
}

// verificationTable shows a column for the whole target and one for each node of a cluster. It
// leaves out rows without a count, except those about all messages.
func verificationTable(v *result.Verification) table {
	t := table{head: []string{"Messages", "All"}, left: 1}
	for _, node := range v.Nodes {
		t.head = append(t.head, "Node "+node.Node)
	}
	for i, c := range v.Counts() {
		if c.N == 0 && !c.Violation {
			continue
		}
		row := []string{c.What, whole(float64(c.N))}
		for _, node := range v.Nodes {
			row = append(row, whole(float64(node.Counts()[i].N)))
		}
		t.rows = append(t.rows, row)
	}
	if v.Killed {
		restart := make([]string, len(t.head))
		restart[0], restart[1] = "restart, s", number(v.RestartSeconds)
		t.rows = append(t.rows, restart)
	}
	return t
}

// spreadText formats a median with its minimum and maximum, in parentheses if doubtful is
// set.
func spreadText(s Spread, doubtful bool) string {
	text := none
	switch {
	case s.Runs == 1:
		text = number(s.Median)
	case s.Runs > 1 && doubtful:
		text = number(s.Median) + ", " + number(s.Min) + "–" + number(s.Max)
	case s.Runs > 1:
		text = number(s.Median) + " (" + number(s.Min) + "–" + number(s.Max) + ")"
	}
	if doubtful && s.Runs > 0 {
		return "(" + text + ")"
	}
	return text
}

// fixed2 formats a ratio with two decimals, which is all its accuracy allows. A small
// ratio keeps two significant digits.
func fixed2(v float64) string {
	if v > 0 && v < 0.1 && !math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func ratioText(r Ratio) string {
	if r.OfMedians == 0 {
		return none
	}
	text, open, shut := fixed2(r.OfMedians)+" ×", " (", ")"
	if r.Doubtful {
		text, open, shut = "("+text, ", ", ""
	}
	if r.Paired.Runs > 1 {
		text += open + fixed2(r.Paired.Min) + "–" + fixed2(r.Paired.Max) + shut
	}
	if r.Doubtful {
		text += ")"
	}
	return text
}

// ratioPart compares our target, which is the first, with every other target in each
// case.
func ratioPart(names []string, cases []caseGroups) part {
	if len(names) < 2 {
		return part{}
	}
	ours := names[0]
	t := table{
		head: []string{"Case", "Against", "Throughput (more is better)", "p50 (less is better)", "Pairs"}, left: 2,
	}
	for _, c := range cases {
		at := slices.IndexFunc(c.groups, func(g group) bool { return g.target == ours })
		if at < 0 {
			continue
		}
		for i, other := range c.groups {
			if i == at {
				continue
			}
			rate := ratio(c.groups[at], other, throughput)
			t.rows = append(t.rows, []string{
				c.String(), other.target, ratioText(rate),
				ratioText(ratio(c.groups[at], other, latency(p50))), strconv.Itoa(rate.Paired.Runs),
			})
		}
	}
	return part{level: 2, heading: "Ratios of " + ours + " to the others", table: t, notes: []string{"A ratio is that of the two medians. In parentheses are the least and the greatest ratio of two runs with the same repeat number, " +
		"which ran one after the other. In an open loop both answer what is offered, so compare their latency and not their throughput."}}
}
