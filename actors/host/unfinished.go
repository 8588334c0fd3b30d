package host

import (
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

// awaitMax is how long Await waits: not as long as a node waits for the answer of another one.
const awaitMax = 8 * time.Second

// Await asks a stream's actor of this node q until done accepts the answer: at once, and whenever the
// actor has stored something. It returns the last answer, with parley.ErrOutcomeUnknown if done has not
// accepted one after awaitMax.
func Await[R any](e *Engine, s journal.Stream, q ReadOnly, done func(R) bool) (answer R, err error) {
	changed, stop := e.watches.add(s)
	defer stop()
	late := time.NewTimer(awaitMax)
	defer late.Stop()
	for {
		reply, err := e.answer(Request{Stream: s, Content: q})
		if err != nil {
			return answer, err
		}
		if answer, _ = reply.(R); done(answer) {
			return answer, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return answer, parley.ErrOutcomeUnknown
		case <-e.stop:
			return answer, parley.ErrOutcomeUnknown
		}
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
