package limit

import (
	"sync"
	"time"

	"parley/client/parley"
)

const (
	// slotWait is how long a search waits for a place before it is rejected.
	slotWait = time.Second
	// searchesPerCaller is how many searches of one caller may be in flight: one has a
	// place, the others wait for it.
	searchesPerCaller = 16
)

// ErrInFlight rejects a search while others of the same caller have not ended.
var ErrInFlight = parley.ErrOverloaded.ForOne().Saying("Other searches from your address are under way; nothing was done. Try again shortly.")

// Slots limit how many searches run at once. Searching needs no authentication, and
// each search keeps a processor busy. So there are few places, and one caller has at
// most one of them: a single caller cannot block all others.
//
// Waiting searches are bounded by the number of connections and, for each caller, by
// searchesPerCaller.
type Slots struct {
	places chan struct{}
	wait   time.Duration // slotWait, unless a test has another
	shared bool          // set by a test only: one caller may take all places

	mu      sync.Mutex
	callers map[Account]*caller
}

// caller is a caller with a search in flight.
type caller struct {
	turn     chan struct{} // full while one of its searches has a place or waits for one
	underWay int
}

// NewSlots returns slots with that many places.
func NewSlots(places int) *Slots {
	return &Slots{places: make(chan struct{}, places), wait: slotWait, callers: map[Account]*caller{}}
}

// Enter waits for a place for at most one second, or until draining is closed. leave
// releases the place; further calls do nothing. The error is
// ErrInFlight or parley.ErrOverloaded.
func (q *Slots) Enter(account Account, draining <-chan struct{}) (leave func(), err error) {
	k := q.arrive(account)
	if k == nil {
		return nil, ErrInFlight
	}
	late := time.NewTimer(q.wait)
	defer late.Stop()
	if !q.shared && !fill(k.turn, late.C, draining) {
		q.depart(account, k)
		return nil, ErrInFlight
	}
	ended := func() {
		if !q.shared {
			<-k.turn
		}
		q.depart(account, k)
	}
	if !fill(q.places, late.C, draining) {
		ended()
		return nil, parley.ErrOverloaded.ForOne()
	}
	return sync.OnceFunc(func() { <-q.places; ended() }), nil
}

// fill sends to a channel. It reports false if the channel stays full until the
// deadline or until the server drains.
func fill(full chan<- struct{}, late <-chan time.Time, draining <-chan struct{}) bool {
	select {
	case full <- struct{}{}:
		return true
	default:
	}
	select {
	case full <- struct{}{}:
		return true
	case <-late:
	case <-draining:
	}
	return false
}

// arrive counts a search of a caller. It returns nil if too many are in flight.
func (q *Slots) arrive(account Account) *caller {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.callers[account]
	if k == nil {
		k = &caller{turn: make(chan struct{}, 1)}
		q.callers[account] = k
	}
	if k.underWay == searchesPerCaller {
		return nil
	}
	k.underWay++
	return k
}

func (q *Slots) depart(account Account, k *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k.underWay--; k.underWay == 0 {
		delete(q.callers, account)
	}
}
