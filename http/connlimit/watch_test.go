package connlimit

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// watchedPair is a hijacked connection that is watched, and its client.
type watchedPair struct {
	client, below net.Conn
	line          *Conn
	gone          chan struct{} // has room for two signals
}

// watching returns a function that makes such pairs.
func watching(t *testing.T) func() *watchedPair {
	ln, dial := lineIn(t)
	l := Limit(ln, atMost(1<<20), time.Now, nil)
	return func() *watchedPair {
		t.Helper()
		p := &watchedPair{client: dial(), gone: make(chan struct{}, 2)}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Time{}) // as the server does before it reads a request
		serving(conn)
		p.below, p.line = Hijack(conn)
		Watch(p.below, p.line, func() { p.gone <- struct{}{} })
		return p
	}
}

func (p *watchedPair) leave() {
	_ = p.below.Close()
	p.line.Leave()
}

func (p *watchedPair) wait(t *testing.T, what string) {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(10 * time.Second):
		t.Errorf("%s is not noticed", what)
	}
}

// TestWatchNoticesTheEnd: every way in which a connection ends is noticed once, also after
// the client has sent something, and no other connection is reported.
func TestWatchNoticesTheEnd(t *testing.T) {
	pair := watching(t)
	stays := pair()
	if _, err := io.WriteString(stays.client, "ignored"); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(p *watchedPair){
		"a close":              func(p *watchedPair) { _ = p.client.Close() },
		"a half-closed client": func(p *watchedPair) { _ = p.client.(*net.TCPConn).CloseWrite() },
		"a reset": func(p *watchedPair) {
			_ = p.client.(*net.TCPConn).SetLinger(0)
			_ = p.client.Close()
		},
		"an eviction": func(p *watchedPair) { p.line.evict()() },
	} {
		p := pair()
		if _, err := io.WriteString(p.client, "ignored"); err != nil {
			t.Fatal(err)
		}
		end(p)
		p.wait(t, name)
		p.leave()
		if len(p.gone) != 0 {
			t.Errorf("%s is noticed twice", name)
		}
	}
	if len(stays.gone) != 0 {
		t.Error("data, or the end of another connection, is taken for an end")
	}
	_ = stays.client.Close()
	stays.wait(t, "the close of another")
	stays.leave()
}

// TestWatchEndsWhenTheServerCloses: what the server closes itself is not reported, nor is it
// for the connection that gets its descriptor.
func TestWatchEndsWhenTheServerCloses(t *testing.T) {
	pair := watching(t)
	for round := range 100 {
		p, another := pair(), pair()
		stays := round%2 == 1
		if !stays {
			_ = p.client.Close() // its end may or may not be noticed before the server closes
		}
		p.leave()
		next := pair()
		_ = another.client.Close()
		another.wait(t, "the close of another, after the server closed one") // all earlier events were handled
		if len(next.gone) != 0 || stays && len(p.gone) != 0 {
			t.Fatal("the end of a connection is reported for the next one, or for one that the server closed")
		}
		another.leave()
		next.leave()
	}
}

// TestWatchIsFair: a client that sends without end delays no other. It may send more than
// the buffers of the kernel hold.
func TestWatchIsFair(t *testing.T) {
	pair := watching(t)
	flood, other := pair(), pair()
	var sent atomic.Int64
	go func() {
		for b := make([]byte, 64<<10); ; sent.Add(int64(len(b))) {
			if _, err := flood.client.Write(b); err != nil {
				return
			}
		}
	}()
	await(t, "data is not read", func() bool { return sent.Load() > 64<<20 })
	_ = other.client.Close()
	other.wait(t, "a close beside a flood")
	_ = flood.client.Close()
	flood.wait(t, "the end of a flood")
	other.leave()
	flood.leave()
}

// TestWatchLeaksNothing: after 1,000 connections no goroutine and no descriptor is left.
func TestWatchLeaksNothing(t *testing.T) {
	pair := watching(t)
	round := func(n int) {
		var all []*watchedPair
		for range n {
			all = append(all, pair())
		}
		for _, p := range all {
			_ = p.client.Close()
			p.wait(t, "a close")
			p.leave()
		}
	}
	round(1) // starts what stays
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for range 10 {
		round(100)
	}
	await(t, "goroutines or descriptors are left", func() bool { return runtime.NumGoroutine() <= goroutines && openFiles() <= files })
}

// openFiles returns how many descriptors the process has, 0 where that is not known.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
