package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"parley/cmd/parley/program"
)

// narrator prints numbered steps, and below each step one line for every check that
// passed.
type narrator struct {
	out    io.Writer
	color  bool
	step   int
	checks int // passed so far
}

const (
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, color: program.IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (n *narrator) paint(style, text string) string {
	if !n.color {
		return text
	}
	return style + text + plain
}

// line prints a line as it is: callers clean what others wrote.
func (n *narrator) line(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, format+"\n", args...)
}

// title prints the heading of the next step.
func (n *narrator) title(text string) {
	n.step++
	n.line("\n%s  %s", n.paint(bold, fmt.Sprintf("%2d", n.step)), n.paint(bold, text))
}

// aside prints an explanation, which is not a check.
func (n *narrator) aside(format string, args ...any) {
	n.line("      %s", n.paint(faint, program.Format(format, args...).String()))
}

// quote prints a text that an agent sends or receives.
func (n *narrator) quote(who, text string) {
	n.line("      %s %s", n.paint(faint, who+":"), "“"+program.Paragraph(text, "      ").String()+"”")
}

// mismatch describes a check that failed.
type mismatch string

func (m mismatch) Error() string { return "demo: check failed: " + string(m) }

// check prints the result of a check. A failed check panics with a mismatch, which
// ends the demonstration.
func (n *narrator) check(holds bool, format string, args ...any) {
	text := program.Format(format, args...).String()
	if !holds {
		n.line("    %s %s", n.paint(red, "✗"), text)
		panic(mismatch(text))
	}
	n.checks++
	n.line("    %s %s", n.paint(green, "✓"), strings.ReplaceAll(text, "\n", "\n      "))
}

// must panics with an unexpected error, which ends the demonstration.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
