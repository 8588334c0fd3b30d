package api

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"parley/cmd/parley/blackbox/kit"
)

// update writes the observed results into the files of testdata, so that a person can
// review the difference.
var update = flag.Bool("update", false, "write the golden files anew")

// A file of raw requests is a txtar archive. Each part is what a client writes to a
// socket, up to the line that begins with =>, which states the expected result. Every
// line ends in CR LF unless it ends in a backslash; \r
//
//	\t \0 \xHH and \\ mean the same as in Go; {{x*1000}} is x a thousand times; {{pause}}
//
// on a line of its own pauses briefly; {{token}}, {{agent}} and {{poll}} are values that
// the server issued.
//
// Unless its name ends in [alone], a well-formed request for /version follows
// immediately. "open" means that the server answered it too, "closed" that the server
// closed the connection without answering it, "waits" that nothing arrived until the
// client closed its side. Answers are joined by +. Each is a status and, if there is one,
// the error code.
const rawFile = "testdata/raw.txtar"

// behind follows every request. No other request has its id.
const behind = "GET /version HTTP/1.1\r\nHost: h\r\nX-Request-ID: behind\r\n\r\n"

// rawCase is one part of a file of raw requests.
type rawCase struct {
	name  string
	lines []string
	want  string
}

func rawCases(t testing.TB, archive *txtar.Archive) []rawCase {
	t.Helper()
	var cases []rawCase
	for _, part := range archive.Files {
		text, want, ok := strings.Cut(string(part.Data), "\n=> ")
		if !ok {
			t.Fatalf("%s: no line states the expected result", part.Name)
		}
		cases = append(cases, rawCase{part.Name, strings.Split(text, "\n"), strings.TrimSpace(want)})
	}
	return cases
}

var rawRepeat = regexp.MustCompile(`\{\{([^{}]+?)\*(\d+)\}\}`)

