package egress_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"parley/http/egress"
)

// ward is a sink that answers with the status it is set to, and a sender with a test
// clock.
type ward struct {
	t      *testing.T
	status atomic.Int64
	after  atomic.Value // string
	hits   atomic.Int64
	clock  *hand
	sender *egress.Sender
	target egress.Target
}

func newWard(t *testing.T, options egress.Options) *ward {
	w := &ward{t: t, clock: newHand()}
	w.after.Store("")
	w.status.Store(200)
	sink := newSink(t, func(answer http.ResponseWriter, _ *http.Request) {
		w.hits.Add(1)
		if after := w.after.Load().(string); after != "" {
			answer.Header().Set("Retry-After", after)
		}
		answer.WriteHeader(int(w.status.Load()))
	})
	options.Clock = w.clock.now
	w.sender, w.target = newSender(t, sink, options), target(t, sink.URL)
	return w
}

// send submits n posts and returns how many reached the sink.
func (w *ward) send(n int) (reached int64) {
	before := w.hits.Load()
	for range n {
		refusal(w.sender, w.target, "key")
	}
	return w.hits.Load() - before
}

// held returns how long the sender holds the next post back, or 0 if it accepts the
// post.
func (w *ward) held() time.Duration {
	if held := refusal(w.sender, w.target, "key"); held != nil {
		return held.Wait
	}
	return 0
}

func TestCircuitOpensAndCloses(t *testing.T) {
	w := newWard(t, egress.Options{Failures: 3, CooldownMin: 10 * time.Second, CooldownMax: 30 * time.Second})
	expect := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	w.status.Store(404)
	expect("posts to a target that is there and says no", w.send(10), int64(10))
	w.status.Store(500)
	expect("failures until it opens", w.send(10), int64(3))
	expect("the time it stays open", w.held(), 10*time.Second)
	expect("open circuits", w.sender.Stats().Open, 1)
	w.clock.advance(9 * time.Second)
	expect("the rest of that", w.held(), time.Second)
	w.clock.advance(time.Second)
	expect("probes", w.send(5), int64(1))
	expect("the time after a failed probe", w.held(), 20*time.Second)
	w.clock.advance(20 * time.Second)
	expect("probes", w.send(5), int64(1))
	expect("the longest time", w.held(), 30*time.Second)
	w.clock.advance(30 * time.Second)
	w.status.Store(200)
	expect("posts after a probe that succeeds", w.send(10), int64(10))
	expect("open circuits", w.sender.Stats().Open, 0)
	w.status.Store(502)
	expect("failures until it opens anew", w.send(10), int64(3))
	expect("the time it stays open then", w.held(), 10*time.Second)
	w.sender.Reset("key")
	expect("failures after it was reset", w.send(10), int64(3))
}

func TestCircuitAffectsOneTargetOnly(t *testing.T) {
	w := newWard(t, egress.Options{Failures: 1})
	w.status.Store(500)
	w.send(2)
	w.status.Store(200)
	if held := refusal(w.sender, w.target, "other"); held != nil {
		t.Errorf("another key is held: %v", held)
	}
	if w.held() == 0 {
		t.Error("control: the key itself is not held")
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	w := newWard(t, egress.Options{Failures: 100})
	w.status.Store(429)
	w.after.Store("120")
	if n, wait := w.send(5), w.held(); n != 1 || wait != 2*time.Minute {
		t.Errorf("reached %d times, then held for %v", n, wait)
	}
	w.clock.advance(2 * time.Minute)
	w.status.Store(200)
	if n := w.send(5); n != 5 {
		t.Errorf("reached %d times", n)
	}
}

// TestWaitingPostsAreReturnedWhenTheCircuitOpens: one post is delayed while others wait
// for the same target. When it fails, the others are handed back.
func TestWaitingPostsAreReturnedWhenTheCircuitOpens(t *testing.T) {
	arrived, fail := make(chan struct{}, 1), make(chan struct{})
	sink := newSink(t, func(answer http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-fail
		answer.WriteHeader(500)
	})
	s := newSender(t, sink, never(egress.Options{Failures: 1, CooldownMin: time.Minute}))
	results := make(chan egress.Result, 10)
	for i := range 10 {
		submit(t, s, target(t, sink.URL), "key", fmt.Sprint(i), func(r egress.Result) { results <- r })
	}
	<-arrived
	close(fail)
	held := 0
	for range 10 {
		if r := <-results; r.Held && r.RetryAfter > 0 && r.RetryAfter <= time.Minute && r.Error != "" {
			held++
		}
	}
	if held != 9 || len(arrived) != 0 {
		t.Errorf("%d of 9 were handed back, %d more were sent", held, len(arrived))
	}
}

// TestIdleTargetsAreForgotten bounds how many targets the sender keeps.
func TestIdleTargetsAreForgotten(t *testing.T) {
	w := newWard(t, egress.Options{TargetsMax: 10})
	for i := range 50 {
		if held := refusal(w.sender, w.target, fmt.Sprint(i)); held != nil {
			t.Fatal(held)
		}
	}
	if n := w.sender.Stats().Targets; n != 10 {
		t.Errorf("the sender keeps %d targets", n)
	}
}
