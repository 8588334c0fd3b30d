package client

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// transcribe returns what the parser reads from a stream.
func transcribe(r io.Reader) (string, *eventReader, error) {
	e := newEventReader(r)
	var b strings.Builder
	for {
		block, err := e.next()
		if err != nil {
			return b.String(), e, err
		}
		if block.hasData {
			fmt.Fprintf(&b, "%s|%s|%s;", block.event, block.data, e.lastID)
		} else {
			fmt.Fprintf(&b, "@%s;", e.lastID)
		}
	}
}

func TestEventStream(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"one event", "event: message\nid: 1\ndata: {}\n\n", "message|{}|1;"},
		{"carriage returns", "event: a\rdata: 1\r\rdata: 2\r\r", "a|1|;|2|;"},
		{"both", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", "a|1|;|2|;"},
		{"all three", "data: 1\r\n\ndata: 2\n\rdata: 3\r\r\n", "|1|;|2|;|3|;"},
		{"several lines", "data: 1\ndata:2\ndata\n\n", "|1\n2\n|;"},
		{"empty data is data", "data\n\n", "||;"},
		{"only one space goes", "data:  x \n\n", "| x |;"},
		{"no space", "data:x:y\n\n", "|x:y|;"},
		{"comments", ":\n: hello\ndata: 1\n:data: 2\n\n", "|1|;"},
		{"id alone", "id: 7\n\ndata: 1\n\n", "@7;|1|7;"},
		{"id stays", "id: 7\ndata: 1\n\ndata: 2\n\n", "|1|7;|2|7;"},
		{"id cleared", "id: 7\ndata: 1\n\nid\ndata: 2\n\n", "|1|7;|2|;"},
		{"id with NUL", "id: 7\ndata: 1\n\nid: 8\x00\ndata: 2\n\n", "|1|7;|2|7;"},
		{"id of an event cut off", "id: 7\n\nid: 8\ndata: 1\n", "@7;"},
		{"id after a blank line only", "id: 7\n", ""},
		{"event name does not stay", "event: a\n\ndata: 1\n\n", "|1|;"},
		{"last name wins", "event: a\nevent: b\ndata: 1\n\n", "b|1|;"},
		{"unknown fields", "foo: 1\nDATA: 2\n data: 3\ndata: 4\n\n", "|4|;"},
		{"byte order mark", "\ufeffdata: 1\n\n", "|1|;"},
		{"only the first mark", "\ufeff\ufeffdata: 1\n\ndata: 2\n\n", "|2|;"},
		{"mark later", "data: 1\n\n\ufeffdata: 2\n\n", "|1|;"},
		{"cut off", "data: 1\n\ndata: 2\n", "|1|;"},
		{"blank lines", "\n\n\n", ""},
		{"empty", "", ""},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, _, err := transcribe(r)
			if got != c.want || !errors.Is(err, io.EOF) {
				t.Errorf("%s (%s): %q, want %q (%v)", c.name, how, got, c.want, err)
			}
		}
	}
}

func TestRetryField(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"retry: 3000\n\n": 3 * time.Second, "retry:5\n": 5 * time.Millisecond, "retry: 5s\n\n": 0, "retry: -5\n\n": 0, "retry\n\n": 0,
		"retry: 99999999999999999999\n\n": 0, "retry: 1\nretry: x\n\n": time.Millisecond,
	} {
		if _, e, _ := transcribe(strings.NewReader(in)); e.retry != want {
			t.Errorf("%q: %v, want %v", in, e.retry, want)
		}
	}
}

// TestCarriageReturnEndsALineAtOnce: a line end that may be the first half of CRLF must
// not wait for the second half.
func TestCarriageReturnEndsALineAtOnce(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	go func() { _, _ = io.WriteString(w, "data: 1\r\r") }()
	done := make(chan string)
	go func() {
		b, _ := newEventReader(r).next()
		done <- string(b.data)
	}()
	select {
	case got := <-done:
		if got != "1" {
			t.Fatalf("%q", got)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the event is delayed")
	}
}

// endless returns one byte forever.
type endless byte

func (b endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

func TestStreamsCannotFillMemory(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"line":    io.MultiReader(strings.NewReader("data: "), endless('x')),
		"comment": io.MultiReader(strings.NewReader(":"), endless('x')),
		"event":   strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2000) + "\n"),
	} {
		if _, _, err := transcribe(r); !errors.Is(err, ErrEventTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzEventStream: whatever the bytes and however they are split, the parser does not
// panic, reads the same events, and finds no event that a simple parser by lines does
// not find.
func FuzzEventStream(f *testing.F) {
	for _, seed := range []string{"event: a\r\nid: 1\rdata: x\n\n", "\ufeffretry: 10\n\nid\n\n", ":c\r\r\ndata\ndata\n\n\n", "id: \x00\ndata:1\r\n\r"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, _, err := transcribe(strings.NewReader(in))
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrEventTooLong) {
			t.Fatalf("ended with %v", err)
		}
		if again, _, _ := transcribe(iotest.OneByteReader(strings.NewReader(in))); again != got {
			t.Fatalf("whole %q, byte by byte %q", got, again)
		}
		if len(in) < eventBytesMax {
			if want := naive(in); want != got {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	})
}

// naive is the algorithm of the standard, applied to a whole text.
func naive(in string) string {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	var b strings.Builder
	var event, data, lastID string
	id, hasData := "", false
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if hasData {
				fmt.Fprintf(&b, "%s|%s|%s;", event, data[1:], id)
			} else if id != lastID {
				fmt.Fprintf(&b, "@%s;", id)
			}
			lastID, event, data, hasData = id, "", "", false
		case name == "event":
			event = value
		case name == "data":
			data, hasData = data+"\n"+value, true
		case name == "id" && usableID([]byte(value)):
			id = value
		}
	}
	return b.String()
}
