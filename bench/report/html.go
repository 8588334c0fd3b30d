package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"parley/bench/result"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageView is the input of the template.
type pageView struct {
	Title, When, Command string
	Warnings             []string
	Ground               []tableView
	Verdict              string
	VerdictBad           bool
	Verification         *tableView
	Ratios               *tableView
	RatioNote            string
	Goals                *tableView
	Nodes                *caseView
	NodesReading         string
	Reading              string
	Highest              *tableView
	Ladders              []figureView
	OverloadReading      string
	Overloads            []caseView
	GrowthReading        string
	Growths              []caseView
	Cases                []caseView
}

type caseView struct {
	ID, Name string
	Tables   []tableView
	Notes    []string
	Figures  []figureView
	Seconds  []figureView
}

// figureView is one plot with its explanation. This package built the SVG and escaped
// every name in it.
type figureView struct {
	Title, Note string
	SVG         template.HTML
}

type tableView struct {
	Caption string
	Head    []cellView
	Rows    [][]cellView
}

type cellView struct {
	Text   string
	Number bool
	// First cells of a row are its heading.
	First bool
}

// HTML writes the report as one page that loads nothing: its style is inline, its plots
// are SVG, it follows the reader's light or dark preference, and it needs no script.
func HTML(w io.Writer, r *result.Report) error {
	d := newDocument(r)
	v := pageView{
		Title: d.title, When: d.when, Command: d.command, Warnings: printables(d.warnings),
		Verdict: d.verdict, VerdictBad: broken(r.Verified),
		Verification: viewTable(d.verification), Ratios: viewTable(d.ratios),
		RatioNote: d.ratioNote, Reading: reading, GrowthReading: growthReading, Highest: viewTable(d.ladders), Goals: viewTable(d.goals),
	}
	for _, t := range []table{d.machine, d.disk, d.versions} {
		if shown := viewTable(t); shown != nil {
			v.Ground = append(v.Ground, *shown)
		}
	}
	if d.nodes != nil {
		v.Nodes, v.NodesReading = &caseView{Name: d.nodes.title}, d.nodes.reading
		for _, t := range d.nodes.tables {
			if shown := viewTable(t); shown != nil {
				v.Nodes.Tables = append(v.Nodes.Tables, *shown)
			}
		}
	}
	names := targets(r)
	cases := make([]caseGroups, 0, len(d.cases))
	for i, s := range d.cases {
		cases = append(cases, s.caseGroups)
		v.Cases = append(v.Cases, viewCase(fmt.Sprintf("case-%d", i+1), names, s))
	}
	v.OverloadReading = overloadReading
	for i, o := range d.overloads {
		v.Overloads = append(v.Overloads, caseView{
			ID: fmt.Sprintf("overload-%d", i+1), Tables: []tableView{*viewTable(o.table)}, Notes: printables(o.verdicts),
		})
	}
	for i, g := range d.growths {
		v.Growths = append(v.Growths, viewGrowth(fmt.Sprintf("growth-%d", i+1), g))
	}
	for i, l := range ladders(cases) {
		v.Ladders = figures(v.Ladders, printable(l.title()),
			"Latency counts from the intended start. Marks are medians, thin lines run from the least to the greatest repeat. "+
				"A ring marks a rate that the target did not keep up with; a hollow mark has no valid run.",
			l.draw(fmt.Sprintf("ladder-%d", i+1), names))
	}
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func viewCase(id string, names []string, s section) caseView {
	v := caseView{ID: id, Name: printable(s.String()), Notes: printables(s.notes)}
	for _, t := range s.tables {
		v.Tables = append(v.Tables, *viewTable(t))
	}
	v.Figures = figures(v.Figures, "Throughput", "Bars are medians; whiskers run from the least to the greatest repeat. A hollow bar has no valid run.",
		bars(id+"-bars", names, s.caseGroups))
	v.Figures = figures(v.Figures, "Latency by percentile", "Lines are medians over the repeats; bands run from the least to the greatest. "+
		"A line ends where a run had no slower operation left.",
		distribution(id+"-latency", names, s.caseGroups))
	const lines = "Every repeat is one line; the line of an invalid repeat is dotted."
	v.Seconds = figures(v.Seconds, seriesRate.title, lines, seriesRate.draw(id+"-rate", names, s.caseGroups))
	v.Seconds = figures(v.Seconds, seriesTail.title, lines, seriesTail.draw(id+"-tail", names, s.caseGroups))
	return v
}

func viewGrowth(id string, g growthSection) caseView {
	v := caseView{ID: id, Name: printable(g.String()), Tables: []tableView{*viewTable(g.table)}, Notes: printables(g.notes)}
	for i, c := range growthCharts {
		v.Figures = figures(v.Figures, c.title, c.note, c.draw(fmt.Sprintf("%s-%d", id, i+1), g.growth))
	}
	return v
}

// figures appends a plot unless it is empty.
func figures(to []figureView, title, note, svg string) []figureView {
	if svg == "" {
		return to
	}
	return append(to, figureView{Title: title, Note: note, SVG: template.HTML(svg)})
}

func viewTable(t table) *tableView {
	if len(t.rows) == 0 {
		return nil
	}
	cells := func(texts []string) []cellView {
		out := make([]cellView, 0, len(texts))
		for i, text := range texts {
			out = append(out, cellView{Text: printable(text), Number: i >= t.left, First: i == 0 && t.left > 0})
		}
		return out
	}
	v := &tableView{Caption: t.caption, Head: cells(t.head)}
	for _, row := range t.rows {
		v.Rows = append(v.Rows, cells(row))
	}
	return v
}

func printables(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, printable(text))
	}
	return out
}
