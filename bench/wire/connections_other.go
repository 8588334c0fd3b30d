//go:build !linux

package wire

import (
	"context"
	"errors"
	"time"
)

// Connections is implemented on Linux only.
type Connections struct{}

// DialConnections returns an error on this system.
func DialConnections(context.Context, string, int) (*Connections, error) {
	return nil, errors.New("wire: many connections in one goroutine need the epoll of Linux")
}

// Idle is never called.
func (*Connections) Idle() int { return 0 }

// Take is never called.
func (*Connections) Take() (int, bool) { return 0, false }

// Release is never called.
func (*Connections) Release(int) {}

// Ask is never called.
func (*Connections) Ask(int, []byte) time.Time { return time.Time{} }

// Hear is never called.
func (*Connections) Hear(time.Duration, func(Heard)) error { return nil }

// Break is never called.
func (*Connections) Break(time.Time, func(Heard)) {}

// Asked is never called.
func (*Connections) Asked() int { return 0 }

// Close is never called.
func (*Connections) Close() {}
