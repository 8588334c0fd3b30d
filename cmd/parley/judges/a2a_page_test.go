package judges

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// a2aPage is the page that the runs of the suites make.
const a2aPage = "../../../docs/a2a-conformance.md"

const (
	passed        = "passed"
	failed        = "failed"
	contradictory = "contradicts A2A"
	inapplicable  = "not applicable"
)

// finding is the result of one check of a suite.
type finding struct{ id, level, name, verdict, why string }

const pageIntroduction = `# A2A conformance

What the conformance suites of the A2A project say about the [A2A bridge](a2a.md). The runs themselves write this page: every check that did not pass has a row, with the reason. A check *contradicts A2A* if what it asks for is ruled out by A2A's own text; the row quotes the sentence. *Not applicable* are checks of what the agent card does not declare.
`

const actsIntroduction = `The scenarios of the [A2A Conformance Test Specification](https://github.com/a2aproject/A2A/pull/1882), unchanged, in ` + "`cmd/parley/judges/acts`" + `. ` + "`go test ./cmd/parley/judges -run TestACTS`" + ` runs them and compares the result with this section; ` + "`-update`" + ` writes it.`

const tckIntroduction = `The requirements of the [Technology Compatibility Kit](https://github.com/a2aproject/a2a-tck), branch ` + "`1.0-dev`" + `, which is not part of this repository. ` + "`make conformance-a2a TCK=DIR`" + ` runs the copy in DIR and writes this section. It runs it as it stands, then with an id for each message, then also with the names of parameters in camel case; what passes only so contradicts A2A.`

// pageSections are the sections of the page, in order.
var pageSections = []string{"ACTS", "a2a-tck"}

// changing is what differs between two runs: ids and addresses.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|127\.0\.0\.1:[0-9]+`)

// writePage holds a section of the page to findings or, with -update, writes it. The other
// section stays as it is.
func writePage(t *testing.T, section, introduction string, findings []finding) {
	t.Helper()
	stored, err := os.ReadFile(a2aPage)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var page bytes.Buffer
	page.WriteString(pageIntroduction)
	for _, name := range pageSections {
		text := sectionOf(string(stored), name)
		if name == section {
			text = renderSection(name, introduction, findings)
		}
		if text != "" {
			fmt.Fprintf(&page, "\n%s", text)
		}
	}
	switch {
	case *updateTree:
		if err := os.WriteFile(a2aPage, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	case page.String() != string(stored):
		t.Errorf("docs/a2a-conformance.md differs from this run: look at what changed, and write the page with -update. This run says:\n%s", sectionOf(page.String(), section))
	}
}

// sectionOf returns a section of a page, with its heading.
func sectionOf(page, name string) string {
	begin := strings.Index(page, "## "+name+"\n")
	if begin < 0 {
		return ""
	}
	rest := page[begin:]
	if end := strings.Index(rest, "\n## "); end >= 0 {
		return rest[:end]
	}
	return rest
}

func renderSection(name, introduction string, findings []finding) string {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n%s\n\n", name, introduction)
	verdicts := []string{passed, contradictory, failed, inapplicable}
	fmt.Fprintf(&out, "| Level | Checks | %s |\n|---|---|---|---|---|---|\n", strings.Join(verdicts, " | "))
	levels := []string{"MUST", "SHOULD", "MAY"}
	for _, level := range levels {
		counts := map[string]int{}
		for _, f := range findings {
			if f.level == level {
				counts[f.verdict]++
				counts["all"]++
			}
		}
		fmt.Fprintf(&out, "| %s | %d", level, counts["all"])
		for _, verdict := range verdicts {
			fmt.Fprintf(&out, " | %d", counts[verdict])
		}
		out.WriteString(" |\n")
	}
	rows := slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return f.verdict == passed })
	order := []string{failed, contradictory, inapplicable}
	slices.SortStableFunc(rows, func(a, b finding) int {
		return cmp.Or(
			slices.Index(order, a.verdict)-slices.Index(order, b.verdict),
			slices.Index(levels, a.level)-slices.Index(levels, b.level),
			strings.Compare(a.id, b.id),
		)
	})
	if len(rows) > 0 {
		out.WriteString("\n| Check | What | Level | Result | Why |\n|---|---|---|---|---|\n")
	}
	for _, f := range rows {
		why := changing.ReplaceAllString(strings.Join(strings.Fields(f.why), " "), "…")
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", f.id, f.name, f.level, f.verdict, strings.ReplaceAll(why, "|", "\\|"))
	}
	return out.String()
}
