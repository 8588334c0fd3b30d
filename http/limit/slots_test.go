package limit

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func address(name string) Account { return Account{Name: name, Anonymous: true} }

func newTestSlots(places int) *Slots {
	q := NewSlots(places)
	q.wait = time.Millisecond
	return q
}

// search takes a place for a caller and releases it. It reports whether a place was
// free.
func (q *Slots) search(caller string) bool {
	leave, err := q.Enter(address(caller), nil)
	if err == nil {
		leave()
	}
	return err == nil
}

func (q *Slots) wantEmpty(t *testing.T) {
	t.Helper()
	if len(q.callers) != 0 || len(q.places) != 0 {
		t.Errorf("%d callers and %d places are left", len(q.callers), len(q.places))
	}
}

// TestCallerHasOneSearchPlace: a caller with a search in flight gets no second place,
// so the other places stay free for other callers.
func TestCallerHasOneSearchPlace(t *testing.T) {
	for _, shared := range []bool{false, true} { // true: all share one name, the control
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			q := newTestSlots(2)
			q.shared = shared
			leave, err := q.Enter(address("a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			second, err := q.Enter(address("a"), nil)
			if took := err == nil; took != shared {
				t.Fatalf("a caller takes a second place: %v", took)
			}
			if got := q.search("b"); got == shared {
				t.Errorf("another caller gets a place: %v", got)
			}
			if shared {
				second()
			} else if q.search("a") {
				t.Error("a caller takes a second place")
			}
			leave()
			leave() // does not release another search's place
			if !q.search("a") {
				t.Error("a caller gets no place after its search has ended")
			}
			q.wantEmpty(t)
		})
	}
}

// TestPlacesAreBounded: the number of places for all callers is bounded, and so is the
// number of searches of one caller that may wait.
func TestPlacesAreBounded(t *testing.T) {
	q := newTestSlots(2)
	var leave [2]func()
	for i := range leave {
		leave[i], _ = q.Enter(address(strconv.Itoa(i)), nil)
	}
	if q.search("b") {
		t.Fatal("there are more than two places")
	}
	leave[0]()
	if !q.search("b") {
		t.Fatal("there is only one place")
	}

	q.wait = time.Minute
	stop := make(chan struct{})
	var waiting sync.WaitGroup
	for range searchesPerCaller - 1 { // one of the caller's searches has a place
		waiting.Go(func() { _, _ = q.Enter(address("1"), stop) })
	}
	inFlight := func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.callers[address("1")].underWay
	}
	for until := time.Now().Add(10 * time.Second); inFlight() < searchesPerCaller; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d searches of one caller are in flight", inFlight())
		}
	}
	if q.arrive(address("1")) != nil {
		t.Fatalf("more than %d searches of one caller wait", searchesPerCaller)
	}
	if q.search("1") || !q.search("b") {
		t.Error("a caller whose searches wait gets a place, or other callers do not")
	}
	close(stop)
	waiting.Wait()
	leave[1]()
	if !q.search("1") {
		t.Error("a caller gets no place after its searches have ended")
	}
	q.wantEmpty(t)
}

// TestSearchesOfOneCallerTakeTurns: all concurrent searches of a caller get a place,
// one after the other.
func TestSearchesOfOneCallerTakeTurns(t *testing.T) {
	q := NewSlots(4)
	q.wait = time.Minute
	var working sync.WaitGroup
	var now atomic.Int64
	for range searchesPerCaller {
		working.Go(func() {
			leave, err := q.Enter(address("a"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if n := now.Add(1); n > 1 {
				t.Errorf("%d searches of one caller run at once", n)
			}
			runtime.Gosched()
			now.Add(-1)
			leave()
		})
	}
	working.Wait()
}
