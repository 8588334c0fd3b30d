package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/bench/result"
)

// document is the text and the tables of a report, before they become Markdown.
type document struct {
	title string
	when  string
	// command is the command line of the bench, quoted where a shell needs it.
	command string
	// warnings are shown before any number.
	warnings     []string
	machine      table
	disk         table
	versions     table
	verification table
	verdict      string
	ratios       table
	ratioNote    string
	goals        table
	nodes        *nodesSection
	overloads    []overloadSection
	growths      []growthSection
	cases        []section
}

// section is one case.
type section struct {
	caseGroups
	tables []table
	notes  []string
}

// table has text in its first left columns and numbers in the others.
type table struct {
	caption string
	head    []string
	left    int
	rows    [][]string
}

const reading = "Every figure is the median over the valid repeats, with the least and the greatest in parentheses. " +
	"A figure that stands wholly in parentheses comes from invalid runs only and proves nothing. " +
	"In an open loop latency counts from the intended start, so that waiting for a slow server is part of it. " +
	"Failures are summed over the runs that count."

func newDocument(r *result.Report) document {
	d := document{
		title:    "Parley bench",
		when:     r.Began.UTC().Format(time.RFC3339) + " to " + r.Ended.UTC().Format(time.RFC3339),
		command:  commandLine(r.Command),
		machine:  machineTable(r.Machine),
		disk:     diskTable(r),
		versions: versionTable(r),
	}
	d.verdict, d.verification = verification(r.Verified)
	groups := byCase(r)
	d.ratios, d.ratioNote = ratioTable(targets(r), groups)
	d.goals = goalTable(r.Goals)
	d.nodes = newNodesSection(r)
	for _, o := range r.Overloads {
		d.overloads = append(d.overloads, overloadSection{overloadTable(o), overloadVerdict(o)})
	}
	grown, others := growths(groups)
	for _, g := range grown {
		d.growths = append(d.growths, newGrowthSection(g))
	}
	for _, c := range others {
		d.cases = append(d.cases, newSection(c))
	}
	d.warnings = warnings(r)
	return d
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

func orUnseen(s string, seen bool) string {
	if !seen || s == "" {
		return "not seen here"
	}
	return s
}

func machineTable(m result.Machine) table {
	return table{caption: "Machine", head: []string{"What", "Value"}, left: 2, rows: [][]string{
		{"Processor", orUnseen(m.CPU, true)},
		{"Cores", orUnseen(strconv.Itoa(m.Cores), m.Cores > 0)},
		{"Memory", orUnseen(bytesSize(m.Memory), m.Memory > 0)},
		{"Kernel", orUnseen(m.Kernel, true)},
		{"Go", orUnseen(m.Go, true)},
		{"Open files, limit", orUnseen(whole(float64(m.FileMax)), m.FileMax > 0)},
		{"Data path", orUnseen(m.DataPath, true)},
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
		caption: "Disk: one thread appends 4 KiB and waits for fdatasync",
		head:    []string{"Probe", "Syncs", "p50, ms", "p99, ms"}, left: 1,
		rows: [][]string{row("before the runs", r.DiskBefore), row("after the runs", r.DiskAfter)},
	}
}

func versionTable(r *result.Report) table {
	t := table{caption: "Targets", head: []string{"Target", "Version"}, left: 2}
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

func verification(v *result.Verification) (string, table) {
	if v == nil {
		return "Not verified: the server was not killed and its acknowledged messages were not read again.", table{}
	}
	count := func(n int64) string { return whole(float64(n)) }
	t := table{
		caption: "Every acknowledged message, read after SIGKILL and a restart",
		head:    []string{"Acknowledged", "Found", "Missing", "Twice", "Altered", "Stray", "Reordered", "Without answer", "Restart, s"},
		rows: [][]string{{
			count(v.Acknowledged), count(v.Found), count(v.Missing), count(v.Twice), count(v.Altered), count(v.Stray),
			count(v.Reordered), count(v.Unknown), number(v.RestartSeconds),
		}},
	}
	if v.SampleOf > 0 {
		t.caption = "A sample of the " + count(v.SampleOf) + " acknowledged messages, read after SIGKILL and a restart"
	}
	if !v.Killed {
		t.caption = "Every acknowledged message, read from the running server"
		t.rows[0][len(t.rows[0])-1] = none
	}
	if v.Deliveries > 0 {
		t.head = append(t.head, "To deliver", "Undelivered", "Delivered again")
		t.rows[0] = append(t.rows[0], count(v.Deliveries), count(v.DeliveriesLost), count(v.DeliveredAgain))
	}
	switch {
	case !v.Clean():
		return fmt.Sprintf("VIOLATED: %s missing, %s twice, %s altered, %s stray%s.", count(v.Missing), count(v.Twice), count(v.Altered), count(v.Stray), furtherViolations(v)), t
	case v.Acknowledged == 0:
		return "Nothing was acknowledged, so nothing is proven.", t
	case v.Found != v.Acknowledged:
		return fmt.Sprintf("INCOMPLETE: %s messages were acknowledged and %s were found, though none was reported missing.", count(v.Acknowledged), count(v.Found)), t
	}
	switch {
	case !v.Killed:
		return "Every acknowledged message is there, once and as it was sent; but the server was not killed, so this says nothing about durability.", t
	case v.SampleOf > 0:
		return "Clean: every acknowledged message of the sample is there, as it was sent.", t
	}
	return "Clean: every acknowledged message is there, once and as it was sent." + nodesToo(v) + groupsToo(v) + deliveriesToo(v), t
}

// furtherViolations describes those of groups and webhooks, if there are any. groupsToo
// and deliveriesToo are the texts for a verdict without violations.
func furtherViolations(v *result.Verification) (text string) {
	if v.Reordered > 0 {
		text += ", " + whole(float64(v.Reordered)) + " reordered"
	}
	if n := v.Differing(); n > 0 {
		text += ", " + whole(float64(n)) + " mailboxes not the same on all nodes"
	}
	if v.Partial > 0 {
		text += ", " + whole(float64(v.Partial)) + " broadcasts with some members only"
	}
	if v.CommandsLost > 0 {
		text += ", " + whole(float64(v.CommandsLost)) + " votes or seats not in effect"
	}
	if v.DeliveriesLost > 0 {
		text += ", " + whole(float64(v.DeliveriesLost)) + " of " + whole(float64(v.Deliveries)) + " messages to agents with a webhook never delivered"
	}
	return text
}

func nodesToo(v *result.Verification) string {
	switch len(v.Nodes) {
	case 0:
		return ""
	case 1:
		return " The only node was killed, and read directly."
	}
	return fmt.Sprintf(" All %d nodes were killed at once, and each was read directly: they hold the same.", len(v.Nodes))
}

func groupsToo(v *result.Verification) (text string) {
	if v.Copies > 0 {
		text += " " + whole(float64(v.Copies)) + " of them are the copies of " + whole(float64(v.Broadcasts)) + " broadcasts: each is with every member."
	}
	if v.Commands > 0 {
		text += " All " + whole(float64(v.Commands)) + " votes and seats are as they were last acknowledged."
	}
	return text
}

func deliveriesToo(v *result.Verification) string {
	if v.Deliveries == 0 {
		return ""
	}
	return " All " + whole(float64(v.Deliveries)) + " messages to agents with a webhook were delivered; " + whole(float64(v.DeliveredAgain)) + " deliveries came again, as they may."
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

// ratioTable compares our target, which is the first, with every other target in each
// case.
func ratioTable(names []string, cases []caseGroups) (table, string) {
	if len(names) < 2 {
		return table{}, ""
	}
	ours := names[0]
	t := table{
		caption: "Ratios of " + ours + " to the others",
		head:    []string{"Case", "Against", "Throughput (more is better)", "p50 (less is better)", "Pairs"}, left: 2,
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
	return t, "A ratio is that of the two medians. In parentheses are the least and the greatest ratio of two runs with the same repeat number, " +
		"which ran one after the other. In an open loop both answer what is offered, so compare their latency and not their throughput."
}
