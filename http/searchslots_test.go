package http

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"parley/http/limit"
	"parley/http/rest"
	"parley/journal"
)

func address(name string) limit.Account { return limit.Account{Name: name, Anonymous: true} }

// newSearchHarness has a group, a number of places for searches, and requests with an
// address.
func newSearchHarness(t *testing.T, places int) *groupHarness {
	g := newGroupHarness(t)
	g.group("team", `,"enrollment_policy":"open"`)
	*inside[func(*rest.Call) string](g.server, "host", "Source") = func(c *rest.Call) string { return c.Header("X-From") }
	*inside[*limit.Slots](g.service.directory, "queries") = limit.NewSlots(places)
	*inside[time.Duration](g.service.directory, "queries", "wait") = time.Millisecond
	return g
}

func (g *groupHarness) searchFrom(address string) *response {
	return g.public().ask("GET", "/directory/groups?q=team", "", "X-From: "+address)
}

// TestSearchWithoutPlaceIsRefused: the answer is a 503 with Retry-After. Other callers
// can search.
func TestSearchWithoutPlaceIsRefused(t *testing.T) {
	g := newSearchHarness(t, 2)
	g.searchFrom("a").want(200)
	leave, err := (*inside[*limit.Slots](g.service.directory, "queries")).Enter(address("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	g.searchFrom("b").want(200)
	own := g.searchFrom("a").want(503, "overloaded")
	if s, err := strconv.Atoi(own.head.Get("Retry-After")); err != nil || s < 1 {
		t.Errorf("Retry-After is %q", own.head.Get("Retry-After"))
	}
	leave()
	g.searchFrom("a").want(200)
	for _, other := range []string{"b", "c"} { // all places are in use
		leave, err := (*inside[*limit.Slots](g.service.directory, "queries")).Enter(address(other), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	g.searchFrom("a").want(503, "overloaded")
}

// stalledView is a view whose Durable blocks, as on a disk that hangs.
type stalledView struct {
	journal.View
	waits, goesOn chan struct{}
}

func (v *stalledView) Durable(ctx context.Context) error {
	v.waits <- struct{}{}
	<-v.goesOn
	return v.View.Durable(ctx)
}

// TestSearchReleasesPlaceBeforeDiskWait: a search that waits for the disk has released
// its place.
func TestSearchReleasesPlaceBeforeDiskWait(t *testing.T) {
	for _, linger := range []bool{false, true} { // true: the control
		t.Run(fmt.Sprint("linger ", linger), func(t *testing.T) {
			g := newSearchHarness(t, 1)
			*inside[bool](g.service.directory, "queriesLinger") = linger
			waits, goesOn := make(chan struct{}), make(chan struct{})
			stalled := func(v journal.View) journal.View { return journal.ViewOf(&stalledView{v, waits, goesOn}) }
			g.journal.wrapView.Store(&stalled)
			var working sync.WaitGroup
			working.Go(func() { g.searchFrom("a").want(200) })
			<-waits
			leave, err := (*inside[*limit.Slots](g.service.directory, "queries")).Enter(address("b"), nil)
			if free := err == nil; free == linger {
				t.Errorf("another caller gets a place: %v", free)
			}
			if err == nil {
				leave()
			}
			close(goesOn)
			working.Wait()
		})
	}
}
