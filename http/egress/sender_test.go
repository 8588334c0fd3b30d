package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/http/egress"
)

// hand is a clock that a test sets.
type hand struct{ nanos atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.nanos.Store(noon.UnixNano())
	return h
}

func (h *hand) now() time.Time          { return time.Unix(0, h.nanos.Load()) }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

// far is longer than any test.
const far = time.Hour

// never sets all times of a sender to far: nothing is late and nothing times out.
func never(o egress.Options) egress.Options {
	o.Timeout, o.ConnectTimeout, o.SlowAfter, o.WaitMax = far, far, far, far
	return o
}

// gate is a sink whose posts to /closed wait until the gate opens.
type gate struct {
	*sink
	arrived chan string // the Webhook-Id of each post that waits at the gate
	open    chan struct{}
}

func newGate(t testing.TB, open http.HandlerFunc) *gate {
	t.Helper()
	g := &gate{arrived: make(chan string, 1<<15), open: make(chan struct{})}
	g.sink = newSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/closed" {
			open(w, r)
			return
		}
		g.arrived <- r.Header.Get("Webhook-Id")
		select {
		case <-g.open:
			ok(w, r)
		case <-r.Context().Done():
		}
	})
	return g
}

// submit sends a post to a target under a key.
func submit(t testing.TB, s *egress.Sender, to egress.Target, key, id string, done func(egress.Result)) {
	t.Helper()
	if err := s.Submit(egress.Post{Key: key, Target: to, ID: id, Body: []byte(`{}`), Secrets: []string{secret}, Done: done}); err != nil {
		t.Fatal(err)
	}
}

// refusal submits a post. It returns the sender's refusal, or nil after the post has
// its result.
func refusal(s *egress.Sender, to egress.Target, key string) *egress.HeldError {
	done := make(chan struct{})
	err := s.Submit(egress.Post{Key: key, Target: to, ID: "job", Body: []byte(`{}`), Secrets: []string{secret}, Done: func(egress.Result) { close(done) }})
	var held *egress.HeldError
	if errors.As(err, &held) {
		return held
	}
	<-done
	return nil
}

// One in a hundred of these targets hangs.
const (
	targets = 1000
	hanging = targets / 100
)

// submitToTargets sends two posts to each target. The channel receives the results of
// those that do not hang.
func submitToTargets(t *testing.T, g *gate, s *egress.Sender) (results chan egress.Result) {
	results = make(chan egress.Result, 2*targets)
	closed, open := target(t, g.URL+"/closed"), target(t, g.URL+"/open")
	for round := range 2 {
		for i := range targets {
			to, done := open, func(r egress.Result) { results <- r }
			if i < hanging {
				to, done = closed, func(egress.Result) {}
			}
			submit(t, s, to, fmt.Sprint("hook ", i), fmt.Sprint(i, "/", round), done)
		}
	}
	return results
}

// TestHangingTargetsDelayNoOthers sends to a thousand targets, of which the first ten
// hang. Every post to the others is delivered meanwhile.
func TestHangingTargetsDelayNoOthers(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{}))
	results := submitToTargets(t, g, s)
	for range 2 * (targets - hanging) {
		if r := <-results; !r.Delivered() {
			t.Fatalf("got %+v", r)
		}
	}
	if stats := s.Stats(); stats.Fresh != hanging || stats.Flying() != hanging || stats.Waiting != hanging {
		t.Errorf("a target that never answered should have one post under way; got %+v", stats)
	}
	close(g.open)
}

// TestHangingTargetsDelayNoOthersControl: the capacity for targets that have never
// answered is only as large as the number of those that hang. They then delay the
// others, which the test above would detect.
func TestHangingTargetsDelayNoOthersControl(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{Fresh: hanging}))
	results := submitToTargets(t, g, s)
	for range hanging {
		<-g.arrived
	}
	if stats := s.Stats(); stats.Flying() != hanging || stats.Waiting != 2*targets-hanging || len(results) != 0 {
		t.Errorf("got %+v and %d results", stats, len(results))
	}
	close(g.open)
	for range 2 * (targets - hanging) {
		<-results
	}
}

// TestLatePostsReleaseTheirCapacity: a target that was quick hangs until its posts use
// all the capacity for quick targets. The late posts then give this capacity back.
func TestLatePostsReleaseTheirCapacity(t *testing.T) {
	const none = -1 // the control: late posts keep their capacity
	for _, overdue := range []int{64, none} {
		g := newGate(t, ok)
		s := newSender(t, g.sink, egress.Options{Clock: newHand().now, Timeout: far, SlowAfter: 500 * time.Millisecond, Quick: 4, PerTarget: 4, Overdue: overdue})
		open, closed := target(t, g.URL+"/open"), target(t, g.URL+"/closed")
		for _, key := range []string{"well", "ill"} {
			if held := refusal(s, open, key); held != nil {
				t.Fatal(held)
			}
		}
		for i := range 8 {
			submit(t, s, closed, "ill", fmt.Sprint(i), func(egress.Result) {})
		}
		for range 4 {
			<-g.arrived
		}
		well := make(chan egress.Result, 1)
		submit(t, s, open, "well", "job", func(r egress.Result) { well <- r })
		for s.Stats().Late < 4 {
			time.Sleep(10 * time.Millisecond)
		}
		if overdue == none {
			if stats := s.Stats(); len(well) != 0 || stats.Waiting != 5 || stats.Quick != 4 {
				t.Errorf("control: %+v", stats)
			}
		} else if r := <-well; !r.Delivered() {
			t.Errorf("got %+v", r)
		} else if stats := s.Stats(); stats.Overdue != 4 || stats.Slow != 0 || stats.Waiting != 4 {
			t.Errorf("a slow target may have two posts under way and this one has four: got %+v", stats)
		}
		close(g.open)
	}
}

