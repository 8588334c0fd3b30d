package http

import (
	"errors"
	"math/rand/v2"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"parley"
)

const (
	// crowdWindow is the time in which requests and refusals are counted.
	crowdWindow = 100 * time.Millisecond
	// crowdFreely refusals in a window are answered at once.
	crowdFreely = 50
	// crowdHeld is how long those beyond are held back, give or take a half: they
	// are not to come again all at once. Retry-After asks for a second: whoever
	// does not wait has to, and leaves the processor to those who were let in.
	crowdHeld = 500 * time.Millisecond
	// crowdLook is how often it is looked how many wait for the processor.
	crowdLook = time.Millisecond
	// crowdLeast may wait for the processor before requests are refused: callers
	// that many, each with one request, are refused nothing. crowdFlood may where
	// one in crowdFloodShare is refused anyhow.
	crowdLeast      = 640
	crowdFlood      = 160
	crowdFloodShare = 8
)

// crowd tells when more requests come than the processor can take. Those that
// wait for it have not been read: no other bound knows of them, and each makes
// all others wait longer.
type crowd struct {
	look                  func() int
	window, came, refused atomic.Int64
	flood                 atomic.Bool
	looked, waiting       atomic.Int64
}

// Runnable is how many goroutines of the process wait for a processor.
func Runnable() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// over counts one more request and reports whether too many wait already.
func (k *crowd) over(now time.Time) bool {
	if k.look == nil {
		return false
	}
	k.turn(now)
	k.came.Add(1)
	if at, looked := now.UnixNano(), k.looked.Load(); at-looked > int64(crowdLook) && k.looked.CompareAndSwap(looked, at) {
		k.waiting.Store(int64(k.look()))
	}
	return k.waiting.Load() > k.most()
}

func (k *crowd) most() int64 {
	if k.flood.Load() {
		return crowdFlood
	}
	return crowdLeast
}

// turn ends a window that is over, and judges it.
func (k *crowd) turn(now time.Time) {
	window := now.UnixNano() / int64(crowdWindow)
	if current := k.window.Load(); window <= current || !k.window.CompareAndSwap(current, window) {
		return // a clock that was read a moment earlier begins nothing anew
	}
	refused, came := k.refused.Swap(0), k.came.Swap(0)
	k.flood.Store(refused > crowdFreely && refused > came/crowdFloodShare)
}

// thick counts one more refusal and reports whether it is to be held.
func (k *crowd) thick(now time.Time) bool {
	k.turn(now)
	return k.refused.Add(1) > crowdFreely
}

// hold keeps a refusal for want of room back where they come thick.
func (s *Server) hold(err error) {
	if !errors.Is(err, parley.ErrOverloaded) || !s.crowd.thick(s.clock()) {
		return
	}
	late := time.NewTimer(crowdHeld/2 + rand.N(crowdHeld))
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.draining:
	}
}
