package host

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"parley/client/parley"
)

// peek is a query for the sum.
type peek struct{}

func (peek) ReadOnly() {}

// TestAwait: an actor is asked at once and after each change, not in between.
func TestAwait(t *testing.T) {
	var peeks atomic.Int64
	e, _ := newEngine(t, 1)
	s := streamOf(1)
	seen := make(chan uint64, 10)
	awaited := make(chan error, 1)
	go func() {
		sum, err := Await(e, s, peek{}, func(sum uint64) bool { peeks.Add(1); seen <- sum; return sum >= 6 })
		if err == nil && sum != 6 {
			err = errors.New("awaited something else")
		}
		awaited <- err
	}()
	if first := <-seen; first != 0 {
		t.Errorf("the first answer is %d", first)
	}
	for _, n := range []add{1, 2, 3} {
		if _, err := Ask[uint64](context.Background(), e, s, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-awaited; err != nil {
		t.Error(err)
	}
	if n := peeks.Load(); n > 4 {
		t.Errorf("three changes led to %d queries", n)
	}
	if e.watches.size.Load() != 0 || len(e.watches.of) != 0 {
		t.Errorf("still watched: %v", e.watches.of)
	}
}

// TestAwaitEndsWithTheEngine: who waits for what never comes does not hold up a stop.
func TestAwaitEndsWithTheEngine(t *testing.T) {
	e, _ := newEngine(t, 1)
	asked, awaited := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		_, err := Await(e, streamOf(1), peek{}, func(uint64) bool { asked <- struct{}{}; return false })
		awaited <- err
	}()
	<-asked
	e.Close()
	if err := <-awaited; !errors.Is(err, parley.ErrOutcomeUnknown) && !errors.Is(err, parley.ErrOverloaded) {
		t.Errorf("the wait ended with %v", err)
	}
}

// routed is a router that has another engine decide.
type routed struct{ to *Engine }

func (r routed) Ask(request Request, _ func(Request) (any, error)) (any, error) {
	return r.to.Decide(request)
}

// TestAwaitAsksTheNodeThatLeads: if another node has come to lead, that one is asked.
func TestAwaitAsksTheNodeThatLeads(t *testing.T) {
	leader, _ := newEngine(t, 1)
	follower, l := newEngine(t, 1, func(e *Engine) { e.Router = routed{leader} })
	l.follows = true
	s, seen, awaited := streamOf(1), make(chan uint64, 10), make(chan error, 1)
	go func() {
		_, err := Await(follower, s, peek{}, func(sum uint64) bool { seen <- sum; return sum == 1 })
		awaited <- err
	}()
	if first := <-seen; first != 0 {
		t.Errorf("the first answer is %d", first)
	}
	if _, err := Ask[uint64](t.Context(), leader, s, 0, add(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-awaited; err != nil {
		t.Error(err)
	}
}
