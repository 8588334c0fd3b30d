package http

import (
	"errors"
	"math/rand/v2"
	"net"
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
	// Where more than crowdMany come in a window all the same, those are held longer
	// by an eighth with each window, up to crowdHeldMost.
	crowdHeld     = 500 * time.Millisecond
	crowdHeldMost = 2 * time.Second
	crowdMany     = 200
	// crowdLook is how often it is looked how many wait for the processor.
	crowdLook = 200 * time.Microsecond
	// crowdLeast may wait for the processor before requests are refused: callers
	// that many, each with one request, are refused nothing. crowdFlood may where
	// one in crowdFloodShare is refused anyhow.
	crowdLeast      = 640
	crowdFlood      = 64
	crowdFloodShare = 8
	// An address with at most crowdFew requests under way is refused none before
	// crowdFewMost wait: those who flood have more.
	crowdFew     = 8
	crowdFewMost = 4 * crowdLeast
	// crowdRoom is how few wait for the processor when refusals that are held are
	// let go before their time: crowdLetGo with each answer.
	crowdRoom  = 16
	crowdLetGo = 2
)

// crowd tells when more requests come than the processor can take. Those that
// wait for it have not been read: no other bound knows of them, and each makes
// all others wait longer.
type crowd struct {
	look                  func() int
	window, came, refused atomic.Int64
	// narrow counts the refusals that are of one caller: they are held like others
	// where they come thick, but a caller that has used up its own share must not
	// make a flood for all.
	narrow          atomic.Int64
	flood           atomic.Bool
	looked, waiting atomic.Int64
	// held is for how many nanoseconds a refusal is held back, holding how many
	// are, and room lets one of them go.
	held, holding atomic.Int64
	room          chan struct{}
}

// newCrowd tells by what look sees, see Runnable; nil: nothing.
func newCrowd(look func() int) *crowd {
	k := &crowd{look: look, room: make(chan struct{})}
	k.held.Store(int64(crowdHeld))
	return k
}

// Runnable is how many goroutines of the process wait for a processor.
func Runnable() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// over counts one more request and reports whether too many wait already; few: it
// is one of few from its address.
func (k *crowd) over(now time.Time, few bool) bool {
	if k.look == nil {
		return false
	}
	k.turn(now)
	k.came.Add(1)
	return k.wanting(now) > k.most(few)
}

// wanting is how many waited for the processor a moment ago.
func (k *crowd) wanting(now time.Time) int64 {
	if at, looked := now.UnixNano(), k.looked.Load(); at-looked > int64(crowdLook) && k.looked.CompareAndSwap(looked, at) {
		k.waiting.Store(int64(k.look()))
	}
	return k.waiting.Load()
}

// answered lets some of those go who are held, where there is room: else the
// processor would have nothing to do until their time is over.
func (k *crowd) answered(clock parley.Clock) {
	if k.holding.Load() == 0 || k.look == nil || k.wanting(clock()) > crowdRoom {
		return
	}
	for range crowdLetGo {
		select {
		case k.room <- struct{}{}:
		default:
			return
		}
	}
}

func (k *crowd) most(few bool) int64 {
	switch {
	case few:
		return crowdFewMost
	case k.flood.Load():
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
	k.narrow.Store(0)
	k.flood.Store(refused > crowdFreely && refused > came/crowdFloodShare)
	held := k.held.Load()
	if refused > crowdMany {
		held += held / 8
	} else {
		held -= held / 8
	}
	k.held.Store(min(max(held, int64(crowdHeld)), int64(crowdHeldMost)))
}

// thick counts one more refusal and reports whether it is to be held.
func (k *crowd) thick(now time.Time, ofOne bool) bool {
	k.turn(now)
	if ofOne {
		return k.narrow.Add(1) > crowdFreely
	}
	return k.refused.Add(1) > crowdFreely
}

// fewBeside reports whether few requests are under way on all connections of an
// address, this one's included. It is not known of proxies.
func fewBeside(conn net.Conn) bool {
	l, ok := conn.(*line)
	return ok && l.own.bounded && l.own.busy.Load() <= crowdFew
}

// hold keeps a refusal for want of room back where they come thick.
func (s *Server) hold(conn net.Conn, err error) {
	refusal := (*parley.Refusal)(nil)
	if !errors.As(err, &refusal) || !refusal.Is(parley.ErrOverloaded) || !s.crowd.thick(s.clock(), refusal.OfOne) {
		return
	}
	held := time.Duration(s.crowd.held.Load())
	late := time.NewTimer(held/2 + rand.N(held))
	defer late.Stop()
	s.crowd.holding.Add(1)
	defer s.crowd.holding.Add(-1)
	defer rest(conn)()
	select {
	case <-late.C:
	case <-s.crowd.room:
	case <-s.draining:
	}
}
