package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// drawing builds one SVG. All text from a report passes through text, which escapes it;
// coordinates and classes come from this package.
type drawing struct {
	b      strings.Builder
	id     string
	width  float64
	height float64
}

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(printable(s)))
	return b.String()
}

// xy formats a coordinate to a tenth of a unit, which is finer than the eye can see.
func xy(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// newDrawing begins an SVG with a title and a description for screen readers.
func newDrawing(id string, width, height float64, title, description string) *drawing {
	d := &drawing{id: id, width: width, height: height}
	fmt.Fprintf(&d.b, `<svg viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d">`, xy(width), xy(height), id, id)
	fmt.Fprintf(&d.b, "\n<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, escapeXML(title), id, escapeXML(description))
	return d
}

func (d *drawing) done() string {
	d.b.WriteString("</svg>")
	return d.b.String()
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class, xy(x1), xy(y1), xy(x2), xy(y2))
}

func (d *drawing) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(&d.b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", class, xy(x), xy(y), xy(max(0, width)), xy(height))
}

func (d *drawing) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&d.b, "<text class=\"%s\" text-anchor=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", class, anchor, xy(x), xy(y), escapeXML(s))
}

func (d *drawing) textUp(class string, x, y float64, s string) {
	fmt.Fprintf(&d.b, "<text class=\"%s\" text-anchor=\"middle\" transform=\"translate(%s %s) rotate(-90)\">%s</text>\n", class, xy(x), xy(y), escapeXML(s))
}

// spot is a position in a drawing.
type spot struct{ x, y float64 }

func (d *drawing) path(element, class string, spots []spot) {
	if len(spots) == 0 {
		return
	}
	parts := make([]string, len(spots))
	for i, p := range spots {
		parts[i] = xy(p.x) + "," + xy(p.y)
	}
	fmt.Fprintf(&d.b, "<%s class=\"%s\" points=\"%s\"/>\n", element, class, strings.Join(parts, " "))
}

// colours is the number of colours in the page's palette. Further targets reuse them from
// the first, with another mark and another dash.
const colours = 7

// ink returns the class of the n-th target's lines, paint that of its areas.
func ink(n int) string   { return fmt.Sprintf("ink c%d d%d", n%colours, n%4) }
func paint(n int) string { return fmt.Sprintf("paint c%d", n%colours) }

// mark draws the n-th target's sign: a disc, a square, a diamond or a triangle. A hollow
// sign stands for a value that proves nothing.
func (d *drawing) mark(n int, at spot, hollow bool) {
	class := paint(n)
	if hollow {
		class = fmt.Sprintf("hollow c%d", n%colours)
	}
	const r = 3.6
	switch n % 4 {
	case 0:
		fmt.Fprintf(&d.b, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>\n", class, xy(at.x), xy(at.y), xy(r))
	case 1:
		d.rect(class, at.x-r+0.4, at.y-r+0.4, 2*r-0.8, 2*r-0.8)
	case 2:
		d.path("polygon", class, []spot{{at.x, at.y - r - 1}, {at.x + r + 1, at.y}, {at.x, at.y + r + 1}, {at.x - r - 1, at.y}})
	default:
		d.path("polygon", class, []spot{{at.x, at.y - r - 0.6}, {at.x + r + 0.6, at.y + r}, {at.x - r - 0.6, at.y + r}})
	}
}

// glyph is the assumed width of one letter of the small text.
const glyph = 6.6

// entry is one name of a legend.
type entry struct {
	n      int
	name   string
	hollow bool
}

// legend draws names in rows from the top left and returns the height of the rows.
func (d *drawing) legend(x, y float64, entries []entry) float64 {
	const row = 18
	at := spot{x, y}
	for _, e := range entries {
		name := cut(printable(e.name), 40)
		if e.hollow {
			name += " (invalid)"
		}
		width := 34 + glyph*float64(len([]rune(name))) + 14
		if at.x > x && at.x+width > d.width {
			at = spot{x, at.y + row}
		}
		d.line(ink(e.n), at.x, at.y-4, at.x+26, at.y-4)
		d.mark(e.n, spot{at.x + 13, at.y - 4}, e.hollow)
		d.text("small", "start", at.x+33, at.y, name)
		at.x += width
	}
	return at.y - y + row
}

// legendHeight returns the height that legend will use, before the drawing has a height.
func legendHeight(x, y, width float64, entries []entry) float64 {
	probe := drawing{width: width}
	return probe.legend(x, y, entries)
}
