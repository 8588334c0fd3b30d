package load

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/bench/result"
)

// server is a system in virtual time. Each operation takes service, at most as many at
// once as slots has places if slots is not nil. Nothing is served between from and
// until.
type server struct {
	service     time.Duration
	slots       chan struct{}
	from, until time.Time
	// answer, if set, returns the result of operation n of a worker.
	answer func(worker, n int) error
	// note, if set, may use the parts.
	note func(parts *Parts)

	lock          sync.Mutex
	dials, closes int
	seen          map[int][]int
}

func (s *server) dial(_ context.Context, worker int) (Client, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.dials++
	return &client{server: s, worker: worker}, nil
}

type client struct {
	server *server
	worker int
}

func (c *client) Do(_ context.Context, n int, parts *Parts) error {
	s := c.server
	if s.slots != nil {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
	}
	if now := time.Now(); !now.Before(s.from) && now.Before(s.until) {
		time.Sleep(s.until.Sub(now))
	}
	time.Sleep(s.service)
	s.lock.Lock()
	if s.seen == nil {
		s.seen = make(map[int][]int)
	}
	s.seen[c.worker] = append(s.seen[c.worker], n)
	s.lock.Unlock()
	if s.note != nil {
		s.note(parts)
	}
	if s.answer != nil {
		return s.answer(c.worker, n)
	}
	return nil
}

func (c *client) Close() error {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.server.closes++
	return nil
}

// gapless checks that each worker was asked for operations 0, 1, 2 … and that every
// connection was closed.
func (s *server) gapless(t *testing.T) {
	t.Helper()
	for worker, seen := range s.seen {
		for i, n := range seen {
			if i != n {
				t.Fatalf("worker %d was asked for %d as its operation %d", worker, n, i)
			}
		}
	}
	if s.closes != s.dials {
		t.Errorf("%d connections dialled, %d closed", s.dials, s.closes)
	}
}

func over(h *Histogram, bound time.Duration) (n int64) {
	for _, bar := range h.counts.Distribution() {
		if bar.From > bound.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

func sumOf(seconds []result.Second) (operations, failures int64) {
	for _, second := range seconds {
		operations += second.Operations
		failures += second.Failures
	}
	return operations, failures
}

func mustRun(t *testing.T, plan Plan, dial Dial, watch Watch) *Measurement {
	t.Helper()
	m, err := Run(t.Context(), plan, dial, watch)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenLoopCountsWhatAStallDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Add(1500 * time.Millisecond)
		s := &server{service: 100 * time.Microsecond, from: from, until: from.Add(200 * time.Millisecond)}
		plan := Plan{Clients: 4, Rate: 1000, WarmUp: 500 * time.Millisecond, Duration: 3 * time.Second}
		d := &recorder{start: time.Now()}
		m := mustRun(t, plan, s.dial, d)
		s.gapless(t)
		if m.Operations != 3000 || m.Latency.Count() != 3000 || m.Failures != 0 {
			t.Errorf("of 3000: %d done, %d timed, %d failed", m.Operations, m.Latency.Count(), m.Failures)
		}
		// 190 arrivals during the stall wait longer than 10 ms, and so do a few in the
		// queue after it.
		if late := over(m.Latency, 10*time.Millisecond); late < 188 || late > 198 {
			t.Errorf("%d operations are late by intended time", late)
		}
		if late := over(m.Service, 10*time.Millisecond); late != 4 {
			t.Errorf("%d operations are late by real start, want one per client", late)
		}
		if p99 := m.Latency.Quantile(99); p99 < 150*time.Millisecond {
			t.Errorf("p99 %v does not include the stall", p99)
		}
		if len(d.ticks) < 3 {
			t.Errorf("seconds %+v", d.ticks)
		}
		if n, _ := sumOf(d.ticks); n != 3000 {
			t.Errorf("the seconds hold %d operations", n)
		}
		if m.Seconds != 3 || math.Abs(m.PerSecond()-1000) > 0.1 {
			t.Errorf("%v seconds, %v a second", m.Seconds, m.PerSecond())
		}
	})
}

func TestClosedLoopHidesTheSameStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Add(1500 * time.Millisecond)
		s := &server{service: time.Millisecond, from: from, until: from.Add(200 * time.Millisecond)}
		plan := Plan{Clients: 4, WarmUp: 500 * time.Millisecond, Duration: 3 * time.Second}
		m := mustRun(t, plan, s.dial, nil)
		s.gapless(t)
		if late := over(m.Latency, 10*time.Millisecond); late != 4 {
			t.Errorf("%d late, want one per client", late)
		}
		if m.Operations < 4*2798 || m.Operations > 4*2801 || m.Service.Count() != m.Operations {
			t.Errorf("%d operations, %d of service", m.Operations, m.Service.Count())
		}
	})
}

func TestOverloadTellsTheTrueRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: 10 * time.Millisecond}
		plan := Plan{Clients: 1, Rate: 200, Duration: 2 * time.Second}
		m := mustRun(t, plan, s.dial, nil)
		s.gapless(t)
		if m.Operations != 400 || math.Abs(m.Seconds-4) > 0.01 || math.Abs(m.PerSecond()-100) > 0.5 {
			t.Errorf("%d operations in %v s are reported as %v a second", m.Operations, m.Seconds, m.PerSecond())
		}
		if slowest := m.Latency.Quantile(100); slowest < 1990*time.Millisecond {
			t.Errorf("the slowest operation took %v", slowest)
		}
	})
}

func TestOvertimeGivesUpAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: 10 * time.Millisecond}
		plan := Plan{Clients: 1, Rate: 200, Duration: 2 * time.Second, Overtime: time.Second}
		d := &recorder{start: time.Now()}
		m := mustRun(t, plan, s.dial, d)
		never := m.Reasons[NeverSent]
		if m.Operations+never != 400 || never != m.Failures {
			t.Errorf("%d done, reasons %v", m.Operations, m.Reasons)
		}
		if m.Operations < 299 || m.Operations > 302 || math.Abs(m.PerSecond()-100) > 1 {
			t.Errorf("%d done, %v a second", m.Operations, m.PerSecond())
		}
		if m.Latency.Count() != 400 || m.Service.Count() != m.Operations {
			t.Errorf("%d latencies, %d of service", m.Latency.Count(), m.Service.Count())
		}
		if _, failures := sumOf(d.ticks); failures != never {
			t.Errorf("the seconds hold %d failures of %d", failures, never)
		}
	})
}

func TestRefusedKeepsAndBrokenRedials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: time.Millisecond}
		s.answer = func(worker, n int) error {
			switch {
			case n%10 == 3:
				return Refused{Reason: "too many"}
			case worker == 1 && n == 25:
				return errors.New("the answer has another id than that of the request")
			}
			return nil
		}
		plan := Plan{Clients: 2, Rate: 100, Duration: 2 * time.Second}
		m := mustRun(t, plan, s.dial, nil)
		s.gapless(t)
		if s.dials != 3 {
			t.Errorf("%d dials, want one per client and one for the broken connection", s.dials)
		}
		if m.Operations != 179 || m.Failures != 21 {
			t.Errorf("%d done, %d failed", m.Operations, m.Failures)
		}
		if m.Reasons["too many"] != 20 || m.Reasons["the answer has another id than that of"] != 1 || len(m.Reasons) != 2 {
			t.Errorf("reasons %v", m.Reasons)
		}
		if m.Latency.Count() != m.Operations {
			t.Errorf("%d latencies of %d operations", m.Latency.Count(), m.Operations)
		}
	})
}

func TestOutageIsWaitedForWithinPatience(t *testing.T) {
	for name, outage := range map[string]time.Duration{"short": 700 * time.Millisecond, "long": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := time.Now().Add(time.Second)
				up := down.Add(outage)
				dead := func() bool { now := time.Now(); return !now.Before(down) && now.Before(up) }
				gone := errors.New("connection refused")
				s := &server{service: time.Millisecond}
				s.answer = func(int, int) error {
					if dead() {
						return gone
					}
					return nil
				}
				dial := func(ctx context.Context, worker int) (Client, error) {
					if dead() {
						return nil, gone
					}
					return s.dial(ctx, worker)
				}
				plan := Plan{Clients: 2, Rate: 100, Duration: 3 * time.Second, Patience: 2 * time.Second}
				m, err := Run(t.Context(), plan, dial, nil)
				s.gapless(t)
				if name == "long" {
					if !errors.Is(err, gone) || m == nil || m.Operations < 95 || m.Operations > 101 {
						t.Errorf("%v, %+v", err, m)
					}
					return
				}
				if err != nil || m.Operations != 298 || m.Failures != 2 {
					t.Fatalf("%v, %+v", err, m)
				}
				if late := over(m.Latency, 10*time.Millisecond); late < 65 {
					t.Errorf("%d late in an outage of 70 arrivals", late)
				}
			})
		})
	}
}

func TestConnectionsThatAlwaysBreakEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("not this protocol")
		s := &server{service: time.Millisecond, answer: func(int, int) error { return wrong }}
		start := time.Now()
		_, err := Run(t.Context(), Plan{Clients: 3, Duration: time.Minute}, s.dial, nil)
		if !errors.Is(err, wrong) || time.Since(start) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s.dials > 60 {
			t.Errorf("%d dials", s.dials)
		}
		s.gapless(t)
	})
}

func TestFailedFirstDialClosesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no more")
		s := &server{}
		dial := func(ctx context.Context, worker int) (Client, error) {
			if worker == 90 {
				return nil, full
			}
			return s.dial(ctx, worker)
		}
		m, err := Run(t.Context(), Plan{Clients: 100, Duration: time.Second}, dial, nil)
		if m != nil || !errors.Is(err, full) {
			t.Errorf("%v, %v", m, err)
		}
		s.gapless(t)
	})
}

// deaf is a client that only Close can end.
type deaf struct{ closed chan struct{} }

func (d deaf) Do(context.Context, int, *Parts) error { <-d.closed; return errors.New("closed") }
func (d deaf) Close() error                          { close(d.closed); return nil }

func TestCancelEndsAtOnce(t *testing.T) {
	clients := map[string]func() Client{
		"deaf client":    func() Client { return deaf{make(chan struct{})} },
		"waiting worker": func() Client { return &client{server: &server{service: time.Millisecond}} },
	}
	for name, create := range clients {
		for _, warmUp := range []time.Duration{0, time.Hour} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(2500*time.Millisecond, cancel)
					start := time.Now()
					dial := func(context.Context, int) (Client, error) { return create(), nil }
					plan := Plan{Clients: 3, Rate: 0.001, WarmUp: warmUp, Duration: time.Hour}
					m, err := Run(ctx, plan, dial, nil)
					if !errors.Is(err, context.Canceled) || time.Since(start) != 2500*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(start))
					}
					if (m == nil) != (warmUp > 0) {
						t.Errorf("measurement %+v with a warm-up of %v", m, warmUp)
					}
					if m != nil && (m.Seconds != 2.5 || m.Failures != 0) {
						t.Errorf("%v seconds, %v", m.Seconds, m.Reasons)
					}
				})
			})
		}
	}
}

// recorder is a Watch that records when it was called.
type recorder struct {
	start time.Time
	calls []string
	ticks []result.Second
}

func (d *recorder) note(what string) {
	d.calls = append(d.calls, what+" "+time.Since(d.start).String())
}
func (d *recorder) Begin() { d.note("begin") }
func (d *recorder) End()   { d.note("end") }
func (d *recorder) Tick(second result.Second) {
	d.note("tick")
	d.ticks = append(d.ticks, second)
}

func TestWatchSeesTheWindowAndPartsOfOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: 2 * time.Millisecond}
		s.note = func(parts *Parts) { parts.Note("half", time.Since(parts.Intended())/2) }
		d := &recorder{start: time.Now()}
		plan := Plan{Clients: 5, Rate: 500, WarmUp: time.Second, Duration: 2500 * time.Millisecond}
		m := mustRun(t, plan, s.dial, d)
		want := []string{"begin 1s", "tick 2s", "tick 3s", "tick 3.5s", "end 3.5s"}
		if len(d.calls) != len(want) {
			t.Fatalf("%v", d.calls)
		}
		for i := range want {
			if d.calls[i] != want[i] {
				t.Errorf("%q, want %q", d.calls[i], want[i])
			}
		}
		half := m.Parts["half"]
		if half == nil || half.Count() != 1250 || half.Quantile(50) != time.Millisecond {
			t.Errorf("part %+v", half)
		}
		var run result.Run
		run.Target = "kept"
		m.Fill(&run)
		if run.Target != "kept" || run.Operations != 1250 || run.Parts["half"].P50 != 1 || run.PerSecond != 500 {
			t.Errorf("%+v", run)
		}
	})
}

