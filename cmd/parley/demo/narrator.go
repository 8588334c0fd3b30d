package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"parley/cmd/parley/program"
)

// narrator tells the demonstration: numbered steps, and below each a line for
// every fact, which has been checked by the time it is printed.
type narrator struct {
	out   io.Writer
	color bool
	step  int
	facts int
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

func (n *narrator) line(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, format+"\n", args...)
}

// title begins the next step.
func (n *narrator) title(text string) {
	n.step++
	n.line("\n%s  %s", n.paint(bold, fmt.Sprintf("%2d", n.step)), n.paint(bold, text))
}

// aside is what a reader should know and nothing checks.
func (n *narrator) aside(format string, args ...any) {
	n.line("      %s", n.paint(faint, fmt.Sprintf(format, args...)))
}

// quote shows what an agent wrote.
func (n *narrator) quote(who, text string) {
	n.line("      %s %s", n.paint(faint, who+":"), "“"+program.Printable(text)+"”")
}

// mismatch is a fact that did not hold.
type mismatch string

func (m mismatch) Error() string { return "demo: not so: " + string(m) }

// check tells a fact that holds, or ends the demonstration with one that does
// not.
func (n *narrator) check(holds bool, format string, args ...any) {
	fact := fmt.Sprintf(format, args...)
	if !holds {
		n.line("    %s %s", n.paint(red, "✗"), fact)
		panic(mismatch(fact))
	}
	n.facts++
	n.line("    %s %s", n.paint(green, "✓"), strings.ReplaceAll(fact, "\n", "\n      "))
}

// must ends the demonstration with an error that has no place in it.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
