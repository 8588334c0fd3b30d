package connlimit

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"parley/http/limit"
)

const (
	// sendBuffer and receiveBuffer are what the kernel may hold of a connection, in bytes of
	// data: written answers that the client has not read, and requests that the server has not
	// read. Without a bound it holds megabytes of either.
	sendBuffer    = 64 << 10
	receiveBuffer = 64 << 10
	// sendBufferMost is the send buffer of a known caller that gets a large answer.
	sendBufferMost = 1 << 20
	// receiveBufferMost is the receive buffer of a known caller that sends a large body.
	receiveBufferMost = 256 << 10
	// overhead: the kernel takes up to twice as much memory as it holds data.
	overhead = 2
	// SendBytes is what the kernel holds at most of a stream that its client does not read.
	SendBytes = overhead * sendBuffer
	// vanishAfter is how long a client may leave data unread or unacknowledged. Then the
	// kernel closes its connection.
	vanishAfter = 30 * time.Second
	// leftMost is how much unread data a connection that is shut may leave in the kernel, leftFor how
	// long at most.
	leftMost = 4 << 10
	leftFor  = 2 * time.Second
	// unreadEvery is how often the server looks whether clients have read their answers.
	unreadEvery = 50 * time.Millisecond
)

// errUnread: the caller already holds as much memory as it may.
var errUnread = errors.New("the client has too many answers that it has not read")

// sendQueue counts what the kernel holds of a connection's answers. Up to limit.Small bytes do
// not count, as in the process itself.
type sendQueue struct {
	mu sync.Mutex
	// account pays for the answers of the request under way; zero: the address does.
	account limit.Account
	// sent is at least what the kernel holds: what it was last known to hold, and what was written
	// since.
	sent    int
	buffer  int // how much data the kernel may hold
	writing bool
	counted bool // hold has something, until the client has read everything
	hold    limit.Hold
	// closeAt is set when the connection was closed before the client had read everything.
	closeAt time.Time
}

// Charge sets the account that pays for what the kernel holds of the answer on conn.
func Charge(conn net.Conn, account limit.Account) {
	if l, ok := conn.(*Conn); ok {
		l.charge(account)
	}
}

func (l *Conn) charge(account limit.Account) {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counted && account != q.account && queued(l.Conn) == 0 { // the former caller pays no longer
		l.release()
	}
	q.account = account
}

// smallReceiveBuffer makes the receive buffer as small as it is for strangers.
func (l *Conn) smallReceiveBuffer() {
	if tcp, ok := l.Conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(receiveBuffer)
	}
}

// handOver ends the counting: a stream counts what the kernel holds itself. Former answers that
// the client has not read count until it has.
func (l *Conn) handOver() {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.counted || queued(l.Conn) == 0 {
		l.listener.unread.remove(l)
		l.release()
		return
	}
	l.smallSendBuffer()
	l.listener.unread.add(l)
}

// Shut closes a connection whose client may not have read everything. What the kernel holds after
// that counts nowhere: it drops it at once if that is more than a small answer, which may be on its
// way, and otherwise soon.
func Shut(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		switch n := queued(conn); {
		case n > leftMost:
			_ = tcp.SetLinger(0)
		case n > 0:
			if socket, err := tcp.SyscallConn(); err == nil {
				_ = NoticeVanished(socket, leftFor)
			}
		}
	}
	return conn.Close()
}

// AwaitRead waits until the client has acknowledged everything that was written to a hijacked
// connection, at most for vanishAfter or until stop is closed: what the kernel holds counts until then.
func AwaitRead(conn net.Conn, stop <-chan struct{}) {
	late := time.After(vanishAfter)
	for queued(conn) > 0 {
		select {
		case <-stop:
			return
		case <-late:
			return
		case <-time.After(unreadEvery):
		}
	}
}

// beginWrite counts n bytes that are about to be written. It returns false if the caller may not
// hold as much.
func (l *Conn) beginWrite(n int) bool {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing = true
	if q.sent += n; q.sent <= limit.Small || l.listener.bounds.Budget == nil {
		return true
	}
	if !q.counted {
		if q.sent = queued(l.Conn) + n; q.sent <= limit.Small {
			return true
		}
	}
	return l.count(n)
}

