package parley_test

import (
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestConformance checks docs/conformance.md: it has each row of the specification's tables
// and each rule of its text exactly once, every one has a test, and the tests exist.
func TestConformance(t *testing.T) {
	root := os.DirFS(".")
	spec, page := readSpec(t), readFile(t, root, "docs/conformance.md")
	tables, rules := 0, 0
	for _, s := range sectionsOf(spec) {
		tables += len(s.tables)
		rules += len(s.prose)
	}
	if tables < 30 || rules < 60 {
		t.Errorf("found %d tables and %d paragraphs: the specification is not being read", tables, rules)
	}
	for _, complaint := range compareConformance(spec, page, testsOf(t, root), func(file string) bool { return exists(root, file) }) {
		t.Error(complaint)
	}
}

func TestConformanceControl(t *testing.T) {
	const spec = "# S\n\n## A\n\nIt is red. It is large: see below.\n\n| Field | Type |\n|---|---|\n| x | int |\n| y | int |\n\n1. First.\n2. How: not shown.\n\n## B\n\n| Method | Path |\n|---|---|\n| GET | /x |\n| GET | /y |\n"
	const page = "# C\n\n## A\n\n| Field | Held by |\n|---|---|\n| x | `a.TestX` |\n| y | `a.TestX/part one`, `e/d.TestZ`, `j/x.mjs` |\n\n| Rule | Held by |\n|---|---|\n| It is red. | `a.TestX` |\n| First. | `b/a.TestY` |\n\n## B\n\n| Method · Path | Held by |\n|---|---|\n| GET · /x | `a.TestX` |\n| GET · /y | `a.TestX` |\n"
	tests := map[string]testSource{"c/a.TestX": {literals: []string{"part one"}}, "b/a.TestY": {}, "e/d.TestZ": {}, "f/d.TestZ": {}}
	there := func(file string) bool { return file == "cmd/parley/judges/j/x.mjs" || file == "cmd/parley/j/x.mjs" }
	for name, change := range map[string][2]string{
		"a row is missing":            {"| y | `a.TestX/part one`, `e/d.TestZ`, `j/x.mjs` |\n", ""},
		"a row is there twice":        {"| x | `a.TestX` |\n", "| x | `a.TestX` |\n| x | `a.TestX` |\n"},
		"a row that nothing requires": {"| GET · /y |", "| GET · /z |"},
		"a row without a test":        {"| x | `a.TestX` |", "| x |  |"},
		"a test that does not exist":  {"| x | `a.TestX` |", "| x | `a.TestZ` |"},
		"another part":                {"part one", "part two"},
		"an ambiguous package":        {"`b/a.TestY`", "`d.TestY`"},
		"a name of two packages":      {"`e/d.TestZ`", "`d.TestZ`"},
		"a judge that does not exist": {"j/x.mjs", "j/y.mjs"},
		"a rule is missing":           {"| First. | `b/a.TestY` |\n", ""},
		"a rule in other words":       {"| It is red. |", "| It is blue. |"},
		"a section is missing":        {page[strings.Index(page, "## B"):], ""},
	} {
		if changed := strings.Replace(page, change[0], change[1], 1); changed == page || len(compareConformance(spec, changed, tests, there)) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	if complaints := compareConformance(spec, page, tests, there); len(complaints) != 0 {
		t.Errorf("a correct page: %q", complaints)
	}
}

// specSection is what stands below a heading: tables, of which the first row is the head,
// and paragraphs, each item of a list being one.
type specSection struct {
	heading string
	tables  [][][]string
	prose   []string
}

// sectionsOf divides a page. If a heading repeats, the later ones have a number.
func sectionsOf(page string) []specSection {
	sections, count, inTable := []specSection{{}}, map[string]int{}, false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		here := &sections[len(sections)-1]
		wasInTable := inTable
		inTable = strings.HasPrefix(line, "|")
		switch {
		case strings.HasPrefix(line, "#"):
			heading := strings.TrimSpace(strings.TrimLeft(line, "#"))
			if count[heading]++; count[heading] > 1 {
				heading += " " + strconv.Itoa(count[heading])
			}
			sections = append(sections, specSection{heading: heading})
		case inTable && !wasInTable:
			here.tables = append(here.tables, [][]string{cellsOf(line)})
		case inTable && strings.Trim(line, "|-: ") != "":
			last := len(here.tables) - 1
			here.tables[last] = append(here.tables[last], cellsOf(line))
		case !inTable && line != "":
			here.prose = append(here.prose, line)
		}
	}
	return sections
}

func cellsOf(row string) (cells []string) {
	row = strings.ReplaceAll(strings.Trim(row, "|"), `\|`, "\x00")
	for cell := range strings.SplitSeq(row, "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return cells
}

// keysOf names the rows of a table, the head first: by as many of their first cells as
// are needed to tell them apart.
func keysOf(table [][]string) (keys []string) {
	for n := range table[0] {
		keys = nil
		for _, row := range table {
			filled := slices.DeleteFunc(slices.Clone(row[:min(n+1, len(row))]), func(cell string) bool { return cell == "" })
			keys = append(keys, strings.Join(filled, " · "))
		}
		if len(slices.Compact(slices.Sorted(slices.Values(keys)))) == len(keys) {
			break
		}
	}
	return keys
}

// isRule reports whether a paragraph says more than that something is left open, and does
// not only introduce a table.
func isRule(paragraph string) bool {
	if strings.HasSuffix(paragraph, ":") && !strings.Contains(paragraph, ". ") {
		return false
	}
	for sentence := range strings.SplitSeq(paragraph, ". ") {
		if numbered := regexp.MustCompile(`^(\d+|-)$`).MatchString(sentence); !numbered && !strings.Contains(sentence, "not shown") {
			return true
		}
	}
	return false
}

// compareConformance returns what a page lacks, has too much, or names although it does
// not exist.
func compareConformance(spec, page string, tests map[string]testSource, there func(file string) bool) (complaints []string) {
	complain := func(heading, what, row string) {
		complaints = append(complaints, heading+": "+what+": "+row)
	}
	held := map[string]specSection{}
	for _, s := range sectionsOf(page) {
		held[s.heading] = s
	}
	for _, wanted := range sectionsOf(spec)[2:] { // without the title and what comes before the first section
		var rows [][]string
		var rules []string
		for _, table := range held[wanted.heading].tables {
			for _, row := range table[1:] {
				if problem := unheld(row, tests, there); problem != "" {
					complain(wanted.heading, problem, row[0])
				}
			}
			if table[0][0] != "Rule" {
				rows = append(rows, firstCells(table))
				continue
			}
			for _, rule := range firstCells(table)[1:] {
				if rules = append(rules, rule); !strings.Contains(strings.Join(wanted.prose, "\n"), rule) {
					complain(wanted.heading, "the specification has no such rule", rule)
				}
			}
		}
		for i, table := range wanted.tables {
			if keys := keysOf(table); i >= len(rows) || !slices.Equal(keys, rows[i]) {
				complain(wanted.heading, "the rows of a table should be", strings.Join(keys, ", "))
			}
		}
		if len(rows) > len(wanted.tables) {
			complain(wanted.heading, "too many tables", "")
		}
		for _, paragraph := range wanted.prose {
			if isRule(paragraph) && !slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(paragraph, rule) }) {
				complain(wanted.heading, "no row quotes this rule", paragraph)
			}
		}
	}
	return complaints
}

