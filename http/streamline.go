package http

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"parley"
	"parley/http/limit"
)

// lines is a listener that bounds how many connections are open, streams
// included, in all and of one address, and whose connections streams can take from
// the engine.
//
// Where there is no room for a newcomer, a connection of the address goes that has by
// far the most of them, whatever it waits for: whoever holds many places cannot keep
// others out. If no address has, the connection goes that has waited longest for a
// request, or else for its client to take an answer; of the newcomer's address if that
// has as many as it may, or has many itself. Where none may go, the newcomer is refused
// at once: the process must never run out of descriptors, of which the journal needs
// some too, and the engine takes a failure to accept for its end.
//
// The engine gets connections a few at a time, one address after the other: in a
// flood of newcomers from one address those of others do not wait, nor do requests on
// connections that the engine has.
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

	accepting sync.Once
	mu        sync.Mutex
	all       lineSet
	addresses map[string]*lineSet
	served    int // that no stream has taken
	ranks     [ranksMade]rank
	count     LineCount
	// turns are addresses with connections that the engine does not have yet, the
	// next first; starting is how many it has got and not begun to read.
	some     sync.Cond
	turns    []*lineSet
	starting int
	failed   error // of the listener
}

// lineBounds are how many connections may be open.
type lineBounds struct {
	// most is all of them, served those that no stream has taken, each those of one
	// address.
	most, served, each int
	// exempt are addresses that each does not hold for.
	exempt func(netip.Addr) bool
	// many and starting are manyLines and startingMost; tests set others.
	many, starting int
	// settled has no connection make room for another: so it was before, for tests.
	settled bool
}

// LineCount counts what became of connections for which there was no room.
type LineCount struct {
	// Evicted made room, Refused found none.
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
	// startingMost bounds the connections that the engine has not begun to read: each
	// wants the processor.
	startingMost = 8
	// An address with manyLines connections, and manyTimes as many as a newcomer's
	// has, makes room for it.
	manyLines = 8
	manyTimes = 2
	// stalledLeast is how long a client has taken nothing of its answer before its
	// connection makes room, unless its address has by far the most.
	stalledLeast = time.Second
	// refusalReads bounds what is read of one that is refused: to close with its
	// request unread would take the refusal away from it.
	refusalReads = 2 << 20
)

func newLines(ln net.Listener, bounds lineBounds, clock parley.Clock, refusal func() []byte) *lines {
	l := &lines{
		Listener: ln, bounds: bounds, clock: clock, began: clock(), refusal: refusal,
		refusing: make(chan struct{}, refusalsAtOnce), addresses: map[string]*lineSet{},
	}
	l.some.L = &l.mu
	if l.bounds.many == 0 {
		l.bounds.many = manyLines
	}
	if l.bounds.starting == 0 {
		l.bounds.starting = startingMost
	}
	for i := range l.ranks {
		l.ranks[i].which = i
	}
	return l
}

// Accept gives the next connection for which there is room.
func (l *lines) Accept() (net.Conn, error) {
	l.accepting.Do(func() { go l.acceptAll() })
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.failed == nil {
		if l.starting < l.bounds.starting {
			if n := l.next(); n != nil {
				l.starting++
				n.starts.Store(true)
				return n, nil
			}
		}
		l.some.Wait()
	}
	return nil, l.failed
}

// acceptAll takes connections from the kernel until the listener fails.
func (l *lines) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			if l.admit(conn) == nil {
				l.refuse(conn)
			}
		case isScarcity(err):
			time.Sleep(acceptPause)
		default:
			l.fail(err)
			return
		}
	}
}

// fail ends Accept, and the connections that the engine will not get.
func (l *lines) fail(err error) {
	l.mu.Lock()
	l.failed = err
	var left []*line
	for n := l.next(); n != nil; n = l.next() {
		l.forget(n)
		left = append(left, n)
	}
	l.mu.Unlock()
	l.some.Broadcast()
	for _, n := range left {
		_ = n.Conn.Close()
	}
}

// next takes the next connection for the engine, one address after the other. The
// caller holds mu.
func (l *lines) next() *line {
	for len(l.turns) > 0 {
		own := l.turns[0]
		n := own.queued[0]
		own.queued[0] = nil
		own.queued = own.queued[1:]
		l.turns[0] = nil
		l.turns = l.turns[1:]
		if len(own.queued) > 0 {
			l.turns = append(l.turns, own)
		}
		if !n.closed {
			return n
		}
	}
	return nil
}

// started has the engine get another connection.
func (l *lines) started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting--
	l.some.Signal()
}

// admit counts a connection and has the engine get it, nil if there is no room for it.
func (l *lines) admit(conn net.Conn) *line {
	n := &line{Conn: conn, of: l}
	n.state.Store(n.since(lineWaits))
	exempt := true
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		address := tcp.AddrPort().Addr().Unmap().WithZone("") // networks have none
		n.address = limit.AddressKey(address)
		exempt = l.bounds.exempt != nil && l.bounds.exempt(address)
	}
	l.mu.Lock()
	own := l.addresses[n.address]
	if own == nil {
		own = &lineSet{place: 1, bounded: !exempt}
	}
	goes, room := l.makeRoom(own)
	if goes != nil {
		l.forget(goes)
		l.count.Evicted++
	}
	if room {
		l.place(n, own)
	} else {
		l.count.Refused++
	}
	l.mu.Unlock()
	if goes != nil {
		goes.end()
	}
	if !room {
		return nil
	}
	return n
}

// makeRoom reports whether there is room for one more connection of an address, and
// which other one goes for it. The caller holds mu.
func (l *lines) makeRoom(own *lineSet) (goes *line, room bool) {
	full, servedFull := len(l.all.lines) >= l.bounds.most, l.served >= l.bounds.served
	stalled, now := mayGo{departing: stalledLeast}, l.now()
	switch {
	case l.bounds.settled:
		return nil, !full && !servedFull && len(own.lines) < l.bounds.each
	case own.bounded && len(own.lines) >= l.bounds.each:
		goes = own.longest(stalled, now)
		return goes, goes != nil
	case !full && !servedFull:
		return nil, true
	}
	which, any := servedRank, mayGo{resting: true}
	if !servedFull {
		which, any.streams = allRank, true
	}
	mine := own.weight[which]
	if h := l.ranks[which].heaviest(); h != nil && h.weight[which] >= max(l.bounds.many, manyTimes*(mine+1)) {
		goes = h.longest(any, now)
	}
	switch {
	case goes != nil:
	case mine >= l.bounds.many:
		goes = own.longest(stalled, now)
	default:
		goes = l.all.longest(stalled, now)
	}
	return goes, goes != nil
}

// place counts a connection. The caller holds mu.
func (l *lines) place(n *line, own *lineSet) {
	n.own = own
	l.all.add(n)
	own.add(n)
	l.addresses[n.address] = own
	l.served++
	l.ranks[allRank].add(own, 1)
	l.ranks[servedRank].add(own, 1)
	if own.queued = append(own.queued, n); len(own.queued) == 1 {
		l.turns = append(l.turns, own)
	}
	l.some.Signal()
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
	l.ranks[allRank].add(n.own, -1)
	if !n.taken.Load() {
		l.served--
		l.ranks[servedRank].add(n.own, -1)
	}
	if n.starts.Swap(false) {
		l.starting--
		l.some.Signal()
	}
	n.answered()
}

// open is how many connections there are, and what became of others.
func (l *lines) stats() (open, addresses int, count LineCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all.lines), len(l.addresses), l.count
}

// now is the time since the listener began, never 0.
func (l *lines) now() int64 { return int64(l.clock().Sub(l.began)) + 1 }

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
