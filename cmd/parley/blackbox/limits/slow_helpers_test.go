package limits

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// observedProcess reads the metrics of a server process.
type observedProcess struct {
	pid   int
	admin string
	token string
}

// watched starts a server whose process can be observed.
func watched(t *testing.T, flags ...string) (*kit.Server, observedProcess) {
	t.Helper()
	admin := kit.FreeAddress(t)
	s := kit.Start(t, append(flags, "--admin-listen", admin)...)
	return s, observedProcess{s.Cmd.Process.Pid, admin, s.AdminToken(t)}
}

// observation is one observation of a server process.
type observation struct {
	goroutines, sockets, streams int
	// streaming is the number of goroutines that serve streams.
	streaming int
	resident  int64
}

func (s observation) String() string {
	return fmt.Sprintf("%d goroutines (%d of streams), %d sockets, %d streams, %d MiB", s.goroutines, s.streaming, s.sockets, s.streams, s.resident>>20)
}

func (in observedProcess) ask(t testing.TB, path string) string {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+in.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+in.token)
	resp, err := kit.AdminClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	return string(text)
}

var (
	goroutineGroup = regexp.MustCompile(`(?m)^(\d+) @ .*\n(?:#.*\n)*`)
	streamsOpen    = regexp.MustCompile(`(?m)^parley_streams_open (\d+)`)
	residentSize   = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)
)

// observe observes the server. It does not count the connections of this process's clients.
func (in observedProcess) observe(t testing.TB) (s observation) {
	t.Helper()
	kit.Client.CloseIdleConnections()
	kit.Streaming.CloseIdleConnections()
	profile := in.ask(t, "/debug/pprof/goroutine?debug=1")
	for _, group := range goroutineGroup.FindAllStringSubmatch(profile, -1) {
		n, _ := strconv.Atoi(group[1])
		s.goroutines += n
		if strings.Contains(group[0], "(*agentStream)") {
			s.streaming += n
		}
	}
	if found := streamsOpen.FindStringSubmatch(in.ask(t, "/metrics")); found != nil {
		s.streams, _ = strconv.Atoi(found[1])
	} else {
		t.Fatal("the metrics contain no number of streams")
	}
	dir := fmt.Sprintf("/proc/%d/fd/", in.pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if to, _ := os.Readlink(dir + name.Name()); strings.HasPrefix(to, "socket:") {
			s.sockets++
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.pid))
	if found := residentSize.FindSubmatch(status); found != nil {
		kb, _ := strconv.ParseInt(string(found[1]), 10, 64)
		s.resident = kb << 10
	}
	return s
}

// goroutineSlack is the number of goroutines that may remain after a load without being a
// leak: the worker pools of the HTTP engine and of the actors keep some for the next
// load.
const goroutineSlack = 160

// returnsTo waits until everything is as it was at base, and returns the last observation.
func (in observedProcess) returnsTo(t testing.TB, base observation, within time.Duration) (now observation, is bool) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		now = in.observe(t)
		is = now.streaming <= base.streaming && now.streams <= base.streams && now.sockets <= base.sockets && now.goroutines <= base.goroutines+goroutineSlack
		if is || time.Now().After(deadline) {
			return now, is
		}
	}
}

// manner is the behavior of a stream's client.
type manner string

const (
	reads    manner = "reads"
	neverRds manner = "never reads"
	resets   manner = "resets"
	vanishes manner = "vanishes"
)

// streamReader is a raw stream of an agent.
type streamReader struct {
	manner manner
	conn   *net.TCPConn
	mu     sync.Mutex
	heard  []string // ids of messages, in order of arrival
	last   time.Time
	err    error
	done   chan struct{}
}

// smallBuffers makes the socket buffers of this connection small, so that little data is in
// flight and little is buffered for a reader that does not read.
func smallBuffers(_, _ string, raw syscall.RawConn) error {
	var err error
	if e := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		if err == nil {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		}
	}); e != nil {
		return e
	}
	return err
}

// openStreamReader opens a stream of an agent.
func openStreamReader(g *kit.Agent, m manner) (*streamReader, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second}
	if m == neverRds || m == vanishes {
		dialer.Control = smallBuffers
	}
	conn, err := dialer.Dial("tcp", g.S.Addr)
	if err != nil {
		return nil, err
	}
	e := &streamReader{manner: m, conn: conn.(*net.TCPConn), done: make(chan struct{})}
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", g.Path("/stream"), g.Token); err != nil {
		return nil, err
	}
	// Unbuffered: a client that stops reading must not have read ahead.
	head, one := make([]byte, 0, 512), make([]byte, 1)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		if _, err := conn.Read(one); err != nil {
			return nil, err
		}
		head = append(head, one[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
		return nil, fmt.Errorf("no stream: %.60q", head)
	}
	_ = conn.SetDeadline(time.Time{})
	if m == vanishes {
		return e, dropIncoming(e.conn)
	}
	return e, nil
}

// listen reads messages until the stream ends.
func (e *streamReader) listen() {
	defer close(e.done)
	lines := bufio.NewReaderSize(e.conn, 2048)
	var id string
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			e.err = err
			return
		}
		if after, found := bytes.CutPrefix(line, []byte("id: ")); found {
			id = string(after)
		}
		if bytes.Equal(line, []byte("event: message")) {
			e.mu.Lock()
			e.heard, e.last = append(e.heard, id), time.Now()
			e.mu.Unlock()
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

func (e *streamReader) count() (n int, last time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.heard), e.last
}

// reset sends a TCP reset, like a machine that shuts down.
func (e *streamReader) reset() {
	_ = e.conn.SetLinger(0)
	_ = e.conn.Close()
}

// sameAs reports whether a stream brought exactly these messages in this order.
func (e *streamReader) sameAs(want []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Equal(e.heard, want)
}
