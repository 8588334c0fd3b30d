package http

import (
	"syscall"
	"time"
)

// tcpUserTimeout is the option of that name, which package syscall does not know.
const tcpUserTimeout = 18

// noticeVanished has the kernel end a stream whose client acknowledges nothing
// for so long: what was written before may lie in the socket, and a write that
// waits for nobody would notice only a quarter of an hour later.
// source: RFC 5482
func noticeVanished(socket syscall.RawConn, after time.Duration) error {
	var err error
	if e := socket.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(after.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