func TestPlansThatCannotBeRun(t *testing.T) {
	good := Plan{Clients: 1, Duration: time.Second}
	bad := map[string]func(*Plan){
		"no clients":        func(p *Plan) { p.Clients = 0 },
		"negative rate":     func(p *Plan) { p.Rate = -1 },
		"rate is no number": func(p *Plan) { p.Rate = math.NaN() },
		"no window":         func(p *Plan) { p.Duration = 0 },
		"negative warmup":   func(p *Plan) { p.WarmUp = -1 },
	}
	for name, spoil := range bad {
		plan := good
		spoil(&plan)
		if m, err := Run(t.Context(), plan, nil, nil); !errors.Is(err, errPlan) || m != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOperationsCostNoAllocation(t *testing.T) {
	for _, rate := range []float64{0, 1e9} {
		plan := Plan{Clients: 2, Rate: rate, Duration: time.Hour}
		r := &run{ctx: t.Context(), plan: plan, shared: []*distributions{newDistributions(rate)}}
		r.start = time.Now()
		r.begin, r.end = r.start, r.start.Add(time.Hour)
		w := newWorker(r, 1)
		allocations := testing.AllocsPerRun(1000, func() {
			due, sent, more := w.await()
			if !more {
				t.Error("no more operations")
			}
			w.succeed(due, sent, time.Now())
		})
		if allocations != 0 {
			t.Errorf("%v allocations for each operation at rate %v", allocations, rate)
		}
	}
}

// unsteady refuses every third operation, or all of them.
type unsteady struct {
	done   *atomic.Int64
	always bool
}

func (u unsteady) Do(context.Context, int, *Parts) error {
	if u.done.Add(1)%3 == 0 || u.always {
		return Refused{Reason: "busy"}
	}
	return nil
}

func (unsteady) Close() error { return nil }

// TestOperations: the run ends when so many operations have succeeded, however many failed, but
// not if the system refuses all.
func TestOperations(t *testing.T) {
	for _, always := range []bool{false, true} {
		var done atomic.Int64
		dial := func(context.Context, int) (Client, error) { return unsteady{&done, always}, nil }
		m, err := Run(t.Context(), Plan{Clients: 5, Operations: 210}, dial, nil)
		if always {
			if err == nil || !strings.Contains(err.Error(), "busy") {
				t.Errorf("a run that never succeeds does not fail: %v", err)
			}
			continue
		}
		if err != nil || m.Operations != 210 || m.Failures != done.Load()-210 || m.Failures == 0 {
			t.Errorf("%v: %+v after %d operations", err, m, done.Load())
		}
	}
}

// TestSkipBusySendsNothingLate: an arrival whose client waits for an answer is not sent.
func TestSkipBusySendsNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: 12 * time.Millisecond}
		m := mustRun(t, Plan{Clients: 1, Rate: 200, Duration: 2 * time.Second, SkipBusy: true}, s.dial, nil)
		if m.Operations < 132 || m.Operations > 134 || m.Failures != 0 || m.Seconds > 2.02 {
			t.Errorf("%d of 400 arrivals were sent in %v s, failures %v; want every third", m.Operations, m.Seconds, m.Reasons)
		}
		if late := over(m.Latency, 13*time.Millisecond); late != 0 {
			t.Errorf("%d were sent late", late)
		}
	})
}

// endsEach is a client whose connection ends with each answer.
type endsEach struct{ ended bool }

func (c *endsEach) Do(context.Context, int, *Parts) error { c.ended = true; return nil }
func (c *endsEach) Ended() bool                           { return c.ended }
func (c *endsEach) Close() error                          { return nil }

// TestEndedConnectionsAreDialledAgain: no operation fails for them.
func TestEndedConnectionsAreDialledAgain(t *testing.T) {
	dials := 0
	dial := func(context.Context, int) (Client, error) { dials++; return &endsEach{}, nil }
	m, err := Run(t.Context(), Plan{Clients: 1, Operations: 20}, dial, nil)
	if err != nil || m.Operations != 20 || m.Failures != 0 || dials != 20 {
		t.Errorf("%v: %+v after %d dials", err, m, dials)
	}
}
