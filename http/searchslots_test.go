package http

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/http/rest"

	"parley/http/limit"
	"parley/journal"
)

func address(name string) limit.Account { return limit.Account{Name: name, Stranger: true} }

// newSearchHarness has groups, requests that say their address, and so many places.
func newSearchHarness(t *testing.T, places int) *groupHarness {
	g := newGroupHarness(t)
	g.group("team", `,"enrollment_policy":"open"`)
	*inside[func(*rest.Call) string](g.server, "host", "Source") = func(c *rest.Call) string { return c.Header("X-From") }
	g.service.queries = newSearchSlots(places)
	g.service.queries.wait = time.Millisecond
	return g
}

func (g *groupHarness) searchFrom(address string) *response {
	return g.public().ask("GET", "/directory/groups?q=team", "", "X-From: "+address)
}

// TestACallerHasOnePlace: a caller with a search under way gets no second place, and
// leaves the others to other callers.
func TestACallerHasOnePlace(t *testing.T) {
	for _, shared := range []bool{false, true} { // true: the control
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			g := newSearchHarness(t, 2)
			q := g.service.queries
			q.shared = shared
			g.searchFrom("a").want(200)
			leave, err := q.enter(address("a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			second, err := q.enter(address("a"), nil)
			if took := err == nil; took != shared {
				t.Fatalf("a caller takes a second place: %v", took)
			}
			other := g.searchFrom("b")
			if !shared {
				other.want(200)
				own := g.searchFrom("a").want(503, "overloaded")
				if s, err := strconv.Atoi(own.head.Get("Retry-After")); err != nil || s < 1 {
					t.Errorf("Retry-After is %q", own.head.Get("Retry-After"))
				}
			} else {
				other.want(503, "overloaded") // one caller has all places
				second()
			}
			leave()
			leave() // nobody else's
			g.searchFrom("a").want(200)
			if len(q.callers) != 0 || len(q.places) != 0 {
				t.Errorf("%d callers and %d places are left", len(q.callers), len(q.places))
			}
		})
	}
}

// TestPlacesAreBounded: all callers together have so many, and of one caller so many
// searches wait.
func TestPlacesAreBounded(t *testing.T) {
	g := newSearchHarness(t, 2)
	q := g.service.queries
	var leave [2]func()
	for i := range leave {
		leave[i], _ = q.enter(address(strconv.Itoa(i)), nil)
	}
	g.searchFrom("b").want(503, "overloaded")
	leave[0]()
	g.searchFrom("b").want(200)

	q.wait = time.Minute
	stop := make(chan struct{})
	var waiting sync.WaitGroup
	for range queriesWaiting - 1 { // one of the caller's has a place
		waiting.Go(func() { _, _ = q.enter(address("1"), stop) })
	}
	await(t, "they do not wait", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.callers[address("1")].underWay == queriesWaiting
	})
	if q.arrive(address("1")) != nil {
		t.Fatalf("one more than %d searches of a caller wait", queriesWaiting)
	}
	g.searchFrom("1").want(503, "overloaded")
	g.searchFrom("b").want(200)
	close(stop)
	waiting.Wait()
	leave[1]()
	g.searchFrom("1").want(200)
	if len(q.callers) != 0 || len(q.places) != 0 {
		t.Errorf("%d callers and %d places are left", len(q.callers), len(q.places))
	}
}

// TestSearchesOfOneCallerTakeTurns: searches that come together are all answered,
// one after the other.
func TestSearchesOfOneCallerTakeTurns(t *testing.T) {
	q := newSearchSlots(4)
	q.wait = time.Minute
	var working sync.WaitGroup
	var now atomic.Int64
	for range queriesWaiting {
		working.Go(func() {
			leave, err := q.enter(address("a"), nil)
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

// stalledView is a view of a disk that stands still.
type stalledView struct {
	journal.View
	waits, goesOn chan struct{}
}

func (v *stalledView) Durable(ctx context.Context) error {
	v.waits <- struct{}{}
	<-v.goesOn
	return v.View.Durable(ctx)
}

// TestAPlaceIsFreeWhileTheDiskIsWaitedFor: a search that waits for the disk keeps
// nobody else from searching.
func TestAPlaceIsFreeWhileTheDiskIsWaitedFor(t *testing.T) {
	for _, linger := range []bool{false, true} { // true: the control
		t.Run(fmt.Sprint("linger ", linger), func(t *testing.T) {
			g := newSearchHarness(t, 1)
			g.service.queriesLinger = linger
			waits, goesOn := make(chan struct{}), make(chan struct{})
			g.journal.wrapView = func(v journal.View) journal.View { return &stalledView{v, waits, goesOn} }
			var working sync.WaitGroup
			working.Go(func() { g.searchFrom("a").want(200) })
			<-waits
			leave, err := g.service.queries.enter(address("b"), nil)
			if free := err == nil; free == linger {
				t.Errorf("another caller finds a place: %v", free)
			}
			if err == nil {
				leave()
			}
			close(goesOn)
			working.Wait()
		})
	}
}
