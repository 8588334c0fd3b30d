package connlimit

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"parley/http/limit"
	"parley/http/overload"
)

// Conn is a connection of a Listener. The server sees requests and answers through it.
type Conn struct {
	net.Conn
	listener    *Listener
	address     string
	sameAddress *connSet // the connections of the same address
	places      [2]int   // in the listener's set of all connections and in sameAddress; under the listener's mu
	closed      bool     // it no longer counts; under the listener's mu
	hijacked    atomic.Bool
	// lingers: the request was refused unread, and the client may still be sending it.
	lingers atomic.Bool
	// starting: the server has accepted it and has not begun to read. busy: a request
	// has been received and is not answered.
	starting, busy atomic.Bool
	// writing: an answer is being written.
	writing atomic.Bool
	// failed: an answer could not be written.
	failed atomic.Bool
	sends  sendQueue
	// state is stateServing, stateEvicted, or a kind of waiting with its start.
	state atomic.Int64
	// number and gone belong to the listener's watcher, under its mu. gone is nil unless
	// the connection is watched.
	number uint64
	gone   func()
}

// The states of a connection. One that waits has a kind and the time at which it began
// to wait, so that of several connections the one with the smallest state is evicted
// first.
const (
	stateEvicted = -1 // its place was given to another
	stateServing = 0  // a request is being served

	kindShift   = 60
	kindIdle    = 0 << kindShift // for a request, perhaps for the rest of one
	kindWriting = 1 << kindShift // for its client to read an answer
	kindParked  = 2 << kindShift // for an event, such as a message
	kindStream  = 3 << kindShift
	sinceMask   = 1<<kindShift - 1
)

// since is the state of a connection that begins to wait now.
func (l *Conn) since(kind int64) int64 { return kind | l.listener.now() }

func (l *Conn) serve() bool {
	state := l.state.Load()
	if state == stateEvicted || state != stateServing && !l.state.CompareAndSwap(state, stateServing) {
		return false
	}
	if !l.busy.Swap(true) {
		l.sameAddress.busy.Add(1)
	}
	l.charge(limit.Account{})
	return true
}

// Serve records that a request was received on conn, and reports whether to serve it.
// An evicted connection must not be served: the answer would be lost.
func Serve(conn net.Conn) bool {
	l, ok := conn.(*Conn)
	return !ok || l.serve()
}

// answered records that no request is under way.
func (l *Conn) answered() {
	if l.busy.Load() && l.busy.Swap(false) {
		l.sameAddress.busy.Add(-1)
	}
}

func (l *Conn) park() (resume func()) {
	state := l.since(kindParked)
	if !l.state.CompareAndSwap(stateServing, state) {
		return func() {}
	}
	return func() { l.state.CompareAndSwap(state, stateServing) }
}

// Park records that the request on conn begins to wait for an event. Until it calls
// resume, the connection may be evicted.
func Park(conn net.Conn) (resume func()) {
	if l, ok := conn.(*Conn); ok {
		return l.park()
	}
	return func() {}
}

// Few reports whether at most overload.Few requests are under way on all connections
// of the address of conn. It is false for exempt addresses.
func Few(conn net.Conn) bool {
	l, ok := conn.(*Conn)
	return ok && l.sameAddress.bounded && l.sameAddress.busy.Load() <= overload.Few
}

// Evicted reports whether the place of conn was given to another connection.
func Evicted(conn net.Conn) bool {
	l, ok := conn.(*Conn)
	return ok && l.state.Load() == stateEvicted
}

// Linger makes conn read what its client still sends when it is closed, for a while:
// a client that is refused before its request was read would not see the answer.
func Linger(conn net.Conn) {
	if l, ok := conn.(*Conn); ok {
		l.lingers.Store(true)
	}
}

// Closed reports whether the client has closed its end of conn, or conn was evicted.
// It cannot tell while there is input that nobody has read.
func Closed(conn net.Conn) bool {
	if l, ok := conn.(*Conn); ok {
		if conn = l.Conn; l.state.Load() == stateEvicted {
			return true
		}
	}
	kernel, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := kernel.SyscallConn()
	return err != nil || atEnd(socket)
}

