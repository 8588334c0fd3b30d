package program

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"

	"parley/client/api"
	"parley/client/e2ee"
)

// Streams are a command's standard input, output and error. Commands print with Say, Note,
// Show, Value, List, Rows and Table. These make control characters visible, because what
// they print may come from a server or another organization.
type Streams struct {
	In io.Reader
	// RawOut and RawErr change nothing. TestOnlyOnePrinter lists who may write to them.
	RawOut io.Writer
	RawErr io.Writer
	// JSON reports whether --json was given.
	JSON bool
}

// Log returns standard error for a logger.
func (s *Streams) Log() io.Writer { return visibleWriter{s.RawErr} }

// Value writes v as one line of JSON.
func (s *Streams) Value(v any) error { return writeJSON(s.RawOut, v) }

func writeJSON(to io.Writer, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = io.WriteString(to, api.Visible(string(text))+"\n")
	return err
}

// List writes items as {"items": [...]}, the one form in which commands print
// lists under --json. An object can get more fields later.
func List[T any](s *Streams, items []T) error {
	if items == nil {
		items = []T{}
	}
	return s.Value(struct {
		Items []T `json:"items"`
	}{items})
}

// Show writes v under --json, and otherwise a line for a person.
func (s *Streams) Show(v any, format string, args ...any) error {
	if s.JSON {
		return s.Value(v)
	}
	return s.Say(format, args...)
}

// Rows writes items as List does under --json, and otherwise as a table with one row for each.
func Rows[T any](s *Streams, items []T, heading []string, row func(T) []string) error {
	if s.JSON {
		return List(s, items)
	}
	rows := [][]string{heading}
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return s.Table(rows)
}

// Collect returns the items of a sequence, at most limit of them if it is not 0.
func Collect[T any](items iter.Seq2[T, error], limit int) (found []T, err error) {
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		if found = append(found, item); len(found) == limit {
			break
		}
	}
	return found, nil
}

// Read returns the content of a file of at most limit bytes. The file "-" is standard input.
func (s *Streams) Read(name string, limit int) ([]byte, error) {
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return text, err
}

// Payload returns the given text, or the content of standard input.
func (s *Streams) Payload(text string) ([]byte, error) {
	if text != "" && text != "-" {
		return []byte(text), nil
	}
	if IsTerminal(s.In) {
		s.Note("reading the message from standard input; end with Ctrl-D")
	}
	body, err := io.ReadAll(io.LimitReader(s.In, e2ee.PayloadBytesMax+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0:
		return nil, ExitError{Code: ExitUsage, Err: errors.New("the message is empty")}
	case len(body) > e2ee.PayloadBytesMax:
		return nil, ExitError{Code: ExitUsage, Err: fmt.Errorf("the message on standard input is longer than the limit of %d bytes", e2ee.PayloadBytesMax)}
	}
	return body, nil
}

// Say writes a line for a person on standard output, by the rules of Format.
func (s *Streams) Say(format string, args ...any) error {
	_, err := fmt.Fprintln(s.RawOut, Format(format, args...))
	return err
}

// Note writes a line on standard error: progress and hints, never results.
func (s *Streams) Note(format string, args ...any) {
	_, _ = fmt.Fprintln(s.RawErr, Format(format, args...))
}

// Table writes rows in aligned columns; the first row is the heading.
func (s *Streams) Table(rows [][]string) error {
	w := tabwriter.NewWriter(s.RawOut, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = api.Visible(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Exact returns the standard output for data that a file or another program gets as it is. A
// terminal gets it with what it could obey as escapes.
func (s *Streams) Exact() io.Writer {
	if IsTerminal(s.RawOut) {
		return visibleWriter{s.RawOut}
	}
	return s.RawOut
}

// IsTerminal reports whether a stream is a character device other than /dev/null.
func IsTerminal(stream any) bool {
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

// Clock formats a time in the local time zone.
func Clock(t api.Time) string { return t.Local().Format(time.DateTime) }

// Text returns an optional text, or a dash if there is none.
func Text(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// Given returns a text, or nil if it is empty.
func Given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Redacted returns a URL without the password that it may contain.
func Redacted(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return parsed.Redacted()
}
