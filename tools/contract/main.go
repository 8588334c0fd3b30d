// Command contract lists what a description of the interface promises, one entry a line,
// so that a test can compare the list with the product: routes, flags, commands, error
// codes, events, statuses, quotas, rates, headers, message types, A2A methods, members of
// bodies and other words of the wire. It reads the back-ticked spans of two markdown files:
//
//	go run -C tools ./contract -from FILE -spec "$PWD/docs/spec.md" > cmd/parley/testdata/contract.txt
//
// An entry that only parts of later work mention ends with "later: " and their subject.
// The report on standard error counts entries and names each span that gave none, with the
// reason. A span that is neither an entry nor listed as none is an error.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	from := flag.String("from", "", "markdown file with the rules where the specification is silent")
	spec := flag.String("spec", "", "the specification, docs/spec.md")
	flag.Parse()
	if err := run(*from, *spec, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func run(from, spec string, out, report io.Writer) error {
	rules, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	interfaces, err := os.ReadFile(spec)
	if err != nil {
		return err
	}
	l := newList()
	l.readSpec(string(interfaces))
	l.readRules(string(rules))
	l.settle()
	lines := l.lines()
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	l.report(lines, report)
	if len(l.unknown) > 0 {
		return fmt.Errorf("%d spans are neither entries nor listed as none:\n%s", len(l.unknown), strings.Join(l.unknown, "\n"))
	}
	return nil
}

// An entry is one promise of the interface.
type entry struct{ kind, name string }

func (e entry) String() string { return e.kind + " " + e.name }

// list collects entries and where they are mentioned.
type list struct {
	// mentions are the subjects under which an entry is mentioned, in order: present for
	// what is there, neutral for lists that say nothing about when.
	mentions map[entry][]string
	subject  string
	dropped  map[string]string // spans that give no entry, with the reason
	unknown  []string
	route    string // the route named last, which "…" continues
}

const (
	present = ""
	neutral = "-"
)

func newList() *list { return &list{mentions: map[entry][]string{}, dropped: map[string]string{}} }

func (l *list) add(kind, name string) {
	e := entry{kind, name}
	if !slices.Contains(l.mentions[e], l.subject) {
		l.mentions[e] = append(l.mentions[e], l.subject)
	}
}

// later returns the subject that will bring an entry; empty if it is there.
func (l *list) later(e entry) string {
	if subject, decided := decidedSubjects[e.String()]; decided {
		return subject
	}
	subjects := slices.DeleteFunc(slices.Clone(l.mentions[e]), func(s string) bool { return s == neutral })
	if len(subjects) == 0 || slices.Contains(subjects, present) {
		return present
	}
	return subjects[0]
}

// lines returns the entries, sorted.
func (l *list) lines() []string {
	var all []string
	for e := range l.mentions {
		line := e.String()
		if subject := l.later(e); subject != present {
			line += " later: " + subject
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func (l *list) report(lines []string, out io.Writer) {
	total, marked := map[string]int{}, map[string]int{}
	for _, line := range lines {
		kind, _, _ := strings.Cut(line, " ")
		total[kind]++
		if strings.Contains(line, " later: ") {
			marked[kind]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(out, "%-8s %4d, of which later %d\n", kind, total[kind], marked[kind])
	}
	fmt.Fprintf(out, "%d entries, %d spans give none:\n", len(lines), len(l.dropped))
	for _, span := range slices.Sorted(maps.Keys(l.dropped)) {
		fmt.Fprintf(out, "  %s: %s\n", span, l.dropped[span])
	}
}
