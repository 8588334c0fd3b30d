package host

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// Unfinished is the reply of a turn whose answer depends on what other actors do next, such as the
// agent that takes the seat which a vote gave it. Finish runs on the node that decided, when the
// turn's entry is durable, and returns the answer.
type Unfinished struct{ Finish func() (any, error) }

const (
	// awaitMax is how long Await waits: not as long as a server that stops waits for its requests.
	awaitMax = 5 * time.Second
	// awaitPauseMax bounds the pause before Await asks again.
	awaitPauseMax = 50 * time.Millisecond
)

// Await asks a stream's actor q until done accepts the answer: at once, and whenever the actor has
// stored something, each time a millisecond later, so that many who wait for one stream do not all
// ask after each of its entries. If another node leads meanwhile, Await asks that one. It returns the
// last answer, with parley.ErrOutcomeUnknown if done has not accepted one after awaitMax.
func Await[R any](e *Engine, s journal.Stream, q ReadOnly, done func(R) bool) (answer R, err error) {
	changed, stop := e.watches.add(s)
	defer stop()
	late := time.NewTimer(awaitMax)
	defer late.Stop()
	for pause := time.Duration(0); ; pause = min(pause+time.Millisecond, awaitPauseMax) {
		wake, rest := changed, pause
		reply, err := e.answer(Request{Stream: s, Content: q})
		switch {
		case err == nil:
			answer, _ = reply.(R)
		case errors.Is(err, journal.ErrNotLeader) && e.Router != nil:
			wake, rest = nil, awaitPauseMax // nobody tells this node what that one stores
			if answer, err = Query[R](e, s, q); err != nil {
				return answer, err
			}
		case errors.Is(err, parley.ErrOverloaded):
			wake, rest = nil, awaitPauseMax
		default:
			return answer, err
		}
		if err == nil && done(answer) {
			return answer, nil
		}
		if !e.rest(wake, rest, late.C) {
			return answer, parley.ErrOutcomeUnknown
		}
	}
}

// rest waits for wake, unless it is nil, and then for a pause. It returns false if late or the
// engine's end comes first.
func (e *Engine) rest(wake <-chan struct{}, pause time.Duration, late <-chan time.Time) bool {
	if wake != nil {
		select {
		case <-wake:
		case <-late:
			return false
		case <-e.stop:
			return false
		}
	}
	select {
	case <-time.After(pause):
		return true
	case <-late:
		return false
	case <-e.stop:
		return false
	}
}

// watches are the channels of those who wait until a stream changes. They are notified too when its
// actor ends, as on a node that leads no more: the next query says why.
type watches struct {
	size atomic.Int64
	mu   sync.Mutex
	of   map[journal.Stream]map[chan struct{}]struct{}
}

func (w *watches) add(s journal.Stream) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.size.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[journal.Stream]map[chan struct{}]struct{}{}
	}
	if w.of[s] == nil {
		w.of[s] = map[chan struct{}]struct{}{}
	}
	w.of[s][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.of[s], c); len(w.of[s]) == 0 {
			delete(w.of, s)
		}
		w.size.Add(-1)
	}
}

// notify tells those who wait for a stream that it changed.
func (w *watches) notify(s journal.Stream) {
	if w.size.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.of[s] {
		select {
		case c <- struct{}{}:
		default: // it is told already
		}
	}
}
