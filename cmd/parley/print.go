package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// value writes v as one line of JSON.
func (s *streams) value(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(text, '\n'))
	return err
}

// list writes items as the one value that every command which lists things
// writes under --json: an object, so that more can be said beside the items.
func list[T any](s *streams, items []T) error {
	if items == nil {
		items = []T{}
	}
	return s.value(struct {
		Items []T `json:"items"`
	}{items})
}

// say writes a line for a person on standard output.
func (s *streams) say(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format+"\n", args...)
	return err
}

// note writes a line on standard error: progress and hints, never results.
func (s *streams) note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, format+"\n", args...)
}

// table writes rows in aligned columns; the first row is the heading.
func (s *streams) table(rows [][]string) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// jsonValid reports whether text is one JSON value.
func jsonValid(text string) bool { return jsontext.Value(text).IsValid() }

// printable is text from elsewhere made safe for a terminal: what another
// organization wrote must not move the cursor or forge a line of ours.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// isTerminal reports whether a stream is a character device other than the null one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