// TestSlowTargetsShareTheirOwnCapacity fills the capacity for slow targets, checks that
// it is bounded, and that targets count as quick again once they answer in time.
func TestSlowTargetsShareTheirOwnCapacity(t *testing.T) {
	g := newGate(t, ok)
	clock := newHand()
	s := newSender(t, g.sink, egress.Options{Clock: clock.now, Timeout: far, SlowAfter: far, WaitMax: 100 * far, Slow: 3, PerTarget: 8})
	closed := target(t, g.URL+"/closed")
	done := make(chan egress.Result, 64)
	const targets = 4
	for i := range targets {
		submit(t, s, closed, fmt.Sprint(i), "first", func(r egress.Result) { done <- r })
	}
	for range targets {
		<-g.arrived
	}
	clock.advance(2 * far) // the answers are late
	for range targets {
		g.open <- struct{}{}
	}
	for range targets {
		if r := <-done; r.Duration != 2*far || !r.Delivered() {
			t.Fatalf("got %+v", r)
		}
	}
	for i := range targets {
		for range 3 {
			submit(t, s, closed, fmt.Sprint(i), "next", func(r egress.Result) { done <- r })
		}
	}
	for range 3 {
		<-g.arrived
	}
	if stats := s.Stats(); stats.Slow != 3 || stats.Flying() != 3 || stats.Waiting != 9 {
		t.Errorf("got %+v", stats)
	}
	close(g.open)
	for range 12 {
		<-done
	}
	if held := refusal(s, closed, "0"); held != nil {
		t.Error(held)
	}
}

// TestTenThousandTargetsNeedFewGoroutines: all of them hang.
func TestTenThousandTargetsNeedFewGoroutines(t *testing.T) {
	const targets = 10_000
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{Fresh: 32}))
	before := runtime.NumGoroutine()
	var told atomic.Int64
	for i := range targets {
		submit(t, s, target(t, g.URL+"/closed"), fmt.Sprint(i), "job", func(r egress.Result) {
			if r.Held {
				told.Add(1)
			}
		})
	}
	for range 32 {
		<-g.arrived
	}
	// The goroutines of the sink and of both ends of the connections count too.
	if stats, n := s.Stats(), runtime.NumGoroutine()-before; stats.Flying() != 32 || stats.Waiting != targets-32 || n > 32*8 {
		t.Errorf("got %+v and %d goroutines", stats, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	if told.Load() != targets {
		t.Errorf("%d of %d results arrived", told.Load(), targets)
	}
	if held := refusal(s, target(t, g.URL), "after"); held == nil {
		t.Error("a post is accepted after the shutdown")
	}
}

func TestPostsOfOneTargetLeaveInOrder(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{PerTarget: 1}))
	close(g.open)
	const posts = 100
	for i := range posts {
		submit(t, s, target(t, g.URL+"/closed"), "", fmt.Sprint(i), func(egress.Result) {})
	}
	for i := range posts {
		if got := <-g.arrived; got != fmt.Sprint(i) {
			t.Fatalf("post %d is %s", i, got)
		}
	}
}

func TestQueuesAreBounded(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{TargetQueueMax: 2, QueueMax: 3, Fresh: 1}))
	to := target(t, g.URL+"/closed")
	submit(t, s, to, "a", "flies", func(egress.Result) {})
	<-g.arrived
	for range 2 {
		submit(t, s, to, "a", "waits", func(egress.Result) {})
	}
	if held := refusal(s, to, "a"); held == nil || held.Wait <= 0 {
		t.Errorf("a third post for one target is accepted: %v", held)
	}
	submit(t, s, to, "b", "waits", func(egress.Result) {})
	if held := refusal(s, to, "c"); held == nil {
		t.Error("a fourth post in total is accepted")
	}
	close(g.open)
}

