package host

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// TestFailedQueuedMessageIsRetried: a message whose handling fails stays in the queue,
// nothing of the turn is stored, and the engine retries it without a request.
func TestFailedQueuedMessageIsRetried(t *testing.T) {
	var broken atomic.Bool
	var tries atomic.Int64
	e, l := newEngine(t, 1, func(e *Engine) {
		e.retries.first = time.Millisecond
		k := tallyKind(1)
		k.HandleQueued = func(t *Turn[*tally, add, *tally], said *record.SagaMessage) error {
			if err := t.Decide(add(said.GetNumber())); err != nil {
				return err
			}
			if tries.Add(1); broken.Load() {
				return errors.New("the disk cannot be read")
			}
			return nil
		}
		Register(e, k)
	})
	s := streamOf(1)
	if a := <-askInBackground(e, s, add(1)); a.err != nil {
		t.Fatal(a.err)
	}
	broken.Store(true)
	l.enqueueNumber(s, 5)
	l.enqueueNumber(s, 7)
	l.onQueued(s)
	eventually(t, "the word is tried three times", func() bool { return tries.Load() >= 3 })
	l.mu.Lock()
	if st := l.stream(s); len(st.queue) != 2 || len(st.events) != 1 {
		t.Errorf("after a failure %d of 2 messages are left, and there are %d events", len(st.queue), len(st.events))
	}
	l.mu.Unlock()
	broken.Store(false)
	eventually(t, "the queue is empty", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.stream(s).queue) == 0 })
	if a := <-askInBackground(e, s, look{}); a.err != nil || a.reply != uint64(13) {
		t.Errorf("the sum is %v (%v), not 13", a.reply, a.err)
	}
	eventually(t, "the failures are forgotten", func() bool { return e.retries.count.Load() == 0 })
}

// manualTimers keeps the functions of timers until the test runs them.
type manualTimers struct {
	mu     sync.Mutex
	pauses []time.Duration
	fire   []func()
}

func (a *manualTimers) after(d time.Duration, f func()) *time.Timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pauses, a.fire = append(a.pauses, d), append(a.fire, f)
	return time.NewTimer(time.Hour)
}

func (a *manualTimers) count() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.fire) }

func (a *manualTimers) last() func() { a.mu.Lock(); defer a.mu.Unlock(); return a.fire[len(a.fire)-1] }

// TestRetryPausesGrow until one succeeds.
func TestRetryPausesGrow(t *testing.T) {
	a := &manualTimers{}
	r := &retries{first: time.Second, after: a.after}
	var hints []hint
	nudge := func(_ journal.Stream, what hint) { hints = append(hints, what) }
	s := streamOf(1)
	for range 8 {
		r.failed(s, toDrain, nudge)
		r.failed(s, toWork, nudge) // uses the timer that is already armed
		a.last()()
	}
	stale := a.last()
	r.passed(s)
	r.failed(s, toDrain, nudge)
	stale()
	var want []time.Duration
	for _, n := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 1} {
		want = append(want, n*time.Second)
	}
	if !slices.Equal(a.pauses, want) {
		t.Errorf("the pauses are %v, want %v", a.pauses, want)
	}
	if !slices.Equal(hints, slices.Repeat([]hint{toDrain | toWork}, 8)) {
		t.Errorf("the hints are %v", hints)
	}
}

// TestFailuresShareOneTimer: an actor that fails at each of many asks has one retry
// pending. The next is armed only after that one has failed.
func TestFailuresShareOneTimer(t *testing.T) {
	a := &manualTimers{}
	var tries atomic.Int64
	e, l := newEngine(t, 1, func(e *Engine) {
		e.retries.after = a.after
		k := tallyKind(1)
		k.HandleQueued = func(*Turn[*tally, add, *tally], *record.SagaMessage) error {
			tries.Add(1)
			return errors.New("the disk cannot be read")
		}
		Register(e, k)
	})
	s := streamOf(1)
	l.enqueueNumber(s, 5)
	const asks = 300
	for range asks {
		<-askInBackground(e, s, look{})
	}
	if n := a.count(); n != 1 || tries.Load() < asks/2 {
		t.Fatalf("%d failures armed %d timers", tries.Load(), n)
	}
	before := tries.Load()
	a.last()()
	eventually(t, "the retry fails and arms the next", func() bool { return tries.Load() == before+1 && a.count() == 2 })
}

// TestQueuePageIsBoundedInBytes fills a queue with large messages.
func TestQueuePageIsBoundedInBytes(t *testing.T) {
	e, l := newEngine(t, 1)
	s := streamOf(1)
	for range 10 {
		l.enqueue(s, make([]byte, queueBytes/4))
	}
	x := &entity[*tally, add, *tally]{kind: tallyKind(1), engine: e, handle: &activeActor{stream: s}}
	if page, more, err := x.queuePage(); err != nil || len(page) != 4 || !more {
		t.Errorf("a page of %d messages, more: %v, %v", len(page), more, err)
	}
	x.handled = 9
	if page, more, err := x.queuePage(); err != nil || len(page) != 1 || more {
		t.Errorf("the last page of %d messages, more: %v, %v", len(page), more, err)
	}
}

// TestFactsAreGatheredBetweenTurns: a request that lacks a fact is decided again when it is read.
// What handling a queued message needs is read before the turn.
func TestFactsAreGatheredBetweenTurns(t *testing.T) {
	var fact, gathered int
	var broken error
	e, l := newEngine(t, 1, func(e *Engine) {
		k := tallyKind(1)
		k.Handle = func(t *Turn[*tally, add, *tally], request any) (any, error) {
			if n := request.(add); int(n) > fact {
				return nil, &Lacking{func() error { gathered++; fact++; return broken }}
			}
			return t.State.sum, t.Decide(request.(add))
		}
		k.GatherQueued = func(_ *tally, said *record.SagaMessage) error {
			fact = int(said.GetNumber())
			return nil
		}
		k.HandleQueued = func(t *Turn[*tally, add, *tally], said *record.SagaMessage) error {
			if fact != int(said.GetNumber()) {
				return errors.New("handled before the fact was read")
			}
			return t.Decide(add(fact))
		}
		Register(e, k)
	})
	s := streamOf(1)
	if reply, err := e.Decide(Request{Stream: s, Content: add(2)}); err != nil || gathered != 2 {
		t.Fatalf("%v (%v) after %d were gathered", reply, err, gathered)
	}
	if _, err := e.Decide(Request{Stream: s, Content: add(100)}); err != parley.ErrOverloaded || gathered != 2+gathersMax {
		t.Errorf("%v after %d were gathered", err, gathered-2)
	}
	broken = errors.New("the disk cannot be read")
	if _, err := e.Decide(Request{Stream: s, Content: add(100)}); err != parley.ErrInternal {
		t.Errorf("a fact that cannot be read: %v", err)
	}
	l.enqueueNumber(s, 3)
	l.onQueued(s)
	eventually(t, "the message is handled", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.stream(s).events) == 2
	})
}
