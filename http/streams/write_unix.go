//go:build unix

package streams

import (
	"errors"
	"syscall"
)

// socketWriter writes as much as a socket accepts at once, so it needs no deadline. One
// writer serves many sockets, one after the other.
type socketWriter struct {
	bytes []byte
	n     int
	err   error
	once  func(fd uintptr) bool
}

func (a *socketWriter) prepare() { a.once = a.try }

// write returns how many bytes the socket accepted, possibly none.
func (a *socketWriter) write(socket syscall.RawConn, b []byte) (n int, err error) {
	a.bytes, a.n, a.err = b, 0, nil
	err = socket.Write(a.once)
	a.bytes = nil
	return a.n, errors.Join(a.err, err)
}

// try always reports that it is done, so that the runtime does not wait for the socket.
func (a *socketWriter) try(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), a.bytes)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
		default:
			a.n, a.err = max(n, 0), err
		}
		return true
	}
}
