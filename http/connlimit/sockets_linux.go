package connlimit

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSocket bounds what the kernel holds of each connection that a listener will accept, and for
// how long: accepted sockets have the options of their listener. The receive buffer decides once,
// at the handshake, how far the window can grow; it is made small afterwards.
// // source: tcp(7), socket(7)
func boundSocket(_, _ string, socket syscall.RawConn) error {
	var err error
	failed := socket.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBufferMost),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanishAfter.Milliseconds())),
		)
	})
	return errors.Join(failed, err)
}

// queued returns how many bytes the kernel holds that the client has not acknowledged, 0 if
// conn is closed or is no socket.
func queued(conn net.Conn) (n int) {
	kernel, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	socket, err := kernel.SyscallConn()
	if err != nil {
		return 0
	}
	if socket.Control(func(fd uintptr) { n, err = unsent(int(fd)) }) != nil || err != nil {
		return 0
	}
	return n
}

// unsent is how many bytes of a socket its other end has not acknowledged. A connection that was
// reset has none, whatever the kernel counts.
func unsent(fd int) (int, error) {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil || n == 0 {
		return 0, err
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.State == unix.BPF_TCP_CLOSE {
		return 0, err
	}
	return n, nil
}

// NoticeVanished makes the kernel close a connection whose client acknowledges nothing
// for the given time. Without it, data could stay in the socket, and a write would fail
// only after about 15 minutes. // source: RFC 5482
func NoticeVanished(socket syscall.RawConn, after time.Duration) error {
	var err error
	if e := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
