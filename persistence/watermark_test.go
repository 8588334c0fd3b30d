package persistence

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestWatermark(t *testing.T) {
	w := &watermark{}
	w.raise(5)
	for _, level := range []uint64{0, 4, 5} {
		if !w.wait(t.Context(), level, 0) {
			t.Errorf("at 5, waiting for %d", level)
		}
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if w.wait(hurried, 6, time.Hour) || w.wait(t.Context(), 6, time.Millisecond) {
		t.Error("at 5, a wait for 6 returned")
	}
	w.raise(3)
	if got := w.level.Load(); got != 5 {
		t.Errorf("the watermark fell to %d", got)
	}
}

func TestWatermarkWakesWhomItReached(t *testing.T) {
	w := &watermark{}
	var all sync.WaitGroup
	for level := uint64(1); level <= 40; level++ {
		for range 3 {
			all.Go(func() {
				if !w.wait(t.Context(), level, time.Minute) {
					t.Errorf("not woken at %d", level)
				}
				if got := w.level.Load(); got < level {
					t.Errorf("woken at %d, waiting for %d", got, level)
				}
			})
		}
	}
	for level := uint64(0); level <= 40; level += 5 {
		time.Sleep(time.Millisecond)
		w.raise(level)
	}
	all.Wait()
	if len(w.waiters) != 0 {
		t.Errorf("%d waiters remain", len(w.waiters))
	}
}
