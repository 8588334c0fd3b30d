package connlimit

import (
	"net"

	"parley/http/limit"
)

// Receiving is the body of one request that arrives on Conn.
type Receiving struct {
	Conn net.Conn
	// Extra is how many bytes the hold has for the larger buffer.
	Extra int
}

// Begin lets the kernel hold more of a large body, if its caller may hold as much: with the usual
// buffer a body of 8 MiB takes half a minute from another continent. The hold is that of the body.
func (r *Receiving) Begin(hold *limit.Hold, size int) {
	l, ok := r.Conn.(*Conn)
	if !ok || r.Extra > 0 || size <= receiveBuffer {
		return
	}
	tcp, ok := l.Conn.(*net.TCPConn)
	if extra := overhead * receiveBufferMost; ok && hold.Bytes() > 0 && hold.GrowIfFree(hold.Bytes()+extra) {
		r.Extra = extra
		_ = tcp.SetReadBuffer(receiveBufferMost)
	}
}

// End makes the buffer small again.
func (r *Receiving) End(hold *limit.Hold) {
	if r.Extra == 0 {
		return
	}
	if l, ok := r.Conn.(*Conn); ok {
		if tcp, ok := l.Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(receiveBuffer)
		}
	}
	hold.Shrink(hold.Bytes() - r.Extra)
	r.Extra = 0
}
