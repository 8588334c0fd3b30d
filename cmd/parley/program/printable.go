package program

import (
	"fmt"
	"io"
	"strings"

	"parley/client/api"
)

// Printable is text for a terminal. Only this package makes it, so that characters of other
// people's text that could move the cursor or forge a line stand in it as escapes.
type Printable struct{ text string }

// Format is fmt.Sprintf for a terminal: the format may contain newlines, and so may
// arguments that are Printable. All other arguments are written by api.Visible.
func Format(format string, args ...any) Printable {
	for i, arg := range args {
		args[i] = cleaned{arg}
	}
	return Printable{fmt.Sprintf(format, args...)}
}

// Paragraph returns a text of others that may have several lines. All lines after the
// first begin with indent, which shows that they are not this program's.
func Paragraph(text, indent string) Printable {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = api.Visible(line)
	}
	return Printable{strings.Join(lines, "\n"+indent)}
}

// Add appends a line.
func (p *Printable) Add(format string, args ...any) {
	if p.text != "" {
		p.text += "\n"
	}
	p.text += Format(format, args...).text
}

func (p Printable) String() string { return p.text }

// cleaned is an argument of Format.
type cleaned struct{ value any }

func (c cleaned) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), c.value)
	if _, own := c.value.(Printable); !own {
		text = api.Visible(text)
	}
	_, _ = io.WriteString(f, text)
}

// visibleWriter is a writer of lines of text without colors, such as those of a log.
type visibleWriter struct{ to io.Writer }

func (w visibleWriter) Write(text []byte) (int, error) {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = api.Visible(line)
	}
	if _, err := io.WriteString(w.to, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}
