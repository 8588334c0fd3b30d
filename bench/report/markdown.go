package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"parley/bench/result"
)

// Markdown writes the report as GitHub-flavoured Markdown: first warnings, then the
// machine, the verification, the ratios, and each case.
func Markdown(w io.Writer, r *result.Report) error {
	d := newDocument(r)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", escapeMarkdown(d.title), escapeMarkdown(d.when))
	if d.command != "" {
		fence := strings.Repeat("`", max(3, longestRun(d.command, '`')+1))
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", fence, d.command, fence)
	}
	for _, warning := range d.warnings {
		fmt.Fprintf(&b, "> **Warning:** %s\n\n", escapeMarkdown(warning))
	}
	writeTable(&b, "## ", d.machine)
	writeTable(&b, "## ", d.disk)
	writeTable(&b, "## ", d.versions)
	fmt.Fprintf(&b, "## Verification\n\n%s\n\n", escapeMarkdown(d.verdict))
	writeTable(&b, "", d.verification)
	if len(d.ratios.rows) > 0 {
		writeTable(&b, "## ", d.ratios)
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(d.ratioNote))
	}
	if d.nodes != nil {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", escapeMarkdown(d.nodes.title), escapeMarkdown(d.nodes.reading))
		for _, t := range d.nodes.tables {
			writeTable(&b, "### ", t)
		}
	}
	writeTable(&b, "## ", d.goals)
	for _, o := range d.overloads {
		writeTable(&b, "## ", o.table)
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(overloadReading))
		writeNotes(&b, o.verdicts)
	}
	if len(d.growths) > 0 {
		fmt.Fprintf(&b, "## Growth\n\n%s\n\n", escapeMarkdown(growthReading))
	}
	for _, g := range d.growths {
		fmt.Fprintf(&b, "### %s\n\n", escapeMarkdown(g.String()))
		writeTable(&b, "", g.table)
		writeNotes(&b, g.notes)
	}
	if len(d.cases) > 0 {
		fmt.Fprintf(&b, "## Results\n\n%s\n\n", escapeMarkdown(reading))
	}
	for _, s := range d.cases {
		fmt.Fprintf(&b, "### %s\n\n", escapeMarkdown(s.String()))
		for i, t := range s.tables {
			if i == 0 {
				t.caption = ""
			}
			writeTable(&b, "#### ", t)
		}
		writeNotes(&b, s.notes)
	}
	_, err := w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

func writeNotes(b *bytes.Buffer, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(note))
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
}

// writeTable writes the table, below a heading of the given level if it has a caption. It
// writes nothing if there are no rows.
func writeTable(b *bytes.Buffer, level string, t table) {
	if len(t.rows) == 0 {
		return
	}
	if t.caption != "" && level != "" {
		fmt.Fprintf(b, "%s%s\n\n", level, escapeMarkdown(t.caption))
	}
	writeRow(b, t.head)
	for i := range t.head {
		if i < t.left {
			b.WriteString("|---")
		} else {
			b.WriteString("|---:")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		writeRow(b, row)
	}
	b.WriteByte('\n')
}

func writeRow(b *bytes.Buffer, cells []string) {
	for _, c := range cells {
		fmt.Fprintf(b, "| %s ", escapeMarkdown(c))
	}
	b.WriteString("|\n")
}

// escapeMarkdown escapes text so that it contains no markup, no HTML and no line breaks.
func escapeMarkdown(s string) string {
	runes := []rune(printable(s))
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	var b strings.Builder
	for i, r := range runes {
		inWord := r == '_' && word(i-1) && word(i+1)
		if strings.ContainsRune("\\`*_[]<>|~&", r) && !inWord {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func longestRun(s string, of rune) int {
	longest, now := 0, 0
	for _, r := range s {
		if r == of {
			now++
		} else {
			now = 0
		}
		longest = max(longest, now)
	}
	return longest
}
