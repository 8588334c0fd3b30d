//go:build unix

package connlimit

import (
	"errors"
	"syscall"
)

// atEnd reports whether there is nothing more to read from a socket for good,
// without waiting and without reading.
func atEnd(socket syscall.RawConn) bool {
	over := false
	err := socket.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		over = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET)
	})
	return err != nil || over
}