// SetReadDeadline is called by the server when it begins to wait for a request.
func (l *Conn) SetReadDeadline(t time.Time) error {
	if l.starting.Load() && l.starting.Swap(false) {
		l.listener.started()
	}
	if l.state.CompareAndSwap(stateServing, l.since(kindIdle)) {
		l.answered()
		l.listener.all.change()
		l.sameAddress.change()
	}
	return l.Conn.SetReadDeadline(t)
}

// Write sends a part of an answer. While the client does not read it, the connection
// may be evicted.
func (l *Conn) Write(p []byte) (n int, err error) {
	state := l.since(kindWriting)
	waiting := l.state.CompareAndSwap(stateServing, state)
	l.writing.Store(true)
	if l.beginWrite(len(p)) {
		n, err = l.Conn.Write(p)
	} else {
		err = errUnread
	}
	l.endWrite()
	l.writing.Store(false)
	if err != nil {
		l.failed.Store(true)
		l.discard()
	}
	if waiting {
		l.state.CompareAndSwap(state, stateServing)
	}
	return n, err
}

// Evict returns the function that evicts conn to free what its request holds, nil if
// conn cannot be evicted. The function returns nil while the connection serves a
// request; otherwise the caller has to call finish, which closes the connection.
func Evict(conn net.Conn) func() (finish func()) {
	if l, ok := conn.(*Conn); ok {
		return l.evict
	}
	return nil
}

func (l *Conn) evict() (finish func()) {
	for {
		state := l.state.Load()
		if state <= stateServing || l.listener.bounds.Fixed {
			return nil
		}
		if l.state.CompareAndSwap(state, stateEvicted) {
			break
		}
	}
	l.listener.mu.Lock()
	defer l.listener.mu.Unlock()
	l.listener.forget(l)
	l.listener.count.Evicted++
	return l.end
}

// end closes an evicted connection, which ends its reads and writes.
func (l *Conn) end() {
	if l.writing.Load() {
		l.discard()
	}
	_ = Shut(l.Conn)
	if gone := l.listener.watcher.remove(l); gone != nil {
		gone()
	}
}

// discard makes the kernel drop unsent data when the connection is closed: it would
// keep the data for minutes, and nothing bounds how much.
func (l *Conn) discard() {
	if tcp, ok := l.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// Close closes the connection unless it was hijacked.
func (l *Conn) Close() error {
	if l.hijacked.Load() {
		return nil
	}
	if l.lingers.Load() {
		l.park()
		linger(l.Conn)
	}
	if l.closeWhenRead() {
		return nil
	}
	err := l.Conn.Close()
	l.Leave()
	return err
}

// Leave frees the place of a hijacked connection after it was closed, and ends its Watch.
func (l *Conn) Leave() {
	l.listener.watcher.remove(l)
	l.listener.mu.Lock()
	defer l.listener.mu.Unlock()
	l.listener.forget(l)
}

// hijack counts the connection among streams.
func (l *Conn) hijack() {
	l.listener.mu.Lock()
	defer l.listener.mu.Unlock()
	for state := l.state.Load(); state != stateEvicted && !l.state.CompareAndSwap(state, l.since(kindStream)); {
		state = l.state.Load()
	}
	l.answered()
	if !l.hijacked.Swap(true) && !l.closed {
		l.listener.served--
		l.listener.ranks[rankServed].add(l.sameAddress, -1)
	}
}

// Hijack takes a connection from the server. conn is what a hijack handler gets.
// It returns the connection below, which the caller has to close, and the Conn, on which
// the caller has to call Leave afterwards; nil if conn is not from a Listener.
func Hijack(conn net.Conn) (net.Conn, *Conn) {
	if hijacked, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
		conn = hijacked.UnsafeConn()
	}
	l, ok := conn.(*Conn)
	if !ok {
		return conn, nil
	}
	l.handOver()
	l.hijack()
	return l.Conn, l
}