func TestPostThatWaitedTooLongIsReturned(t *testing.T) {
	g := newGate(t, ok)
	clock := newHand()
	s := newSender(t, g.sink, egress.Options{Clock: clock.now, Timeout: far, SlowAfter: far, WaitMax: 30 * time.Second})
	first, second := make(chan egress.Result, 1), make(chan egress.Result, 1)
	submit(t, s, target(t, g.URL+"/closed"), "a", "1", func(r egress.Result) { first <- r })
	submit(t, s, target(t, g.URL+"/closed"), "a", "2", func(r egress.Result) { second <- r })
	<-g.arrived
	clock.advance(31 * time.Second)
	close(g.open)
	if r := <-first; !r.Delivered() {
		t.Errorf("got %+v", r)
	}
	if r := <-second; !r.Held || r.Status != 0 || r.RetryAfter <= 0 {
		t.Errorf("got %+v", r)
	}
	if len(g.arrived) != 0 {
		t.Error("the post was sent")
	}
}

func TestWaitingPostsCanBeDropped(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{}))
	flies, waits, other := make(chan egress.Result, 1), make(chan egress.Result, 1), make(chan egress.Result, 1)
	submit(t, s, target(t, g.URL+"/closed"), "a", "1", func(r egress.Result) { flies <- r })
	submit(t, s, target(t, g.URL+"/closed"), "a", "2", func(r egress.Result) { waits <- r })
	<-g.arrived
	s.Drop("a")
	s.Drop("unknown")
	if r := <-waits; !r.Held || r.Error == "" {
		t.Errorf("the waiting post: %+v", r)
	}
	submit(t, s, target(t, g.URL+"/closed"), "a", "3", func(r egress.Result) { other <- r })
	close(g.open)
	if r := <-flies; !r.Delivered() {
		t.Errorf("the post under way: %+v", r)
	}
	if r := <-other; !r.Delivered() || <-g.arrived != "3" {
		t.Errorf("the later post: %+v", r)
	}
}

func TestShutdownWaitsForPostsUnderWay(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{}))
	flies, waits := make(chan egress.Result, 1), make(chan egress.Result, 1)
	submit(t, s, target(t, g.URL+"/closed"), "a", "1", func(r egress.Result) { flies <- r })
	submit(t, s, target(t, g.URL+"/closed"), "a", "2", func(r egress.Result) { waits <- r })
	<-g.arrived
	ended := make(chan struct{})
	go func() {
		s.Shutdown(context.Background())
		close(ended)
	}()
	if r := <-waits; !r.Held {
		t.Errorf("the waiting post: %+v", r)
	}
	close(g.open)
	<-ended
	if r := <-flies; !r.Delivered() {
		t.Errorf("the post under way: %+v", r)
	}
}

// TestEveryPostHasOneResult submits posts with every outcome to a few targets from
// several goroutines, while circuits open and close. Each post gets exactly one result.
func TestEveryPostHasOneResult(t *testing.T) {
	var n atomic.Int64
	sink := newSink(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := newSender(t, sink, egress.Options{Failures: 2, CooldownMin: time.Millisecond, CooldownMax: 2 * time.Millisecond, PerTarget: 3})
	var taken, told sync.WaitGroup
	var again atomic.Int64
	for side := range 4 {
		taken.Go(func() {
			for i := range 500 {
				told.Add(1)
				var once atomic.Bool
				err := s.Submit(egress.Post{Key: fmt.Sprint(i % 7), Target: target(t, sink.URL), ID: fmt.Sprint(side, i), Secrets: []string{secret}, Done: func(egress.Result) {
					if once.Swap(true) {
						again.Add(1)
						return
					}
					told.Done()
				}})
				if err != nil {
					told.Done()
				}
			}
		})
	}
	taken.Wait()
	told.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	if stats := s.Stats(); again.Load() != 0 || stats.Flying() != 0 || stats.Waiting != 0 {
		t.Errorf("%d posts got a second result; %+v", again.Load(), stats)
	}
}

// TestPostsThatMayNotBegin: a post is handed back, and not sent, if it may not begin when its
// turn comes; DropAll hands back all that wait.
func TestPostsThatMayNotBegin(t *testing.T) {
	g := newGate(t, ok)
	s := newSender(t, g.sink, never(egress.Options{}))
	held := make(chan egress.Result, 3)
	done := func(r egress.Result) { held <- r }
	post := egress.Post{Key: "a", Target: target(t, g.URL+"/open"), ID: "1", Body: []byte("{}"), Secrets: []string{secret}, Done: done, MayBegin: func() bool { return false }}
	if err := s.Submit(post); err != nil {
		t.Fatal(err)
	}
	if r := <-held; !r.Held || r.Status != 0 {
		t.Errorf("a post that may not begin: %+v", r)
	}
	flies := make(chan egress.Result, 2)
	for _, key := range []string{"b", "c"} {
		submit(t, s, target(t, g.URL+"/closed"), key, "flies", func(r egress.Result) { flies <- r })
		submit(t, s, target(t, g.URL+"/closed"), key, "waits", done)
		<-g.arrived
	}
	s.DropAll()
	for range 2 {
		if r := <-held; !r.Held {
			t.Errorf("a waiting post: %+v", r)
		}
	}
	close(g.open)
	for range 2 {
		if r := <-flies; !r.Delivered() {
			t.Errorf("a post under way: %+v", r)
		}
	}
}
