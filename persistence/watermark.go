package persistence

import (
	"context"
	"sync"
	"sync/atomic"
)

// watermark is a number that grows, and those who wait for it to.
type watermark struct {
	level   atomic.Uint64
	mu      sync.Mutex
	waiters []waiter
}

type waiter struct {
	level uint64
	ready chan struct{}
}

// raise lifts the mark to level, if it is higher.
func (w *watermark) raise(level uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if level <= w.level.Load() {
		return
	}
	w.level.Store(level)
	kept := w.waiters[:0]
	for _, x := range w.waiters {
		if x.level <= level {
			close(x.ready)
		} else {
			kept = append(kept, x)
		}
	}
	clear(w.waiters[len(kept):])
	w.waiters = kept
}

// wait returns when the mark has reached level.
func (w *watermark) wait(ctx context.Context, level uint64) error {
	if w.level.Load() >= level {
		return nil
	}
	w.mu.Lock()
	if w.level.Load() >= level {
		w.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	w.waiters = append(w.waiters, waiter{level, ready})
	w.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
