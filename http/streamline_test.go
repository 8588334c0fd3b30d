package http

import (
	"bufio"
	"errors"
	"io"
	"net"
	stdhttp "net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// moody is a listener that fails in turn with what it is told, and then accepts.
type moody struct {
	net.Listener
	moods []error
}

func (m *moody) Accept() (net.Conn, error) {
	if len(m.moods) == 0 {
		return m.Listener.Accept()
	}
	err := m.moods[0]
	m.moods = m.moods[1:]
	return nil, err
}

func lineIn(t *testing.T) (net.Listener, func() net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln, func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// TestScarcityIsWaitedFor: what others may give back does not end the server;
// everything else does.
func TestScarcityIsWaitedFor(t *testing.T) {
	ln, dial := lineIn(t)
	wrapped := func(e syscall.Errno) error {
		return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", e)}
	}
	l := newLines(&moody{ln, []error{wrapped(syscall.EMFILE), wrapped(syscall.ENFILE), wrapped(syscall.ENOMEM)}}, 1, nil)
	dial()
	if conn, err := l.Accept(); err != nil || conn == nil {
		t.Errorf("without descriptors for a while: %v", err)
	}
	for _, fatal := range []error{net.ErrClosed, io.ErrUnexpectedEOF, wrapped(syscall.EINVAL)} {
		if _, err := newLines(&moody{ln, []error{fatal}}, 1, nil).Accept(); !errors.Is(err, fatal) {
			t.Errorf("%v became %v", fatal, err)
		}
	}
}

// TestLinesAreBounded: who is too many is refused, and whoever closes, or is
// closed twice, makes room for one.
func TestLinesAreBounded(t *testing.T) {
	ln, dial := lineIn(t)
	l := newLines(ln, 2, func() []byte { return []byte("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") })
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	refused := func() {
		t.Helper()
		conn := dial()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if answer, err := stdhttp.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != 503 {
			t.Errorf("one too many: %v %v", answer, err)
		}
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	refused()
	_ = first.Close()
	_ = first.Close()
	dial()
	third := <-accepted
	refused()
	// A stream keeps the place of its connection after the engine let go of it.
	below, line := takeOver(second)
	if _ = second.Close(); line == nil {
		t.Fatal("no line below")
	}
	refused()
	_ = below.Close()
	line.leave()
	line.leave()
	dial()
	_ = (<-accepted).Close()
	_ = third.Close()
	if n := l.open.Load(); n != 0 {
		t.Errorf("%d are counted and none is open", n)
	}
}

// TestTheCrowdedAreAnsweredLikeOthers: a whole answer in the shape of errors.
func TestTheCrowdedAreAnsweredLikeOthers(t *testing.T) {
	s := &Server{newRequestID: func() string { return "r1" }}
	client, server := net.Pipe()
	go func() { _, _ = server.Write(s.crowded()) }()
	answer, err := stdhttp.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, answer.ContentLength)
	_, err = io.ReadFull(answer.Body, body)
	seconds, badly := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || badly != nil || seconds < 1 || answer.StatusCode != 503 || !answer.Close || answer.Header.Get("X-Request-Id") != "r1" {
		t.Errorf("%v %v", err, answer)
	}
	want := `{"detail":"The server is at capacity; nothing was done. Try again shortly.","error":"UnavailableError","code":"overloaded","request_id":"r1","retry_after":1}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
}
