package http

import (
	"net"
	"sync/atomic"
	"time"

	"parley/http/overload"
)

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
	// starts: the engine has it and has not begun to read. busy: a request has come
	// whole and is not answered.
	starts, busy atomic.Bool
	// departs: an answer is being written.
	departs atomic.Bool
	// state is lineServes, lineGone, or what it waits for with since when.
	state atomic.Int64
}

// What a line does. Whatever waits is a kind and the time since when, so that of
// several lines the least state is the one that may go first.
const (
	lineGone   = -1 // it has made room for another
	lineServes = 0  // it serves a request

	kindShift   = 60
	lineWaits   = 0 << kindShift // for a request, which may have come in part
	lineDeparts = 1 << kindShift // for its client to take an answer
	lineRests   = 2 << kindShift // for what may not come for long, such as a message
	lineStreams = 3 << kindShift
	sinceMask   = 1<<kindShift - 1
)

// since is a kind as it begins now.
func (l *line) since(kind int64) int64 { return kind | l.of.now() }

// serves notes that a request has come, and reports whether it may be served: not
// if the connection has made room for another, since its answer would be lost.
func (l *line) serves() bool {
	state := l.state.Load()
	if state == lineGone || state != lineServes && !l.state.CompareAndSwap(state, lineServes) {
		return false
	}
	if !l.busy.Swap(true) {
		l.own.busy.Add(1)
	}
	return true
}

func serves(conn net.Conn) bool {
	l, ok := conn.(*line)
	return !ok || l.serves()
}

// answered notes that no request is under way.
func (l *line) answered() {
	if l.busy.Load() && l.busy.Swap(false) {
		l.own.busy.Add(-1)
	}
}

// rest notes that the request waits for what may not come for long: meanwhile the
// connection may make room for another. The request goes on with resume.
func (l *line) rest() (resume func()) {
	state := l.since(lineRests)
	if !l.state.CompareAndSwap(lineServes, state) {
		return func() {}
	}
	return func() { l.state.CompareAndSwap(state, lineServes) }
}

func rest(conn net.Conn) (resume func()) {
	if l, ok := conn.(*line); ok {
		return l.rest()
	}
	return func() {}
}

// fewBeside reports whether few requests are under way on all connections of an
// address, this one's included. It is not known of proxies.
func fewBeside(conn net.Conn) bool {
	l, ok := conn.(*line)
	return ok && l.own.bounded && l.own.busy.Load() <= overload.Few
}

// rest is that of the call's connection.
func (c *Call) rest() (resume func()) { return rest(c.ctx.Conn()) }

// evicted reports whether the call's connection has made room for another.
func (c *Call) evicted() bool {
	l, ok := c.ctx.Conn().(*line)
	return ok && l.state.Load() == lineGone
}

// SetReadDeadline is what the engine does when it begins to wait for a request.
func (l *line) SetReadDeadline(t time.Time) error {
	if l.starts.Load() && l.starts.Swap(false) {
		l.of.started()
	}
	if l.state.CompareAndSwap(lineServes, l.since(lineWaits)) {
		l.answered()
		l.of.all.waits()
		l.own.waits()
	}
	return l.Conn.SetReadDeadline(t)
}

// Write sends a piece of an answer. While the client does not take it, the
// connection may make room for another.
func (l *line) Write(p []byte) (int, error) {
	state := l.since(lineDeparts)
	departs := l.state.CompareAndSwap(lineServes, state)
	l.departs.Store(true)
	n, err := l.Conn.Write(p)
	l.departs.Store(false)
	if err != nil {
		l.discard()
	}
	if departs {
		l.state.CompareAndSwap(state, lineServes)
	}
	return n, err
}

// yields is how a connection makes room for a request of another, nil if it cannot.
func yields(conn net.Conn) func() (finish func()) {
	if l, ok := conn.(*line); ok {
		return l.yield
	}
	return nil
}

// yield has the connection make room, unless it serves a request just now or is gone.
// The connection is to be closed then, which is left to finish.
func (l *line) yield() (finish func()) {
	for {
		state := l.state.Load()
		if state <= lineServes || l.of.bounds.settled {
			return nil
		}
		if l.state.CompareAndSwap(state, lineGone) {
			break
		}
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.forget(l)
	l.of.count.Evicted++
	return l.end
}

// end closes a connection that makes room: who waits for it notices.
func (l *line) end() {
	if l.departs.Load() {
		l.discard()
	}
	_ = l.Conn.Close()
}

// discard has the kernel forget, when the connection is closed, what the client has
// not taken: it would be kept for minutes, and nothing counts it.
func (l *line) discard() {
	if tcp, ok := l.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// Close closes the connection unless a stream has it.
func (l *line) Close() error {
	if l.taken.Load() {
		return nil
	}
	if l.lingers.Load() {
		l.rest()
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
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	for state := l.state.Load(); state != lineGone && !l.state.CompareAndSwap(state, l.since(lineStreams)); {
		state = l.state.Load()
	}
	l.answered()
	if !l.taken.Swap(true) && !l.closed {
		l.of.served--
		l.of.ranks[servedRank].add(l.own, -1)
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
