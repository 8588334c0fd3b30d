package httpserver

import (
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

func readChunks(wire string, slow bool) (string, error) {
	from := io.Reader(strings.NewReader(wire))
	if slow {
		from = iotest.OneByteReader(from)
	}
	body, err := io.ReadAll(&chunks{from: from, single: []string{"host"}, may: func(int) error { return nil }})
	return string(body), err
}

func TestChunks(t *testing.T) {
	for name, c := range map[string]struct{ wire, body string }{
		"none":      {"0\r\n\r\n", ""},
		"one":       {"3\r\nabc\r\n0\r\n\r\n", "abc"},
		"two":       {"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", "a0123456789"},
		"extension": {"2;a=b\r\n{}\r\n0\r\n\r\n", "{}"},
		"zeros":     {"0000003\r\nabc\r\n000\r\n\r\n", "abc"},
		"trailer":   {"1\r\na\r\n0\r\nX-A: b\r\n\r\n", "a"},
		"behind":    {"1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n", "a"},
	} {
		for _, slow := range []bool{false, true} {
			if body, err := readChunks(c.wire, slow); body != c.body || err != nil {
				t.Errorf("%s: %q %v", name, body, err)
			}
		}
	}
}

func TestInvalidChunksAreRefused(t *testing.T) {
	for name, wire := range map[string]string{
		"no size": "\r\nabc", "a sign": "+3\r\nabc\r\n0\r\n\r\n", "a prefix": "0x3\r\nabc\r\n0\r\n\r\n", "a space": "3 \r\nabc\r\n0\r\n\r\n",
		"a bare LF": "3\nabc\r\n0\r\n\r\n", "a bare LF behind": "3\r\nabc\n0\r\n\r\n", "a bare CR": "3\rabc\r\n0\r\n\r\n",
		"more bytes than said": "2\r\nabc\r\n0\r\n\r\n", "an endless size": "7fffffffffffffff\r\n", "an endless extension": "1;" + strings.Repeat("a", 300) + "\r\na\r\n0\r\n\r\n",
		"a control character": "1;\x01\r\na\r\n0\r\n\r\n", "a trailer that decides": "0\r\nHost: evil\r\n\r\n", "a folded trailer": "0\r\nX-A: b\r\n c\r\n\r\n",
		"a trailer without a name": "0\r\n: b\r\n\r\n", "a bare LF at the end": "0\r\n\n", "many trailers": "0\r\n" + strings.Repeat("X: y\r\n", 20) + "\r\n",
	} {
		if body, err := readChunks(wire, false); !errors.Is(err, errChunks) {
			t.Errorf("%s: %q %v", name, body, err)
		}
	}
}

// TestTruncatedChunks: the end of the connection never counts as the end of the body.
func TestTruncatedChunks(t *testing.T) {
	whole := "3\r\nabc\r\n1;e\r\nd\r\n0\r\nX-A: b\r\n\r\n"
	for n := range len(whole) {
		if body, err := readChunks(whole[:n], false); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %q %v", whole[:n], body, err)
		}
	}
}

func TestChunksAreCheckedBeforeTheyArrive(t *testing.T) {
	full := errors.New("full")
	_, err := io.ReadAll(&chunks{from: strings.NewReader("2\r\nab\r\n9\r\n"), may: func(total int) error {
		if total > 10 {
			return full
		}
		return nil
	}})
	if !errors.Is(err, full) {
		t.Errorf("the server waits for a chunk that it must refuse: %v", err)
	}
}

// FuzzChunks compares the accepted bodies with those that another reader finds in the
// same bytes.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n", "00a\r\n0123456789\r\n0\r\n\r\n", "1\na\n0\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		body, err := readChunks(wire, false)
		slowly, again := readChunks(wire, true)
		if body != slowly || (err == nil) != (again == nil) {
			t.Fatalf("%q, read byte by byte %q; %v, %v", body, slowly, err, again)
		}
		if err != nil {
			return
		}
		if other, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(wire))); err != nil || string(other) != body {
			t.Fatalf("%q; another reader sees %q, %v", body, other, err)
		}
	})
}