// pieces returns the bytes of a case, split at its pauses.
func (c rawCase) pieces(t testing.TB, known map[string]string) (pieces []string) {
	t.Helper()
	piece := ""
	for _, line := range c.lines {
		if line == "{{pause}}" {
			pieces, piece = append(pieces, piece), ""
			continue
		}
		line, open := strings.CutSuffix(line, `\`)
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(line, `"`, `\"`), `\0`, `\x00`) + `"`)
		if err != nil {
			t.Fatalf("%s: %q: %v", c.name, line, err)
		}
		for name, value := range known {
			text = strings.ReplaceAll(text, "{{"+name+"}}", value)
		}
		piece += rawRepeat.ReplaceAllStringFunc(text, func(found string) string {
			m := rawRepeat.FindStringSubmatch(found)
			n, _ := strconv.Atoi(m[2])
			return strings.Repeat(m[1], n)
		})
		if !open {
			piece += "\r\n"
		}
	}
	if !strings.HasSuffix(c.name, "[alone]") {
		piece += behind
	}
	return append(pieces, piece)
}

// patience is how long a server may be silent before the result is "waits".
func (c rawCase) patience() time.Duration {
	if strings.Contains(c.want, "waits") {
		return time.Second
	}
	return 5 * time.Second
}

// play runs a case and returns the result.
func (c rawCase) play(t testing.TB, addr string, known map[string]string) string {
	t.Helper()
	return playRaw(addr, c.pieces(t, known), c.patience())
}

// playRaw writes pieces to a socket and returns the result.
func playRaw(addr string, pieces []string, patience time.Duration) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i, piece := range pieces {
			if i > 0 {
				time.Sleep(50 * time.Millisecond)
			}
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
		}
	}()
	ear := &rawReader{conn: conn, in: bufio.NewReader(conn), head: strings.HasPrefix(pieces[0], "HEAD ")}
	end := ear.listen(patience)
	if end != "waits" {
		return strings.Join(ear.heard, " + ") + ", " + end
	}
	<-wrote
	before := strings.Join(append(ear.heard, "waits"), " + ")
	ear.heard = nil
	_ = conn.(*net.TCPConn).CloseWrite()
	end = ear.listen(5 * time.Second)
	return before + ", then " + strings.Join(ear.heard, " + ") + ", " + end
}

// rawReader is the client's reading side.
type rawReader struct {
	conn  net.Conn
	in    *bufio.Reader
	head  bool // the first request is a HEAD: its answer has no body
	heard []string
}

// listen reads answers until the one to the request behind, the end of the connection, or
// silence.
func (e *rawReader) listen(patience time.Duration) string {
	for {
		_ = e.conn.SetReadDeadline(time.Now().Add(patience))
		asked := &http.Request{Method: "GET"}
		if e.head && len(e.heard) == 0 {
			asked.Method = "HEAD"
		}
		answer, err := http.ReadResponse(e.in, asked)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(answer.Body)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "waits"
		case err != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, new(*net.OpError))):
			if len(e.heard) == 0 {
				e.heard = append(e.heard, "nothing")
			}
			return "closed"
		case err != nil:
			e.heard = append(e.heard, "no HTTP: "+err.Error())
			return "closed"
		case answer.Header.Get("X-Request-ID") == "behind" && answer.StatusCode == 200:
			return "open"
		}
		e.heard = append(e.heard, kit.SummaryOf(answer.StatusCode, body))
	}
}

// rawArchive reads the file of raw requests.
func rawArchive(t testing.TB) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(rawFile)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// TestRawRequests sends every raw request to the server. After each one the server still
// answers on a new connection.
func TestRawRequests(t *testing.T) {
	archive := rawArchive(t)
	cases := rawCases(t, archive)
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, peer := o.Agent("raw"), o.Agent("peer")
		known := map[string]string{"token": o.Token, "agent": g.ID, "peer": peer.ID, "poll": strings.TrimPrefix(g.PollURL, s.Base)}
		got := kit.Concurrently(len(cases), func(i int) string {
			outcome := cases[i].play(t, s.Addr, known)
			if a := s.Call(t, "", "GET", "/health", nil); a.Err != nil || a.Status != 200 {
				a.Errorf("after %s", cases[i].name)
			}
			return outcome
		})
		for i, c := range cases {
			if got[i] != c.want && !*update {
				t.Errorf("%s\n  got  %s\n  want %s", c.name, got[i], c.want)
			}
		}
		if len(cases) < 60 {
			t.Errorf("only %d raw requests", len(cases))
		}
		for _, row := range peer.Everything() {
			if row["type"] != "raw.v1.meant" {
				t.Errorf("an unexpected message arrived: %v", row)
			}
		}
		if *update && s == kit.Variants[0].Server {
			for i, c := range cases {
				archive.Files[i].Data = []byte(strings.Join(c.lines, "\n") + "\n=> " + got[i] + "\n\n")
			}
			if err := os.WriteFile(rawFile, txtar.Format(archive), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRawRequestsControl sends them to a server that treats an empty line as the end of a
// request and answers 200. Nearly all cases must fail.
func TestRawRequestsControl(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go answerAnything(conn)
		}
	}()
	cases := rawCases(t, rawArchive(t))
	got := kit.Concurrently(len(cases), func(i int) string { return cases[i].play(t, ln.Addr().String(), nil) })
	refused, served := 0, 0
	for i, c := range cases {
		if !strings.HasPrefix(c.want, "4") || !strings.HasSuffix(c.want, ", closed") {
			continue
		}
		if refused++; got[i] == c.want {
			t.Errorf("%s: %s, from a server that rejects nothing", c.name, got[i])
		}
		if strings.HasSuffix(got[i], ", open") {
			served++
		}
	}
	if refused < 40 || served < refused/2 {
		t.Errorf("the file has %d requests that must be rejected; a lenient server continued after %d", refused, served)
	}
}

func answerAnything(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for said := []byte(nil); ; {
		line, err := in.ReadSlice('\n')
		said = append(said, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			continue
		}
		id := "any"
		if bytes.Contains(said, []byte("X-Request-ID: behind")) {
			id = "behind"
		}
		said = nil
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Request-ID: %s\r\nContent-Length: 0\r\n\r\n", id); err != nil {
			return
		}
	}
}
