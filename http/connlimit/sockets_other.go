//go:build !linux

package connlimit

import (
	"net"
	"syscall"
	"time"
)

// boundSocket does nothing on systems that are for development only.
func boundSocket(string, string, syscall.RawConn) error { return nil }

// queued returns 0: it is not known what the kernel holds.
func queued(net.Conn) int { return 0 }

// NoticeVanished does nothing on systems without such a timeout: there the heartbeats end
// the stream.
func NoticeVanished(syscall.RawConn, time.Duration) error { return nil }
