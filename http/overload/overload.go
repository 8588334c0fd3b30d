// Package overload rejects requests while too many goroutines wait for a processor.
//
// The other bounds of the server count what it has read. A request that waits for a
// processor has not been read yet, and makes every other request wait longer. So the
// limiter looks at the scheduler, and decides before the body of a request is decoded.
package overload

import (
	"errors"
	"math/rand/v2"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"parley/client/parley"
)

const (
	// window is the time over which requests and rejections are counted.
	window = 100 * time.Millisecond
	// undelayed rejections in a window are answered at once.
	undelayed = 50
	// delayMin is the mean delay of the other rejections of a window. Each is delayed
	// by a random time between half and one and a half times the mean, so that the
	// clients do not return all at once. Retry-After asks clients to wait for a second;
	// the delay makes a client wait that ignores it. While there are more than
	// rejectedMost rejections in a window, the mean grows by an eighth with each
	// window, up to delayMost.
	delayMin     = 500 * time.Millisecond
	delayMost    = 2 * time.Second
	rejectedMost = 200
	// samplePeriod is how often the limiter reads the number of waiting goroutines.
	samplePeriod = 200 * time.Microsecond
	// stepMin is how far a clock must go back to count as set back. Smaller steps come from
	// requests that read it a moment earlier.
	stepMin = time.Second
	// waitingMost goroutines may wait for a processor before requests are rejected, so
	// that this many clients with one request each are served. The bound is
	// waitingFlood while more than one request in floodShare is rejected.
	waitingMost  = 640
	waitingFlood = 64
	floodShare   = 8
	// Few is the number of requests under way of an address that sends few. Such an
	// address is served until waitingFew goroutines wait.
	Few        = 8
	waitingFew = 4 * waitingMost
	// While at most waitingIdle goroutines wait, each answered request ends the delay
	// of endedEarly rejections.
	waitingIdle = 16
	endedEarly  = 2
)

// Limiter decides which requests are rejected, and delays the rejections when there
// are many.
type Limiter struct {
	sample                 func() int
	window, came, rejected atomic.Int64
	// own counts the rejections for which one caller alone is responsible. They are
	// delayed like others, but a caller at its own bounds must not lower the bound for
	// all.
	own              atomic.Int64
	flood            atomic.Bool
	sampled, waiting atomic.Int64
	// delay is the mean delay in nanoseconds, delayed is the number of rejections that
	// are being delayed. A receiver of end ends the delay of one of them.
	delay, delayed atomic.Int64
	end            chan struct{}
}

// New makes a limiter. sample returns the number of goroutines that wait for a
// processor, see Runnable; nil: no request is rejected.
func New(sample func() int) *Limiter {
	l := &Limiter{sample: sample, end: make(chan struct{})}
	l.delay.Store(int64(delayMin))
	return l
}

// Runnable is the number of goroutines of the process that wait for a processor.
func Runnable() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// Reject counts one more request and reports whether to reject it. few says that the
// address it came from has at most Few requests under way.
func (l *Limiter) Reject(now time.Time, few bool) bool {
	if l.sample == nil {
		return false
	}
	l.turn(now)
	l.came.Add(1)
	return l.runnable(now) > l.bound(few)
}

// runnable is the number of waiting goroutines at the last sample.
func (l *Limiter) runnable(now time.Time) int64 {
	at, sampled := now.UnixNano(), l.sampled.Load()
	if (at-sampled > int64(samplePeriod) || sampled-at > int64(stepMin)) && l.sampled.CompareAndSwap(sampled, at) {
		l.waiting.Store(int64(l.sample()))
	}
	return l.waiting.Load()
}

// Answered ends the delay of some rejections if processors are idle: otherwise they
// would have nothing to do until the delays are over.
func (l *Limiter) Answered(clock parley.Clock) {
	if l.delayed.Load() == 0 || l.sample == nil || l.runnable(clock()) > waitingIdle {
		return
	}
	for range endedEarly {
		select {
		case l.end <- struct{}{}:
		default:
			return
		}
	}
}

// Delayed is the number of rejections that are being delayed.
func (l *Limiter) Delayed() int { return int(l.delayed.Load()) }

func (l *Limiter) bound(few bool) int64 {
	switch {
	case few:
		return waitingFew
	case l.flood.Load():
		return waitingFlood
	}
	return waitingMost
}

// turn ends a window that is over, and sets the bound and the delay of the next one.
func (l *Limiter) turn(now time.Time) {
	at, current := now.UnixNano()/int64(window), l.window.Load()
	if at <= current && current-at <= int64(stepMin/window) || !l.window.CompareAndSwap(current, at) {
		return
	}
	rejected, came := l.rejected.Swap(0), l.came.Swap(0)
	l.own.Store(0)
	l.flood.Store(rejected > undelayed && rejected > came/floodShare)
	delay := l.delay.Load()
	if rejected > rejectedMost {
		delay += delay / 8
	} else {
		delay -= delay / 8
	}
	l.delay.Store(min(max(delay, int64(delayMin)), int64(delayMost)))
}

// ToDelay counts err, which a request is refused with, and reports whether Delay is to
// be called before it is answered. It does not count refusals other than
// parley.ErrOverloaded.
func (l *Limiter) ToDelay(now time.Time, err error) bool {
	refusal := (*parley.Refusal)(nil)
	return errors.As(err, &refusal) && refusal.Is(parley.ErrOverloaded) && l.many(now, refusal.OfOne)
}

// many counts one more rejection and reports whether there are many in this window.
func (l *Limiter) many(now time.Time, own bool) bool {
	l.turn(now)
	if own {
		return l.own.Add(1) > undelayed
	}
	return l.rejected.Add(1) > undelayed
}

// Delay returns after the delay of a rejection, or when the server begins to stop.
func (l *Limiter) Delay(draining <-chan struct{}) {
	delay := time.Duration(l.delay.Load())
	timer := time.NewTimer(delay/2 + rand.N(delay))
	defer timer.Stop()
	l.delayed.Add(1)
	defer l.delayed.Add(-1)
	select {
	case <-timer.C:
	case <-l.end:
	case <-draining:
	}
}
