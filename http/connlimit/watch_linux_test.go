package connlimit

import (
	"runtime"
	"testing"
)

// goroutinesFor returns how many goroutines 100 watched connections take.
func goroutinesFor(t *testing.T, watch func(p *watchedPair)) int {
	pair := watching(t)
	pair() // starts what stays
	before := runtime.NumGoroutine()
	for range 100 {
		p := pair()
		if watch != nil {
			watch(p)
		}
	}
	return runtime.NumGoroutine() - before
}

func TestWatchesShareAGoroutine(t *testing.T) {
	if n := goroutinesFor(t, nil); n > 10 {
		t.Errorf("100 watched connections take %d goroutines", n)
	}
}

// TestWatchesShareAGoroutineControl: each connection is watched as where there is no epoll.
func TestWatchesShareAGoroutineControl(t *testing.T) {
	if n := goroutinesFor(t, func(p *watchedPair) { Watch(p.below, nil, func() {}) }); n <= 10 {
		t.Errorf("100 goroutines that wait count as %d", n)
	}
}
