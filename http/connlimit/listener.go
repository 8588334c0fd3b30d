// Package connlimit bounds the open connections of a server, in total and per client
// address, and decides which connection to close when there is no room for a new one.
//
// The server tells it what each connection does: Serve when a request was received, Park
// while a request waits for an event, Hijack when a stream takes the connection. Watch tells a
// stream that its client has gone.
package connlimit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"parley/client/parley"
	"parley/http/limit"
)

// Listener bounds the number of open connections, streams included, in total and per
// address.
//
// When a new connection exceeds a bound, the listener evicts another one. If one
// address has by far the most connections, it evicts one of that address, whatever it
// waits for: a client with many connections cannot keep others out. Otherwise it evicts
// the connection that has waited longest for a request, or else for its client to read
// an answer; one of the new connection's address if that is at its bound, or has many
// itself. If there is none to evict, the listener refuses the new connection at once:
// the process must not run out of file descriptors, of which the journal needs some
// too, and fasthttp ends when accepting fails.
//
// The server accepts a few connections at a time, one address after the other. When
// one address opens very many, connections of other addresses do not wait for them, nor
// do requests on connections that the server has accepted.
//
// Hijack exists because fasthttp, which can leave a connection to a handler too, then
// never reuses the connection's buffers: 16 KiB of garbage for every stream, many times
// what the stream itself holds.
type Listener struct {
	net.Listener
	bounds Bounds
	clock  parley.Clock
	start  time.Time
	// refusal is the answer to a connection that is refused.
	refusal func() []byte
	// refusing has an item for each connection that is being answered so.
	refusing chan struct{}

	accepting sync.Once
	mu        sync.Mutex
	all       connSet
	addresses map[string]*connSet
	served    int // not hijacked
	ranks     [ranks]ranking
	count     Count
	// turns are the addresses with connections to accept, the next first; starting is
	// the number of accepted connections that the server has not begun to read.
	some     sync.Cond
	turns    []*connSet
	starting int
	failed   error // of the listener
	watcher  watcher
	unread   unreadSet
}

// Bounds are the numbers of connections that may be open.
type Bounds struct {
	// Total is for all connections, Served for those that are not hijacked,
	// PerAddress for those of one address (of IPv6: of one /64 network).
	Total, Served, PerAddress int
	// Exempt, if set, reports addresses to which PerAddress does not apply.
	Exempt func(netip.Addr) bool
	// Budget counts what the kernel holds of answers that clients have not read. nil counts
	// nothing.
	Budget *limit.Budget
	// many and starting are connsMany and startingMost, unless a test sets others.
	many, starting int
	// Fixed turns eviction off. Only the controls of tests set it.
	Fixed bool
}

// Count counts the connections that exceeded a bound.
type Count struct {
	// Evicted were closed for another one, Refused were not accepted.
	Evicted, Refused uint64
}

const (
	// acceptPause is the time before the listener accepts again after the process ran
	// out of descriptors or memory.
	acceptPause = 50 * time.Millisecond
	// refusalsAtOnce connections are answered that they are refused, each for at most
	// refusalWait. The others are closed without an answer.
	refusalsAtOnce = 64
	refusalWait    = time.Second
	// startingMost bounds the accepted connections that the server has not begun to
	// read: each has a goroutine that waits for a processor.
	startingMost = 8
	// An address with connsMany connections, and manyTimes as many as the address of a
	// new one, loses one to it.
	connsMany = 8
	manyTimes = 2
	// stalledLeast is how long a client has read nothing of its answer before its
	// connection is evicted, unless its address has by far the most connections.
	stalledLeast = time.Second
	// refusalReads bounds the bytes that are read from a refused connection: if it was
	// closed before its request is read, its client would not see the answer. Clients
	// send MLS commits of up to 8 MiB, some of them more than they may.
	refusalReads = 12 << 20
)

// Listen listens at a TCP address, with fixed buffers in the kernel for each connection. A connection
// of multipath TCP would have several sockets, each with buffers of its own.
func Listen(address string) (net.Listener, error) {
	c := net.ListenConfig{Control: boundSocket}
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", address)
}

// Limit makes a Listener over ln. refusal returns the whole answer to a connection that
// is refused.
func Limit(ln net.Listener, bounds Bounds, clock parley.Clock, refusal func() []byte) *Listener {
	l := &Listener{
		Listener: ln, bounds: bounds, clock: clock, start: clock(), refusal: refusal,
		refusing: make(chan struct{}, refusalsAtOnce), addresses: map[string]*connSet{},
	}
	l.some.L = &l.mu
	if l.bounds.many == 0 {
		l.bounds.many = connsMany
	}
	if l.bounds.starting == 0 {
		l.bounds.starting = startingMost
	}
	for i := range l.ranks {
		l.ranks[i].which = i
	}
	return l
}

