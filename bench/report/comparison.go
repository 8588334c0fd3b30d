package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// Markdown writes the comparison. The other differences come first, because they decide
// what the changes can mean.
func (c Comparison) Markdown(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("# Comparison of A with B\n\n")
	if len(c.Differences) == 0 {
		b.WriteString("Machine, disk, versions and command were the same.\n\n")
	} else {
		b.WriteString("These differ between A and B; a change further down may be due to any of them:\n\n")
		t := table{head: []string{"What", "A", "B"}, left: 3}
		for _, d := range c.Differences {
			t.rows = append(t.rows, []string{d.What, orDash(d.A), orDash(d.B)})
		}
		writeTable(&b, "", t)
	}
	fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(c.summary()))
	for i := 0; i < len(c.Changes); {
		end := i
		for end < len(c.Changes) && c.Changes[end].Case == c.Changes[i].Case {
			end++
		}
		fmt.Fprintf(&b, "## %s\n\n", escapeMarkdown(c.Changes[i].Case.String()))
		writeTable(&b, "", changeTable(c.Changes[i:end]))
		i = end
	}
	writeOnly(&b, "A", c.OnlyA)
	writeOnly(&b, "B", c.OnlyB)
	if len(c.Changes) > 0 {
		b.WriteString("A change is better or worse only if the ranges of both sides do not touch and the medians lie further apart than either side's own spread. " +
			"Shown are medians with the least and the greatest valid run.\n")
	}
	_, err := w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

func changeTable(changes []Change) table {
	t := table{head: []string{"Target", "Quantity", "Judgement", "A", "B", "Change"}, left: 3}
	for _, c := range changes {
		verdict := string(c.Judgement)
		if c.Why != "" {
			verdict += ": " + c.Why
		}
		t.rows = append(t.rows, []string{c.Target, c.Quantity, verdict, spreadText(c.A, c.DoubtfulA), spreadText(c.B, c.DoubtfulB), percentText(c.Percent())})
	}
	return t
}

func percentText(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return fmt.Sprintf("%+.1f %%", v)
}

func orDash(s string) string {
	if s == "" {
		return none
	}
	return s
}

func writeOnly(b *bytes.Buffer, side string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "Measured in %s only:\n\n", side)
	for _, name := range names {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(name))
	}
	b.WriteByte('\n')
}
