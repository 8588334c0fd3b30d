package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"parley/bench/result"
)

// Markdown writes the report as GitHub-flavoured Markdown: first warnings, then the
// machine, the verification, the ratios, the goals and each case.
func Markdown(w io.Writer, r *result.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Parley bench\n\n%s to %s\n\n", r.Began.UTC().Format(time.RFC3339), r.Ended.UTC().Format(time.RFC3339))
	if command := commandLine(r.Command); command != "" {
		fence := strings.Repeat("`", max(3, longestRun(command, '`')+1))
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", fence, command, fence)
	}
	for _, warning := range warnings(r) {
		fmt.Fprintf(&b, "> **Warning:** %s\n\n", escapeMarkdown(warning))
	}
	for _, p := range parts(r) {
		writePart(&b, p)
	}
	_, err := w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

func writePart(b *bytes.Buffer, p part) {
	if p.text == "" && len(p.table.rows) == 0 && len(p.notes) == 0 {
		return
	}
	if p.heading != "" {
		fmt.Fprintf(b, "%s %s\n\n", strings.Repeat("#", p.level), escapeMarkdown(p.heading))
	}
	if p.text != "" {
		fmt.Fprintf(b, "%s\n\n", escapeMarkdown(p.text))
	}
	writeTable(b, p.table)
	for _, note := range p.notes {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(note))
	}
	if len(p.notes) > 0 {
		b.WriteByte('\n')
	}
}

// writeTable writes nothing if there are no rows.
func writeTable(b *bytes.Buffer, t table) {
	if len(t.rows) == 0 {
		return
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
