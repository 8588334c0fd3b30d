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
		k := newCrowd(Runnable)
		k.turn(now)
		k.came.Add(int64(c.came))
		for range c.refused {
			k.thick(now, false)
		}
		if k.over(now.Add(crowdWindow), false); k.most(false) != c.most {
			t.Errorf("of %d %d were refused: %d may wait, want %d", c.came, c.refused, k.most(false), c.most)
		}
	}
}

// TestWaitingForTheProcessorIsSeen: goroutines that are ready and do not run are
// counted; when they are gone, so is the crowd.
func TestWaitingForTheProcessorIsSeen(t *testing.T) {
	k, now, done := newCrowd(Runnable), time.Unix(1000, 0), make(chan struct{})
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
	if !k.over(now.Add(time.Second), false) {
		t.Errorf("%d goroutines want to run, and %d are seen to wait", 4*crowdLeast, k.waiting.Load())
	}
	close(done)
	ready.Wait()
	if k.over(now.Add(2*time.Second), false) {
		t.Errorf("%d still wait", k.waiting.Load())
	}
}

// TestRefusalsAreHeldWhereTheyComeThick: the first of a window at once, the
// others later; other refusals never; a drain lets all go.
func TestRefusalsAreHeldWhereTheyComeThick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{clock: time.Now, crowd: newCrowd(nil), draining: make(chan struct{})}
		took := func(err error) time.Duration {
			began := time.Now()
			s.hold(nil, err)
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

// TestRefusalsAreHeldLongerTheMoreTheyAre: up to four times as long, and as
// before when they get fewer.
func TestRefusalsAreHeldLongerTheMoreTheyAre(t *testing.T) {
	k, now := newCrowd(nil), time.Unix(1000, 0)
	after := func(windows, refused int) time.Duration {
		for range windows {
			for range refused {
				k.thick(now, false)
			}
			now = now.Add(crowdWindow)
		}
		k.turn(now)
		return time.Duration(k.held.Load())
	}
	for _, c := range []struct {
		windows, refused int
		want             time.Duration
	}{{50, crowdMany, crowdHeld}, {1, crowdMany + 1, crowdHeld * 9 / 8}, {50, crowdMany + 1, crowdHeldMost}, {50, crowdMany, crowdHeld}} {
		if got := after(c.windows, c.refused); got != c.want {
			t.Errorf("after %d windows with %d refusals each they are held for %v, want %v", c.windows, c.refused, got, c.want)
		}
	}
}

// TestRefusalsAreLetGoWhereThereIsRoom: two with each answer, none while many
// want the processor.
func TestRefusalsAreLetGoWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := 0
		s := &Server{clock: time.Now, crowd: newCrowd(func() int { return waiting }), draining: make(chan struct{})}
		for range crowdFreely {
			s.hold(nil, parley.ErrOverloaded)
		}
		for range 5 {
			go s.hold(nil, parley.ErrOverloaded)
		}
		for _, c := range []struct {
			waiting int
			left    int64
		}{{crowdRoom + 1, 5}, {crowdRoom, 3}, {0, 1}, {0, 0}, {0, 0}} {
			waiting = c.waiting
			time.Sleep(2 * crowdLook)
			s.crowd.answered(s.clock)
			if synctest.Wait(); s.crowd.holding.Load() != c.left {
				t.Errorf("with %d waiting %d are still held, want %d", c.waiting, s.crowd.holding.Load(), c.left)
			}
		}
	})
}
