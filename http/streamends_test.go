package http

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
)

// TestEndOfAnIdleStreamIsNoticed: on real sockets the server notices every end of a client
// at once, long before a heartbeat. A client that has closed its sending half counts as gone.
func TestEndOfAnIdleStreamIsNoticed(t *testing.T) {
	h := harnessOnSockets(t)
	defer h.close()
	alice, token := h.agent("alice"), h.token(h.client)
	stays := h.listen(alice, token, "")
	defer stays.conn.Close()
	if _, err := io.WriteString(stays.conn, "GET / HTTP/1.1\r\n\r\n"); err != nil { // is ignored
		t.Fatal(err)
	}
	for name, end := range map[string]func(*net.TCPConn) error{
		"closed":      (*net.TCPConn).Close,
		"half-closed": (*net.TCPConn).CloseWrite,
		"reset":       func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		l := h.listen(alice, token, "")
		await(t, name+": the stream is not open", func() bool { return h.service.OpenStreams() == 2 })
		if err := end(l.conn.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
		await(t, name+": the end is not noticed", func() bool { return h.service.OpenStreams() == 1 })
		if _, err := l.lines.ReadByte(); name == "half-closed" && !errors.Is(err, io.EOF) {
			t.Errorf("a half-closed client gets %v instead of the end", err)
		}
		_ = l.conn.Close()
	}
}

// TestStreamsLeaveNothing: after 1,000 streams no goroutine and no descriptor is left.
func TestStreamsLeaveNothing(t *testing.T) {
	h := harnessOnSockets(t)
	defer h.close()
	alice, token := h.agent("alice"), h.token(h.client)
	round := func(streams int) {
		var all []*streamReader
		for range streams {
			all = append(all, h.listen(alice, token, ""))
		}
		for _, l := range all {
			_ = l.conn.Close()
		}
		await(t, "a stream stays open", func() bool { return h.service.OpenStreams() == 0 })
	}
	round(100) // starts what stays: the pumps, the engine's workers
	goroutines, files := runtime.NumGoroutine(), descriptors()
	for range 10 {
		round(100)
	}
	await(t, "goroutines or descriptors are left", func() bool { return runtime.NumGoroutine() <= goroutines && descriptors() <= files })
}

// descriptors returns how many files the process has open, 0 where that is not known.
func descriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