// Accept returns the next connection, a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	l.accepting.Do(func() { go l.acceptAll() })
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.failed == nil {
		if l.starting < l.bounds.starting {
			if n := l.next(); n != nil {
				l.starting++
				n.starting.Store(true)
				return n, nil
			}
		}
		l.some.Wait()
	}
	return nil, l.failed
}

// acceptAll takes connections from the kernel until the listener fails.
func (l *Listener) acceptAll() {
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

// fail ends Accept and closes the connections that were not accepted.
func (l *Listener) fail(err error) {
	l.mu.Lock()
	l.failed = err
	var left []*Conn
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

// next takes the next connection to accept, one address after the other. The caller
// holds mu.
func (l *Listener) next() *Conn {
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

// started lets the server accept another connection.
func (l *Listener) started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting--
	l.some.Signal()
}

// admit counts a connection and queues it for Accept; nil if it is refused.
func (l *Listener) admit(conn net.Conn) *Conn {
	n := &Conn{Conn: conn, listener: l, sends: sendQueue{buffer: sendBuffer}}
	n.state.Store(n.since(kindIdle))
	exempt := true
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		address := tcp.AddrPort().Addr().Unmap().WithZone("") // networks have none
		n.address = limit.AddressKey(address)
		n.smallReceiveBuffer()
		exempt = l.bounds.Exempt != nil && l.bounds.Exempt(address)
	}
	l.mu.Lock()
	own := l.addresses[n.address]
	if own == nil {
		own = &connSet{place: 1, bounded: !exempt}
	}
	evicted, room := l.makeRoom(own)
	if evicted != nil {
		l.forget(evicted)
		l.count.Evicted++
	}
	if room {
		l.insert(n, own)
	} else {
		l.count.Refused++
	}
	l.mu.Unlock()
	if evicted != nil {
		evicted.end()
	}
	if !room {
		return nil
	}
	return n
}

// makeRoom reports whether one more connection of an address is admitted, and which
// other one was evicted for it. The caller holds mu.
func (l *Listener) makeRoom(own *connSet) (evicted *Conn, room bool) {
	full, servedFull := len(l.all.conns) >= l.bounds.Total, l.served >= l.bounds.Served
	stalled, now := evictable{writing: stalledLeast}, l.now()
	switch {
	case l.bounds.Fixed:
		return nil, !full && !servedFull && len(own.conns) < l.bounds.PerAddress
	case own.bounded && len(own.conns) >= l.bounds.PerAddress:
		evicted = own.evict(stalled, now)
		return evicted, evicted != nil
	case !full && !servedFull:
		return nil, true
	}
	which, victims := rankServed, evictable{parked: true}
	if !servedFull {
		which, victims.streams = rankAll, true
	}
	mine := own.counts[which]
	if h := l.ranks[which].largest(); h != nil && h.counts[which] >= max(l.bounds.many, manyTimes*(mine+1)) {
		evicted = h.evict(victims, now)
	}
	switch {
	case evicted != nil:
	case mine >= l.bounds.many:
		evicted = own.evict(stalled, now)
	default:
		evicted = l.all.evict(stalled, now)
	}
	return evicted, evicted != nil
}

// insert counts a connection and queues it. The caller holds mu.
func (l *Listener) insert(n *Conn, own *connSet) {
	n.sameAddress = own
	l.all.add(n)
	own.add(n)
	l.addresses[n.address] = own
	l.served++
	l.ranks[rankAll].add(own, 1)
	l.ranks[rankServed].add(own, 1)
	if own.queued = append(own.queued, n); len(own.queued) == 1 {
		l.turns = append(l.turns, own)
	}
	l.some.Signal()
}

// forget frees the place of a connection. The caller holds mu.
func (l *Listener) forget(n *Conn) {
	if n.closed {
		return
	}
	n.closed = true
	l.all.remove(n)
	if n.sameAddress.remove(n); len(n.sameAddress.conns) == 0 {
		delete(l.addresses, n.address)
	}
	l.ranks[rankAll].add(n.sameAddress, -1)
	if !n.hijacked.Load() {
		l.served--
		l.ranks[rankServed].add(n.sameAddress, -1)
	}
	if n.starting.Swap(false) {
		l.starting--
		l.some.Signal()
	}
	n.answered()
}

// Stats are the numbers of open connections, of their addresses, and of those that
// exceeded a bound.
func (l *Listener) Stats() (open, addresses int, count Count) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all.conns), len(l.addresses), l.count
}

// now is the time since the listener began, never 0.
func (l *Listener) now() int64 { return int64(l.clock().Sub(l.start)) + 1 }

// isScarcity reports whether an accept failed for lack of descriptors or memory, which
// the process may have again later.
func isScarcity(err error) bool {
	for _, want := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// refuse answers a connection that is refused, in a goroutine of its own.
func (l *Listener) refuse(conn net.Conn) {
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

// linger closes the sending half of a connection and reads what the client still sends,
// for a while.
func linger(conn net.Conn) {
	timer := time.AfterFunc(refusalWait, func() { _ = conn.Close() })
	defer timer.Stop()
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, refusalReads)
	}
}
