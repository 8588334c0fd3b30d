package http

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"parley"
	"parley/http/limit"
)

// lines is a listener that bounds how many connections are open, streams
// included, in all and of one address, and whose connections streams can take from
// the engine.
//
// Where there is no room for a newcomer, the connection goes that has waited
// longest for a request, of the newcomer's address if that has as many as it may.
// Where none waits, the newcomer is refused at once: the process must never run out
// of descriptors, of which the journal needs some too, and the engine takes a
// failure to accept for its end.
//
// The engine can leave a connection to a handler too, but then it never uses
// the connection's buffers again: 16 KiB of garbage for every stream that
// opens, many times what the stream itself holds.
type lines struct {
	net.Listener
	bounds lineBounds
	clock  parley.Clock
	began  time.Time
	// refusal is what a connection beyond the bound is told.
	refusal func() []byte
	// refusing has room for those that are being told.
	refusing chan struct{}

	mu        sync.Mutex
	all       lineSet
	addresses map[string]*lineSet
	served    int // that no stream has taken
	count     LineCount
}

// lineBounds are how many connections may be open.
type lineBounds struct {
	// most is all of them, served those that no stream has taken, each those of one
	// address.
	most, served, each int
	// exempt are addresses that each does not hold for.
	exempt func(netip.Addr) bool
	// settled has no connection make room for another: so it was before, for tests.
	settled bool
}

// LineCount counts what became of connections for which there was no room.
type LineCount struct {
	// Evicted had waited for a request and made room, Refused found none.
	Evicted, Refused uint64
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
	refusalReads = 2 << 20
)

func newLines(ln net.Listener, bounds lineBounds, clock parley.Clock, refusal func() []byte) *lines {
	return &lines{
		Listener: ln, bounds: bounds, clock: clock, began: clock(), refusal: refusal,
		refusing: make(chan struct{}, refusalsAtOnce), addresses: map[string]*lineSet{},
	}
}

// Accept gives the next connection for which there is room.
func (l *lines) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			if admitted := l.admit(conn); admitted != nil {
				return admitted, nil
			}
			l.refuse(conn)
		case isScarcity(err):
			time.Sleep(acceptPause)
		default:
			return nil, err
		}
	}
}

// admit counts a connection, nil if there is no room for it.
func (l *lines) admit(conn net.Conn) *line {
	n := &line{Conn: conn, of: l}
	n.idle.Store(l.now())
	exempt := true
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		address := tcp.AddrPort().Addr().Unmap()
		n.address = limit.AddressKey(address)
		exempt = l.bounds.exempt != nil && l.bounds.exempt(address)
	}
	l.mu.Lock()
	own := l.addresses[n.address]
	if own == nil {
		own = &lineSet{place: 1}
	}
	goes, room := (*line)(nil), true
	switch {
	case !exempt && len(own.lines) >= l.bounds.each:
		goes = l.makesRoom(own)
		room = goes != nil
	case len(l.all.lines) >= l.bounds.most || l.served >= l.bounds.served:
		goes = l.makesRoom(&l.all)
		room = goes != nil
	}
	if goes != nil {
		l.forget(goes)
		l.count.Evicted++
	}
	if room {
		n.own = own
		l.all.add(n)
		own.add(n)
		l.addresses[n.address] = own
		l.served++
	} else {
		l.count.Refused++
	}
	l.mu.Unlock()
	if goes != nil {
		_ = goes.Conn.Close() // the engine's reader notices
	}
	if !room {
		return nil
	}
	return n
}

// makesRoom is the connection among these that a newcomer takes the place of, nil
// for none. The caller holds mu.
func (l *lines) makesRoom(among *lineSet) *line {
	if l.bounds.settled {
		return nil
	}
	return among.longestIdle()
}

// forget gives up the place of a connection. The caller holds mu.
func (l *lines) forget(n *line) {
	if n.closed {
		return
	}
	n.closed = true
	l.all.remove(n)
	if n.own.remove(n); len(n.own.lines) == 0 {
		delete(l.addresses, n.address)
	}
	if !n.taken.Load() {
		l.served--
	}
}

// open is how many connections there are, and what became of others.
func (l *lines) stats() (open, addresses int, count LineCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all.lines), len(l.addresses), l.count
}

// now is the time since the listener began, never 0.
func (l *lines) now() int64 { return int64(l.clock().Sub(l.began)) + 1 }