func firstCells(table [][]string) (cells []string) {
	for _, row := range table {
		cells = append(cells, row[0])
	}
	return cells
}

// testSource is a test function's package: the texts in its tests, which names of subtests
// are.
type testSource struct{ literals []string }

// testsOf returns all test functions, by folder and name.
func testsOf(t *testing.T, root fs.FS) map[string]testSource {
	t.Helper()
	literals, found := map[string][]string{}, map[string]testSource{}
	all := slices.DeleteFunc(sources(t, root), func(s source) bool { return !s.test })
	for _, s := range all {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					literals[s.pkg] = append(literals[s.pkg], text)
				}
			}
			return true
		})
	}
	for _, s := range all {
		for _, declared := range s.syntax.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				found[s.pkg+"."+f.Name.Name] = testSource{literals[s.pkg]}
			}
		}
	}
	return found
}

// subtest divides the name of a test from that of its part.
var subtest = regexp.MustCompile(`^(.*\.\w+)/(.+)$`)

// unheld returns what is wrong with the tests that a row names, or "". A test is named by
// as much of the end of its package's path as no other has; a judge by its file.
func unheld(row []string, tests map[string]testSource, there func(file string) bool) string {
	if len(row) != 2 || strings.Count(row[1], "`") < 2 {
		return "no test"
	}
	for i, name := range strings.Split(row[1], "`") {
		if i%2 == 0 {
			continue
		}
		if strings.HasSuffix(name, ".mjs") {
			if !there("cmd/parley/" + name) {
				return name + " does not exist"
			}
			continue
		}
		function, part := name, ""
		if m := subtest.FindStringSubmatch(name); m != nil {
			function, part = m[1], m[2]
		}
		var matches []string
		for full := range tests {
			if full == function || strings.HasSuffix(full, "/"+function) {
				matches = append(matches, full)
			}
		}
		if len(matches) != 1 {
			return name + " names " + strconv.Itoa(len(matches)) + " tests"
		}
		if part != "" && !slices.Contains(tests[matches[0]].literals, part) {
			return name + ": there is no such part"
		}
	}
	return ""
}
