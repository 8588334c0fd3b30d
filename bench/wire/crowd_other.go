//go:build !linux

package wire

import (
	"context"
	"errors"
	"time"
)

// Crowd needs what only Linux has; see its other file.
type Crowd struct{}

// DialCrowd fails.
func DialCrowd(context.Context, string, int) (*Crowd, error) {
	return nil, errors.New("wire: a crowd of connections needs the epoll of Linux")
}

// Idle is never called.
func (*Crowd) Idle() int { return 0 }

// Take is never called.
func (*Crowd) Take() (int, bool) { return 0, false }

// Release is never called.
func (*Crowd) Release(int) {}

// Ask is never called.
func (*Crowd) Ask(int, []byte) time.Time { return time.Time{} }

// Hear is never called.
func (*Crowd) Hear(time.Duration, func(Heard)) error { return nil }

// Break is never called.
func (*Crowd) Break(time.Time, func(Heard)) {}

// Asked is never called.
func (*Crowd) Asked() int { return 0 }

// Close is never called.
func (*Crowd) Close() {}
