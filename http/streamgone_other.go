//go:build !linux

package http

import (
	"syscall"
	"time"
)

// noticeVanished does nothing on systems without such a timeout: there the heartbeats end
// the stream.
func noticeVanished(syscall.RawConn, time.Duration) error { return nil }
