package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// overloadPatience bounds the time until an answer. A server that sheds load in time
	// never needs it.
	overloadPatience = 15 * time.Second
	// overloadClients is the number of clients in the closed loop, which finds capacity.
	overloadClients = 256
	// overloadDials bounds the dials at once, because more would overflow the listen queue.
	overloadDials = 256
	// redialPause is the pause before a broken connection is dialled again.
	redialPause = 200 * time.Millisecond
	// refusedPause is how long a client of the closed loop pauses after a refusal; an
	// immediate retry would not be a closed loop.
	refusedPause = 20 * time.Millisecond
)

// overload is Overload. It sends messages over many connections. In the open loop, an arrival
// that finds every connection waiting for an answer is not sent. It is counted, so that the
// intended rate is not mistaken for the offered one. In the closed loop each of at most
// overloadClients sends again as soon as it has an answer.
//
// A proper refusal, 429 or 503 with a whole number of seconds in Retry-After, is not a
// failure: refusals are what this scenario examines. Every other answer except 201 is a
// failure.
type overload struct{ host *host.Host }

// Run implements Scenario.
func (o *overload) Run(ctx context.Context, r *host.Round) error {
	h := o.host
	count := r.Bench.Limit(h.Params.Connections, "connections")
	if r.Plan.Rate == 0 {
		count = min(count, overloadClients)
	}
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	r.Result.Clients = count
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	meter.ForgetPeak() // otherwise it would be the peak of all runs so far
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	step := &overloadStep{Plan: r.Plan, host: h, senders: make([]*overloadSender, count), idle: make(chan *overloadSender, count), tally: newTally()}
	defer step.close()
	key := h.NextRun()
	err := host.Concurrently(ctx, overloadDials, count, func(ctx context.Context, i int) (err error) {
		s := &overloadSender{step: step, key: host.Key{Run: key, Worker: uint32(i)}, choice: h.Choice(key, i), due: make(chan time.Time, 1)}
		step.senders[i] = s
		return s.dial(ctx)
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, step.close)()
	err = step.all(ctx, window)
	step.tally.fill(r.Result, r.Plan)
	if peak := meter.Peak(); peak > 0 {
		r.Result.Figures[FigurePeak] = float64(peak)
	}
	return err
}

// overloadStep is one step in progress.
type overloadStep struct {
	load.Plan
	host    *host.Host
	senders []*overloadSender
	// idle holds the senders that wait for an arrival, in the order in which they became idle.
	idle  chan *overloadSender
	start time.Time
	// begin and end are the edges of the window.
	begin, end time.Time
	tally      *tally
}

// all warms up, measures, and waits for the remaining answers.
func (p *overloadStep) all(ctx context.Context, window load.Watch) error {
	p.start = time.Now()
	p.begin = p.start.Add(p.WarmUp)
	p.end = p.begin.Add(p.Duration)
	var working, watching sync.WaitGroup
	for _, s := range p.senders {
		working.Go(func() { s.work(ctx) })
	}
	watching.Go(func() { p.watch(ctx, window) })
	if p.Rate > 0 {
		p.dispatch(ctx)
	}
	for _, s := range p.senders {
		close(s.due)
	}
	working.Wait()
	watching.Wait()
	return context.Cause(ctx)
}

// watch calls the methods of window.
func (p *overloadStep) watch(ctx context.Context, window load.Watch) {
	if host.SleepUntil(ctx, p.begin) != nil {
		return
	}
	window.Begin()
	defer window.End()
	for next := p.begin; next.Before(p.end); {
		next = next.Add(min(time.Second, p.end.Sub(next)))
		if host.SleepUntil(ctx, next) != nil {
			return
		}
		window.Tick(p.tally.second())
	}
}

// dispatch gives each arrival to a sender that is idle, until the window is over.
func (p *overloadStep) dispatch(ctx context.Context) {
	for n := 0; ; {
		now := time.Now()
		if !now.Before(p.end) || ctx.Err() != nil {
			return
		}
		missed := int64(0)
		for due := int(now.Sub(p.start).Seconds()*p.Rate) + 1; n < due; n++ {
			at := p.start.Add(time.Duration(float64(n) / p.Rate * 1e9))
			select {
			case s := <-p.idle:
				s.due <- at
			default:
				if p.inside(at) {
					missed++
				}
			}
		}
		p.tally.count(func() { p.tally.intended += missed })
		time.Sleep(time.Until(p.start.Add(time.Duration(float64(n) / p.Rate * 1e9))))
	}
}

func (p *overloadStep) inside(at time.Time) bool { return !at.Before(p.begin) && at.Before(p.end) }

// close closes every connection.
func (p *overloadStep) close() {
	for _, s := range p.senders {
		if s != nil {
			s.hangUp(true)
		}
	}
}

// overloadSender sends on one connection, one request at a time.
type overloadSender struct {
	step   *overloadStep
	key    host.Key
	choice *rand.Rand
	// due gives the arrivals of an open loop, and is closed at the end.
	due chan time.Time

	mu     sync.Mutex // of sender and closed, which the end of the run may change
	sender *host.HTTPSender
	closed bool
}

func (s *overloadSender) dial(ctx context.Context) error {
	c, err := s.step.host.Caller(ctx)
	if err != nil {
		return err
	}
	c.Conn.SetPatience(overloadPatience)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sender = s.step.host.HTTPSender(c, 0); s.closed {
		return errors.Join(context.Canceled, c.Close())
	}
	return nil
}

// hangUp closes the connection, with final for ever.
func (s *overloadSender) hangUp(final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || final
	if s.sender != nil {
		_ = s.sender.Close()
	}
}

// work sends until the window is over. A connection that breaks is dialled again after a
// pause.
func (s *overloadSender) work(ctx context.Context) {
	for broken := false; ; {
		if broken {
			if host.SleepUntil(ctx, time.Now().Add(redialPause)) != nil || !time.Now().Before(s.step.end) {
				return
			}
			if err := s.dial(ctx); err != nil {
				s.step.tally.failed("no connection: " + reasonOf(err))
				continue
			}
		}
		due, more := s.next()
		if !more {
			return
		}
		refused, err := s.send(due)
		if broken = err != nil; broken {
			s.hangUp(false)
			continue
		}
		if refused && s.step.Rate == 0 {
			_ = host.SleepUntil(ctx, time.Now().Add(refusedPause))
		}
	}
}

// next waits for the next arrival.
func (s *overloadSender) next() (due time.Time, more bool) {
	if s.step.Rate == 0 {
		now := time.Now()
		return now, now.Before(s.step.end)
	}
	s.step.idle <- s
	due, more = <-s.due
	return due, more
}

// send sends a message and judges the answer. The error means that the connection is of no
// further use.
func (s *overloadSender) send(due time.Time) (refused bool, err error) {
	s.key.N++
	to, c, t := s.choice.IntN(s.sender.Agents), s.sender, s.step.tally
	request := c.Request(to, s.key)
	sent := time.Now()
	if s.step.inside(due) {
		t.count(func() {
			t.intended++
			t.offered++
			t.lag.Record(sent.Sub(due))
		})
	}
	answer, err := c.Conn.Do(request)
	answered := time.Now()
	if errors.Is(err, wire.ErrClosing) { // nothing was sent
		t.failed("the server ended the connection")
		return false, err
	}
	if err != nil {
		c.Log.Lost(s.key)
		t.failed(reasonOf(err))
		return false, err
	}
	if answer.Status == 429 || answer.Status == 503 {
		if fault := s.faultOf(answer); fault != "" {
			t.failed(fault)
		} else {
			t.count(func() {
				if s.step.inside(due) {
					t.refusing.Record(answered.Sub(sent))
				}
				if s.step.inside(answered) {
					t.refusals++
					t.recentNo++
				}
			})
		}
		return true, closing(answer)
	}
	recipient := c.Workers[to]
	got, err := c.Accept(answer, s.key, recipient.Mailbox)
	if err == nil && string(got.RecipientHandle) != recipient.Handle {
		err = host.Wrong("another recipient than the one asked for")
	}
	if err != nil {
		t.failed(err.Error())
	} else {
		t.count(func() {
			if s.step.inside(due) {
				t.service.Record(answered.Sub(sent))
				t.latency.Record(answered.Sub(due))
			}
			if s.step.inside(answered) {
				t.answered++
				t.recently++
			}
		})
	}
	return false, closing(answer)
}

// closing returns an error if the server closes the connection after an answer.
func closing(answer wire.Answer) error {
	if answer.Closing {
		return wire.ErrClosing
	}
	return nil
}

// faultOf describes what is wrong with a refusal, or returns "". A proper refusal has had no
// effect and says when to retry.
func (s *overloadSender) faultOf(answer wire.Answer) string {
	err, known := host.Refusal(answer)
	if !known {
		s.sender.Log.Lost(s.key)
		return err.Error()
	}
	if seconds, err := strconv.Atoi(answer.RetryAfter); err != nil || seconds < 1 {
		return fmt.Sprintf("status %d without a whole number of seconds in Retry-After", answer.Status)
	}
	return ""
}

// reasonOf returns the key of an error in the report. There are few different keys.
func reasonOf(err error) string {
	var network *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer within %v", overloadPatience)
	case errors.As(err, &network):
		return "the connection broke: " + network.Op + ": " + network.Err.Error()
	}
	return "the connection broke: " + err.Error()
}

