package notify

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestWatermark(t *testing.T) {
	w := &Watermark{}
	w.Raise(5)
	for _, level := range []uint64{0, 4, 5} {
		if !w.Wait(t.Context(), level, 0) {
			t.Errorf("at 5, waiting for %d", level)
		}
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if w.Wait(hurried, 6, time.Hour) || w.Wait(t.Context(), 6, time.Millisecond) {
		t.Error("at 5, a wait for 6 returned")
	}
	w.Raise(3)
	if got := w.Level(); got != 5 {
		t.Errorf("the watermark fell to %d", got)
	}
}

func TestWatermarkWakesWhomItReached(t *testing.T) {
	w := &Watermark{}
	var all sync.WaitGroup
	for level := uint64(1); level <= 40; level++ {
		for range 3 {
			all.Go(func() {
				if !w.Wait(t.Context(), level, time.Minute) {
					t.Errorf("not woken at %d", level)
				}
				if got := w.Level(); got < level {
					t.Errorf("woken at %d, waiting for %d", got, level)
				}
			})
		}
	}
	for level := uint64(0); level <= 40; level += 5 {
		time.Sleep(time.Millisecond)
		w.Raise(level)
	}
	all.Wait()
	if len(w.waiters) != 0 {
		t.Errorf("%d waiters remain", len(w.waiters))
	}
}
