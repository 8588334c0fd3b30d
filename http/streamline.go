package http

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"parley"
)

// lines is a listener that bounds how many connections are open, streams
// included, and whose connections streams can take from the engine.
//
// A connection beyond the bound is refused at once: the process must never run
// out of descriptors, of which the journal needs some too, and the engine takes a
// failure to accept for its end.
//
// The engine can leave a connection to a handler too, but then it never uses
// the connection's buffers again: 16 KiB of garbage for every stream that
// opens, many times what the stream itself holds.
type lines struct {
	net.Listener
	most int64
	open atomic.Int64
	// refusal is what a connection beyond the bound is told.
	refusal func() []byte
	// refusing has room for those that are being told.
	refusing chan struct{}
}

const (
	// acceptPause is how long a process without descriptors or memory waits before
	// it accepts again.
	acceptPause = 50 * time.Millisecond
	// refusalsAtOnce bounds who is refused in words, each for refusalWait at most;
	// the others are cut off.
	refusalsAtOnce = 64
	refusalWait    = time.Second
	// refusalReads bounds what is read of one that is refused: to close with its
	// request unread would take the refusal away from it.
	refusalReads = 64 << 10
)

func newLines(ln net.Listener, most int, refusal func() []byte) *lines {
	return &lines{Listener: ln, most: int64(most), refusal: refusal, refusing: make(chan struct{}, refusalsAtOnce)}
}

// Accept gives the next connection that is within the bound.
func (l *lines) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil && l.open.Add(1) <= l.most:
			return &line{Conn: conn, of: l}, nil
		case err == nil:
			l.open.Add(-1)
			l.refuse(conn)
		case isScarcity(err):
			time.Sleep(acceptPause)
		default:
			return nil, err
		}
	}
}

// isScarcity reports whether an accept failed for want of what others may give
// back.
func isScarcity(err error) bool {
	for _, want := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// refuse tells a connection that there is no room, without waiting for it.
func (l *lines) refuse(conn net.Conn) {
	select {
	case l.refusing <- struct{}{}:
	default:
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-l.refusing }()
		defer func() { _ = conn.Close() }()
		timer := time.AfterFunc(refusalWait, func() { _ = conn.Close() })
		defer timer.Stop()
		if _, err := conn.Write(l.refusal()); err != nil {
			return
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.CopyN(io.Discard, conn, refusalReads)
		}
	}()
}

// crowded is the whole answer to a connection for which there is no room.
func (s *Server) crowded() []byte {
	id, p := s.newRequestID(), problemOf(parley.ErrOverloaded)
	body := p.body(id)
	b := []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + jsonMedia + "\r\nConnection: close\r\n" +
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Request-Id: " + id +
		"\r\nRetry-After: " + strconv.Itoa(wholeSeconds(p.extra["retry_after"])) + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	return append(b, body...)
}

// line is a connection as the engine sees it.
type line struct {
	net.Conn
	of     *lines
	taken  atomic.Bool
	closed atomic.Bool
}

// Close closes the connection unless a stream has it.
func (l *line) Close() error {
	if l.taken.Load() {
		return nil
	}
	err := l.Conn.Close()
	l.leave()
	return err
}

// leave gives the connection's place to another, once it is closed.
func (l *line) leave() {
	if !l.closed.Swap(true) {
		l.of.open.Add(-1)
	}
}

// takeOver gives the connection below what the engine hands to a hijack
// handler, and the line that it was, nil if there was none. From then on both are
// the caller's to close and to leave.
func takeOver(conn net.Conn) (net.Conn, *line) {
	if hijacked, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
		conn = hijacked.UnsafeConn()
	}
	l, ok := conn.(*line)
	if !ok {
		return conn, nil
	}
	l.taken.Store(true)
	return l.Conn, l
}
