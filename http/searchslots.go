package http

import (
	"sync"
	"time"

	"parley"
	"parley/http/limit"
)

const (
	// queryWait is how long a search waits for a place before it is refused.
	queryWait = time.Second
	// queriesWaiting is how many searches of one caller may be under way at once: one
	// has a place, the others wait for it.
	queriesWaiting = 16
)

var errQueries = parley.ErrOverloaded.ForOne().Saying("Other searches from your address are under way; nothing was done. Try again shortly.")

// searchSlots are the places of searches that run at once. Anybody may search, and
// each search keeps a processor busy. So there are few places, and one caller has
// at most one of them: nobody can keep all others waiting.
//
// The callers that wait are bounded by the connections, queriesWaiting each.
type searchSlots struct {
	places chan struct{}
	wait   time.Duration // queryWait, unless a test has another
	shared bool          // only a test sets it: a caller has as many places as there are

	mu      sync.Mutex
	callers map[limit.Account]*searchCaller
}

// searchCaller is a caller with a search under way.
type searchCaller struct {
	turn     chan struct{} // full while one of its searches has a place, or waits for it
	underWay int
}

func newSearchSlots(places int) *searchSlots {
	return &searchSlots{places: make(chan struct{}, places), wait: queryWait, callers: map[limit.Account]*searchCaller{}}
}

// enter waits for a place, at most queryWait. leave gives the place back; it may be
// called again. The error is parley.ErrOverloaded.
func (q *searchSlots) enter(caller limit.Account, draining <-chan struct{}) (leave func(), err error) {
	k := q.arrive(caller)
	if k == nil {
		return nil, errQueries
	}
	late := time.NewTimer(q.wait)
	defer late.Stop()
	if !q.shared && !fill(k.turn, late.C, draining) {
		q.depart(caller, k)
		return nil, errQueries
	}
	ended := func() {
		if !q.shared {
			<-k.turn
		}
		q.depart(caller, k)
	}
	if !fill(q.places, late.C, draining) {
		ended()
		return nil, parley.ErrOverloaded.ForOne()
	}
	return sync.OnceFunc(func() { <-q.places; ended() }), nil
}

// fill puts one more into a channel, unless it stays full until it is late or the
// server stops.
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

// arrive counts one more search of a caller; nil if it has too many under way.
func (q *searchSlots) arrive(caller limit.Account) *searchCaller {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.callers[caller]
	if k == nil {
		k = &searchCaller{turn: make(chan struct{}, 1)}
		q.callers[caller] = k
	}
	if k.underWay == queriesWaiting {
		return nil
	}
	k.underWay++
	return k
}

func (q *searchSlots) depart(caller limit.Account, k *searchCaller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k.underWay--; k.underWay == 0 {
		delete(q.callers, caller)
	}
}
