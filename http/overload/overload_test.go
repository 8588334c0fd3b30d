package overload

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/client/parley"
)

// TestManyRejectionsLowerTheBound: if more than an eighth of the requests in a window
// are rejected, fewer goroutines may wait in the next window.
func TestManyRejectionsLowerTheBound(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		came, rejected int
		bound          int64
	}{{4000, 400, waitingMost}, {4000, 600, waitingFlood}, {0, 600, waitingFlood}, {100, undelayed, waitingMost}, {0, 0, waitingMost}} {
		l := New(Runnable)
		l.turn(now)
		l.came.Add(int64(c.came))
		for range c.rejected {
			l.many(now, false)
		}
		if l.Reject(now.Add(window), false); l.bound(false) != c.bound {
			t.Errorf("%d requests, %d of them rejected: %d goroutines may wait, want %d", c.came, c.rejected, l.bound(false), c.bound)
		}
	}
}

// TestRejectionsOfOneCallerKeepTheBound: rejections that one caller is responsible for
// are delayed like others, but do not lower the bound for all.
func TestRejectionsOfOneCallerKeepTheBound(t *testing.T) {
	for own, flood := range map[bool]bool{true: false, false: true} {
		l, now, delayed := New(Runnable), time.Unix(1000, 0), 0
		l.turn(now)
		for range 10 * undelayed {
			if l.many(now, own) {
				delayed++
			}
		}
		l.turn(now.Add(window))
		if delayed != 9*undelayed || l.flood.Load() != flood {
			t.Errorf("own %v: %d of %d are delayed, flood %v", own, delayed, 10*undelayed, l.flood.Load())
		}
	}
}

// TestWaitingGoroutinesAreCounted: requests are rejected while many goroutines are
// runnable and do not run. They are served after these goroutines have ended.
func TestWaitingGoroutinesAreCounted(t *testing.T) {
	l, now, done := New(Runnable), time.Unix(1000, 0), make(chan struct{})
	var ready sync.WaitGroup
	for range 4 * waitingMost {
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
	if !l.Reject(now.Add(time.Second), false) {
		t.Errorf("%d goroutines are runnable, but %d are counted", 4*waitingMost, l.waiting.Load())
	}
	close(done)
	ready.Wait()
	if l.Reject(now.Add(2*time.Second), false) {
		t.Errorf("%d goroutines are still counted", l.waiting.Load())
	}
}

// TestClockSetBack: after the clock was set back, the limiter goes on looking at the
// scheduler and counting, and does not reject until the clock has caught up.
func TestClockSetBack(t *testing.T) {
	waiting, now := 2*waitingMost, time.Unix(10000, 0)
	l := New(func() int { return waiting })
	for range 2 * undelayed {
		l.many(now, false)
	}
	if !l.Reject(now.Add(window), false) || !l.flood.Load() {
		t.Fatal("too many goroutines wait, and a request is served")
	}
	waiting, now = 0, now.Add(-time.Hour)
	if l.Reject(now, false) || l.Reject(now.Add(window), false) || l.flood.Load() {
		t.Error("an hour before, requests are rejected although no goroutine waits")
	}
}

// TestManyRejectionsAreDelayed: the first rejections of a window are answered at once,
// the others later. Other refusals are never delayed, and a server that shuts down
// delays nothing.
func TestManyRejectionsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, draining := New(nil), make(chan struct{})
		took := func(err error) time.Duration {
			began := time.Now()
			refuse(l, err, draining)
			return time.Since(began)
		}
		for range 2 { // each window starts again
			for i := range undelayed {
				if d := took(parley.ErrOverloaded.Saying("no room")); d != 0 {
					t.Fatalf("rejection %d of a window is delayed by %v", i, d)
				}
			}
			time.Sleep(window)
		}
		for range undelayed {
			took(parley.ErrOverloaded)
		}
		if d := took(parley.ErrOverloaded); d < delayMin/2 || d > delayMin*3/2 {
			t.Errorf("the next rejection is delayed by %v", d)
		}
		for range 2 * undelayed {
			if d := took(parley.ErrNotFound); d != 0 {
				t.Fatalf("another refusal is delayed by %v", d)
			}
		}
		for range undelayed {
			took(parley.ErrOverloaded)
		}
		time.AfterFunc(time.Millisecond, func() { close(draining) })
		if d := took(parley.ErrOverloaded); d != time.Millisecond {
			t.Errorf("a server that shuts down delays a rejection by %v", d)
		}
	})
}

// refuse does what the server does before it answers with err.
func refuse(l *Limiter, err error, draining <-chan struct{}) {
	if l.ToDelay(time.Now(), err) {
		l.Delay(draining)
	}
}

// TestDelayGrowsWithRejections: the delay grows to at most four times its minimum, and
// shrinks when there are fewer rejections.
func TestDelayGrowsWithRejections(t *testing.T) {
	l, now := New(nil), time.Unix(1000, 0)
	after := func(windows, rejected int) time.Duration {
		for range windows {
			for range rejected {
				l.many(now, false)
			}
			now = now.Add(window)
		}
		l.turn(now)
		return time.Duration(l.delay.Load())
	}
	for _, c := range []struct {
		windows, rejected int
		want              time.Duration
	}{{50, rejectedMost, delayMin}, {1, rejectedMost + 1, delayMin * 9 / 8}, {50, rejectedMost + 1, delayMost}, {50, rejectedMost, delayMin}} {
		if got := after(c.windows, c.rejected); got != c.want {
			t.Errorf("after %d windows with %d rejections each the delay is %v, want %v", c.windows, c.rejected, got, c.want)
		}
	}
}

// TestAnswersEndDelays: each answer ends two delays, or none while many goroutines
// wait.
func TestAnswersEndDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting, draining := 0, make(chan struct{})
		l := New(func() int { return waiting })
		for range undelayed {
			refuse(l, parley.ErrOverloaded, draining)
		}
		for range 5 {
			go refuse(l, parley.ErrOverloaded, draining)
		}
		for _, c := range []struct{ waiting, left int }{{waitingIdle + 1, 5}, {waitingIdle, 3}, {0, 1}, {0, 0}, {0, 0}} {
			waiting = c.waiting
			time.Sleep(2 * samplePeriod)
			l.Answered(time.Now)
			if synctest.Wait(); l.Delayed() != c.left {
				t.Errorf("with %d goroutines waiting, %d rejections are still delayed, want %d", c.waiting, l.Delayed(), c.left)
			}
		}
	})
}
