package notify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Watermark is a number that grows, and the goroutines that wait for it.
type Watermark struct {
	level   atomic.Uint64
	mu      sync.Mutex
	waiters []waiter
}

type waiter struct {
	level uint64
	ready chan struct{}
}

// Level is the number now.
func (w *Watermark) Level() uint64 { return w.level.Load() }

// Raise sets the number to level, if that is higher.
func (w *Watermark) Raise(level uint64) {
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

// Wait reports whether the number reaches level within patience and ctx.
func (w *Watermark) Wait(ctx context.Context, level uint64, patience time.Duration) bool {
	if w.level.Load() >= level {
		return true
	}
	w.mu.Lock()
	if w.level.Load() >= level {
		w.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	w.waiters = append(w.waiters, waiter{level, ready})
	w.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ready:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}