// Names of the figures and laps of a run of Overload. docs/benchmarks.md says what they mean.
const (
	FigureIntended = "intended_per_second"
	FigureOffered  = "offered_per_second"
	FigureRefused  = "refused_per_second"
	FigurePeak     = "resident_peak_bytes"
	LapRefused     = "refused, from the real sending"
	LapLag         = "generator's delay"
)

// tally counts the results of one step of Overload, of all senders together. Throughputs are
// counted by time of answer and latencies by time of sending, both only within the window.
type tally struct {
	mu                 sync.Mutex
	intended, offered  int64
	answered, refusals int64 // within the window
	failures           int64
	reasons            map[string]int64
	latency, service   *load.Histogram // of the accepted
	refusing, lag      *load.Histogram
	recently, recentNo int64 // accepted and refused in this second
}

func newTally() *tally {
	return &tally{
		reasons: map[string]int64{}, latency: load.NewHistogram(), service: load.NewHistogram(),
		refusing: load.NewHistogram(), lag: load.NewHistogram(),
	}
}

// count changes the counts.
func (t *tally) count(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// failed counts a failure, whether or not it is within the window.
func (t *tally) failed(reason string) {
	t.count(func() {
		t.failures++
		t.reasons[reason]++
	})
}

// second ends a second. Its refusals are reported as Failures.
func (t *tally) second() result.Second {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := result.Second{Operations: t.recently, Failures: t.recentNo}
	t.recently, t.recentNo = 0, 0
	return s
}

func (t *tally) fill(run *result.Run, p load.Plan) {
	seconds := p.Duration.Seconds()
	each := func(n int64) float64 { return float64(n) / seconds }
	run.Seconds, run.Operations, run.PerSecond = seconds, t.answered, each(t.answered)
	run.Failures, run.Reasons = t.failures, t.reasons
	run.Latency, run.Service = t.latency.Latency(), t.service.Latency()
	run.Laps = map[string]result.Latency{LapRefused: t.refusing.Latency(), LapLag: t.lag.Latency()}
	run.Figures = map[string]float64{
		FigureIntended: each(t.intended), FigureOffered: each(t.offered),
		FigureRefused: each(t.refusals),
	}
}
