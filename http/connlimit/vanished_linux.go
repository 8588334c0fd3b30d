package connlimit

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall lacks.
const tcpUserTimeout = 18

// NoticeVanished makes the kernel close a connection whose client acknowledges nothing
// for the given time. Without it, data could stay in the socket, and a write would fail
// only after about 15 minutes. // source: RFC 5482
func NoticeVanished(socket syscall.RawConn, after time.Duration) error {
	var err error
	if e := socket.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(after.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