// lineSet are connections of which the longest idle one can be found.
type lineSet struct {
	lines []*line
	// place is which of a line's places is that in lines.
	place int
	// oldest are the longest idle as they were found last, with how long, the longest
	// last. Those that became idle since are behind all of them.
	oldest []idleLine
	// unseen: one may be idle that is not among them. While it is not so, nobody
	// looks: a newcomer costs no look at all lines where all of them are at work.
	unseen atomic.Bool
	looks  int // at all lines
}

type idleLine struct {
	line  *line
	since int64
}

// oldestKept is how many idle connections are found at once: a newcomer costs a
// look at all connections once in so many times.
const oldestKept = 64

func (s *lineSet) add(n *line) {
	n.places[s.place] = len(s.lines)
	s.lines = append(s.lines, n)
	s.waits()
}

// waits notes that a line has begun to wait. It writes only if that is news: every
// request comes by here.
func (s *lineSet) waits() {
	if !s.unseen.Load() {
		s.unseen.Store(true)
	}
}

func (s *lineSet) remove(n *line) {
	i, last := n.places[s.place], len(s.lines)-1
	s.lines[i] = s.lines[last]
	s.lines[i].places[s.place] = i
	s.lines[last] = nil
	s.lines = s.lines[:last]
}

// longestIdle takes the connection that has waited longest for a request; from then
// on it serves none. nil: none waits.
func (s *lineSet) longestIdle() *line {
	for looked := false; ; looked = true {
		for n := len(s.oldest) - 1; n >= 0; n-- {
			o := s.oldest[n]
			if s.oldest = s.oldest[:n]; !o.line.closed && o.line.idle.CompareAndSwap(o.since, lineGone) {
				return o.line
			}
		}
		if looked || !s.unseen.Load() {
			return nil
		}
		s.look()
	}
}

// look finds the longest idle connections.
func (s *lineSet) look() {
	s.looks++
	s.unseen.Store(false) // before any is looked at: who begins to wait meanwhile says so again
	s.oldest = s.oldest[:0]
	for _, n := range s.lines {
		since := n.idle.Load()
		if since <= 0 {
			continue
		}
		if len(s.oldest) == oldestKept {
			s.waits() // one of these is left out
			if since >= s.oldest[0].since {
				continue
			}
		}
		at, _ := slices.BinarySearchFunc(s.oldest, since, func(o idleLine, since int64) int { return cmp.Compare(since, o.since) })
		if s.oldest = slices.Insert(s.oldest, at, idleLine{n, since}); len(s.oldest) > oldestKept {
			s.oldest = slices.Delete(s.oldest, 0, 1)
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
		if _, err := conn.Write(l.refusal()); err == nil {
			linger(conn)
		}
	}()
}

// linger ends the sending half of a connection and takes what the client still
// sends, for a while.
func linger(conn net.Conn) {
	timer := time.AfterFunc(refusalWait, func() { _ = conn.Close() })
	defer timer.Stop()
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, refusalReads)
	}
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
	of      *lines
	address string
	own     *lineSet // those of its address
	places  [2]int   // among all lines, and among those of its address; under mu of lines
	closed  bool     // its place is given up; under mu of lines
	taken   atomic.Bool
	// lingers: the client may be sending still what was refused.
	lingers atomic.Bool
	// idle is since when it waits for a request, 0 while it serves one, lineGone
	// when it has made room for another. A request that is not whole is waited for.
	idle atomic.Int64
}

const lineGone = -1

// serves notes that a request has come, and reports whether it may be served: not
// if the connection has made room for another, since its answer would be lost.
func (l *line) serves() bool {
	since := l.idle.Load()
	return since == 0 || since != lineGone && l.idle.CompareAndSwap(since, 0)
}

func serves(conn net.Conn) bool {
	l, ok := conn.(*line)
	return !ok || l.serves()
}

// SetReadDeadline is what the engine does when it begins to wait for a request.
func (l *line) SetReadDeadline(t time.Time) error {
	if l.idle.CompareAndSwap(0, l.of.now()) {
		l.of.all.waits()
		l.own.waits()
	}
	return l.Conn.SetReadDeadline(t)
}

// Close closes the connection unless a stream has it.
func (l *line) Close() error {
	if l.taken.Load() {
		return nil
	}
	if l.lingers.Load() {
		linger(l.Conn)
	}
	err := l.Conn.Close()
	l.leave()
	return err
}

// leave gives the connection's place to another, once it is closed.
func (l *line) leave() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.forget(l)
}

// take has a stream take the connection.
func (l *line) take() {
	l.idle.Store(0)
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.taken.Swap(true) && !l.closed {
		l.of.served--
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
	l.take()
	return l.Conn, l
}