// count counts what the kernel may hold when n more bytes are written. It gives a known caller a
// larger buffer for them, if there is room. The caller of count holds mu of the queue.
func (l *Conn) count(n int) bool {
	q := &l.sends
	if !q.counted {
		payer := q.account
		if payer == (limit.Account{}) {
			payer = limit.Account{Name: l.address, Anonymous: true}
		}
		q.counted, q.hold = true, l.listener.bounds.Budget.Hold(payer, l.evict)
	}
	if larger := min(n, sendBufferMost); larger > q.buffer && q.account.Name != "" && !q.account.Anonymous {
		if tcp, ok := l.Conn.(*net.TCPConn); ok && q.hold.GrowIfFree(overhead*min(q.sent, larger)) && tcp.SetWriteBuffer(larger) == nil {
			q.buffer = larger
			return true
		}
	}
	return q.hold.Grow(overhead * min(q.sent, q.buffer))
}

// endWrite releases what was counted if the client has read everything; otherwise the listener
// does, once it has.
func (l *Conn) endWrite() {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing = false
	switch {
	case !q.counted:
	case queued(l.Conn) > 0:
		l.listener.unread.add(l)
	default:
		l.release()
	}
}

// release gives back what the kernel held. The caller of release holds mu.
func (l *Conn) release() {
	q := &l.sends
	q.hold.Release()
	q.hold, q.counted, q.sent = limit.Hold{}, false, 0
	l.smallSendBuffer()
}

// smallSendBuffer makes the send buffer small again. The caller holds mu.
func (l *Conn) smallSendBuffer() {
	if tcp, ok := l.Conn.(*net.TCPConn); ok && l.sends.buffer > sendBuffer {
		_ = tcp.SetWriteBuffer(sendBuffer)
		l.sends.buffer = sendBuffer
	}
}

// closeWhenRead closes the connection once its client has read everything, at the latest after
// vanishAfter: what the kernel holds after the close could not be counted. It returns false if
// there is nothing to wait for, or nothing to be read any more.
func (l *Conn) closeWhenRead() bool {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	half, ok := l.Conn.(interface{ CloseWrite() error })
	if !ok || l.failed.Load() || l.state.Load() == stateEvicted || queued(l.Conn) == 0 || half.CloseWrite() != nil {
		l.release()
		return false
	}
	if half, ok := l.Conn.(interface{ CloseRead() error }); ok {
		_ = half.CloseRead() // ends the server's read
	}
	l.answered()
	for state := l.state.Load(); state != stateEvicted && !l.state.CompareAndSwap(state, l.since(kindWriting)); {
		state = l.state.Load()
	}
	q.closeAt = l.listener.clock().Add(vanishAfter)
	l.listener.unread.add(l)
	return true
}

// settle releases what a connection holds, and closes it if it was to be closed, once its client
// has read everything.
func (l *Conn) settle() {
	q := &l.sends
	q.mu.Lock()
	defer q.mu.Unlock()
	closing := !q.closeAt.IsZero()
	late := closing && !l.listener.clock().Before(q.closeAt)
	if (q.counted || closing) && !late && (q.writing || queued(l.Conn) > 0) {
		return
	}
	l.listener.unread.remove(l)
	l.release()
	if closing {
		if late {
			l.discard()
		}
		_ = l.Conn.Close()
		l.Leave()
	}
}

// unreadSet are the connections whose clients have not read everything.
type unreadSet struct {
	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// add adds a connection. Its queue is locked meanwhile, as when it is removed.
func (u *unreadSet) add(l *Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns == nil {
		u.conns = map[*Conn]struct{}{}
		go u.run()
	}
	u.conns[l] = struct{}{}
}

func (u *unreadSet) remove(l *Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, l)
}

// run settles connections until none is left.
func (u *unreadSet) run() {
	tick := time.NewTicker(unreadEvery)
	defer tick.Stop()
	for range tick.C {
		all := u.all()
		if all == nil {
			return
		}
		for _, l := range all {
			l.settle()
		}
	}
}

// all returns the connections. If there are none, it returns nil, and run must end.
func (u *unreadSet) all() []*Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.conns) == 0 {
		u.conns = nil
	}
	return slices.Collect(maps.Keys(u.conns))
}
