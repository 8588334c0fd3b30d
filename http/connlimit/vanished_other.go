//go:build !linux

package connlimit

import (
	"syscall"
	"time"
)

// NoticeVanished does nothing on systems without such a timeout: there the heartbeats end
// the stream.
func NoticeVanished(syscall.RawConn, time.Duration) error { return nil }
