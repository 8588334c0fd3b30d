package http

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestAFloodIsTold: requests of which an eighth is refused are one, and fewer
// may wait for the processor meanwhile.
func TestAFloodIsTold(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		came, refused int
		most          int64
	}{{4000, 400, crowdLeast}, {4000, 600, crowdFlood}, {0, 600, crowdFlood}, {100, crowdFreely, crowdLeast}, {0, 0, crowdLeast}} {
		k := &crowd{look: Runnable}
		k.turn(now)
		k.came.Add(int64(c.came))
		for range c.refused {
			k.thick(now)
		}
		if k.over(now.Add(crowdWindow)); k.most() != c.most {
			t.Errorf("of %d %d were refused: %d may wait, want %d", c.came, c.refused, k.most(), c.most)
		}
	}
}

// TestWaitingForTheProcessorIsSeen: goroutines that are ready and do not run are
// counted; when they are gone, so is the crowd.
func TestWaitingForTheProcessorIsSeen(t *testing.T) {
	k, now, done := &crowd{look: Runnable}, time.Unix(1000, 0), make(chan struct{})
	var ready sync.WaitGroup
	for range 4 * crowdLeast {
		ready.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	if !k.over(now.Add(time.Second)) {
		t.Errorf("%d goroutines want to run, and %d are seen to wait", 4*crowdLeast, k.waiting.Load())
	}
	close(done)
	ready.Wait()
	if k.over(now.Add(2 * time.Second)) {
		t.Errorf("%d still wait", k.waiting.Load())
	}
}

// TestRefusalsAreHeldWhereTheyComeThick: the first of a window at once, the
// others later; other refusals never; a drain lets all go.
func TestRefusalsAreHeldWhereTheyComeThick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{clock: time.Now, draining: make(chan struct{})}
		took := func(err error) time.Duration {
			began := time.Now()
			s.hold(err)
			return time.Since(began)
		}
		for range 2 { // each window anew
			for i := range crowdFreely {
				if d := took(parley.ErrOverloaded.Saying("no room")); d != 0 {
					t.Fatalf("refusal %d of a window is held for %v", i, d)
				}
			}
			time.Sleep(crowdWindow)
		}
		for range crowdFreely {
			took(parley.ErrOverloaded)
		}
		if d := took(parley.ErrOverloaded); d < crowdHeld/2 || d > crowdHeld*3/2 {
			t.Errorf("one refusal more is held for %v", d)
		}
		for range 2 * crowdFreely {
			if d := took(parley.ErrNotFound); d != 0 {
				t.Fatalf("another refusal is held for %v", d)
			}
		}
		for range crowdFreely {
			took(parley.ErrOverloaded)
		}
		time.AfterFunc(time.Millisecond, func() { close(s.draining) })
		if d := took(parley.ErrOverloaded); d != time.Millisecond {
			t.Errorf("a drain waits %v for a refusal", d)
		}
	})
}
