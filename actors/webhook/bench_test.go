package webhook_test

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/webhook"
)

// busy returns a webhook with the given number of jobs waiting for their first attempt.
func busy(tb testing.TB, jobs int) *webhook.State {
	tb.Helper()
	s := &webhook.State{}
	do(tb, s, webhook.Create{ID: actorstest.Named("hook"), Org: acme, URL: "https://hook.example/a", SealedSecret: make([]byte, 60)}, actorstest.Epoch)
	const page = 1000
	for made := 0; made < jobs; made += page {
		do(tb, s, collect(s, min(page, jobs-made)), actorstest.Epoch)
	}
	return s
}

// collect returns the next page of the feed.
func collect(s *webhook.State, lines int) webhook.Collect {
	c := webhook.Collect{Upto: s.GetCursor() + uint64(lines)}
	ref := make([]byte, 16)
	for position := s.GetCursor() + 1; position <= c.Upto; position++ {
		c.News = append(c.News, webhook.Entry{Position: position, News: &webhook.News{Event: webhook.MessageReceived, Ref: ref}})
	}
	return c
}

// do decides a command and applies its events.
func do(tb testing.TB, s *webhook.State, c webhook.Command, now time.Time) []webhook.Event {
	events, err := webhook.Decide(s, c, now)
	if err != nil || len(events) == 0 {
		tb.Fatalf("%#v: %v, %v", c, events, err)
	}
	for _, e := range events {
		webhook.Evolve(s, e)
	}
	return events
}

// manyPlaces is the number of concurrent attempts of a webhook under load.
const manyPlaces = 64

// attempt begins as many first attempts as there are places, and ends them all with the
// same code.
func attempt(tb testing.TB, s *webhook.State, code int) {
	do(tb, s, webhook.Lease{Max: manyPlaces}, actorstest.Epoch)
	c := webhook.Report{Outcomes: make([]webhook.Outcome, 0, manyPlaces)}
	for _, a := range s.GetUnderWay() {
		c.Outcomes = append(c.Outcomes, webhook.Outcome{Lease: a.Lease, Code: code})
	}
	do(tb, s, c, actorstest.Epoch)
}

// BenchmarkDelivery measures a job from the feed to its delivery, 64 at a time.
func BenchmarkDelivery(b *testing.B) {
	s := busy(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		do(b, s, collect(s, manyPlaces), actorstest.Epoch)
		attempt(b, s, 200)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*manyPlaces), "ns/job")
}

// BenchmarkRows measures what the host's rows add to that.
func BenchmarkRows(b *testing.B) {
	s, rows := busy(b, 0), map[uint64]*webhook.Job{}
	b.ReportAllocs()
	for b.Loop() {
		clear(rows)
		for _, e := range do(b, s, collect(s, manyPlaces), actorstest.Epoch) {
			webhook.Fold(rows, e)
		}
		for _, e := range do(b, s, webhook.Lease{Max: manyPlaces}, actorstest.Epoch) {
			webhook.Fold(rows, e)
		}
		c := webhook.Report{}
		for _, a := range s.GetUnderWay() {
			c.Outcomes = append(c.Outcomes, webhook.Outcome{Lease: a.Lease, Code: 200})
		}
		for _, e := range do(b, s, c, actorstest.Epoch) {
			webhook.Fold(rows, e)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*manyPlaces), "ns/job")
}

// Bounds on a webhook, however many jobs are waiting: in memory, measured only
// coarsely, and in its snapshot.
const (
	heldBytesMax   = 20_000
	storedBytesMax = 250
)

// TestMemory: a webhook with a million waiting jobs takes no more memory than one
// without.
func TestMemory(t *testing.T) {
	const jobs = 1_000_000
	var s *webhook.State
	if bytes := held(func() *webhook.State { s = busy(t, jobs); return s }); bytes > heldBytesMax {
		t.Errorf("%d bytes for a webhook with %d jobs, %d allowed", bytes, jobs, heldBytesMax)
	}
	if sum := s.Summary(); sum.Pending != jobs || proto.Size(s) > storedBytesMax {
		t.Errorf("%+v in %d bytes, %d allowed", sum, proto.Size(s), storedBytesMax)
	}
	for range 1000 {
		attempt(t, s, 500)
	}
	if sum := s.Summary(); sum.Failed != 1000*manyPlaces || proto.Size(s) > storedBytesMax {
		t.Errorf("%+v in %d bytes, %d allowed", sum, proto.Size(s), storedBytesMax)
	}
}

// TestMemoryControl: a webhook that kept ten thousand jobs would exceed the bounds.
func TestMemoryControl(t *testing.T) {
	remembering := func() *webhook.State {
		s := busy(t, 10_000)
		for n := range s.LastJob {
			s.Unsent = append(s.Unsent, n+1)
		}
		return s
	}
	if bytes := held(remembering); bytes <= heldBytesMax || proto.Size(remembering()) <= storedBytesMax {
		t.Errorf("%d bytes in memory and %d stored are within the bounds", bytes, proto.Size(remembering()))
	}
}

// held returns how many bytes the result of build keeps in memory.
func held[T any](build func() T) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// leaseAllocations bounds the allocations of giving 64 leases and folding them: one
// attempt each, and the lists that contain them.
const leaseAllocations = manyPlaces + 30

// TestAllocationsOfLease: the cost of giving leases does not depend on the number of
// waiting jobs.
func TestAllocationsOfLease(t *testing.T) {
	for _, jobs := range []int{1000, 1_000_000} {
		s := busy(t, jobs)
		got := testing.AllocsPerRun(10, func() {
			do(t, s, webhook.Lease{Max: manyPlaces}, actorstest.Epoch)
			s.UnderWay = s.UnderWay[:0]
		})
		if got > leaseAllocations {
			t.Errorf("%d jobs: %v allocations for %d leases, %d allowed", jobs, got, manyPlaces, leaseAllocations)
		}
	}
}
