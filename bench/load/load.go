// Package load asks a system under test for work at a known pace and says what
// really happened. It knows neither HTTP nor Parley: an operation is whatever a
// Client does.
//
// A closed loop lets every worker ask again as soon as it was answered; it finds
// capacity and hides stalls, for a stalled system is not asked. An open loop
// sends at intended times that do not depend on the answers, sends late what
// could not be sent in time, and counts latency from the intended time, so a
// stall costs every arrival that it delayed.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/result"
)

// Client is one connection to the system under test, used by one worker.
type Client interface {
	// Do performs operation n of this worker, counted from 0 without gaps and
	// also across connections, waits for its answer and checks it. Refused says
	// that the system said no and the connection is good; any other error breaks
	// the connection, which is closed and dialled again. An operation under way
	// should end when ctx does; when it does not, Close ends it. Do bounds its own
	// waiting: a run waits for every answer.
	Do(ctx context.Context, n int, laps *Laps) error
	// Close ends the connection. It is called once, and from another goroutine
	// than Do when the run is cancelled while an operation is under way; Do must
	// then return with any error.
	Close() error
}

// Dial connects worker to the system, at the start of a run and again after its
// connection broke. Calls for different workers come at the same time.
type Dial func(ctx context.Context, worker int) (Client, error)

// Refused is the answer of a system that did not do the operation and said so in
// good order. It is a failure, but the connection stays. Reason becomes a key of
// the report and must have few different values.
type Refused struct{ Reason string }

// Error implements error.
func (r Refused) Error() string { return "refused: " + r.Reason }

// Plan is the pace of one run.
type Plan struct {
	// Clients is how many workers, each with a connection of its own.
	Clients int
	// Rate is the arrivals a second of all workers together; 0 is a closed loop.
	Rate float64
	// Poisson draws exponential gaps between arrivals instead of equal ones.
	Poisson bool
	// WarmUp runs at the same pace before the window and is not measured.
	WarmUp time.Duration
	// Duration is the measured window. Arrivals that are due within it belong to
	// it however late they are answered.
	Duration time.Duration
	// Overtime bounds how long after the window arrivals that were due in it are
	// still sent; 0 sends them all. Arrivals given up are counted as failures
	// for NeverSent, and their wait so far goes into the latency.
	Overtime time.Duration
	// Patience is how long a broken connection is dialled again before the run
	// is given up; 0 is five seconds.
	Patience time.Duration
	// Seed makes Poisson gaps repeatable.
	Seed uint64
}

// NeverSent is the reason of arrivals that were given up after Plan.Overtime.
const NeverSent = "never sent"

// Watch looks on. All its methods are called from one goroutine.
type Watch interface {
	// Begin is called when the measured window opens, after the warm-up.
	Begin()
	// Tick is called for each second of the window when it is over.
	Tick(second result.Second)
	// End is called when the last measured operation is answered.
	End()
}

// Measurement is what one run measured.
type Measurement struct {
	// Seconds is from the start of the window to the last answer, never less
	// than the duration asked for unless the run was cancelled.
	Seconds float64
	// Intended is how many operations were due in the window.
	Intended int64
	// Operations were answered as they should; Failures were not, and Reasons
	// says why.
	Operations, Failures int64
	Reasons              map[string]int64
	// InTime is how many operations were answered before the window asked for
	// was over. What an open loop lacks here it was behind.
	InTime int64
	// Latency counts from the intended start, Service from the real one. They
	// hold operations; failures only if they are NeverSent.
	Latency, Service *Histogram
	// Laps are the parts that clients noted.
	Laps map[string]*Histogram
	// Series are the seconds of the window by time of answer. The last may be
	// shorter than a second.
	Series []result.Second
}

// PerSecond is the real throughput: operations by real time.
func (m *Measurement) PerSecond() float64 {
	if m.Seconds <= 0 {
		return 0
	}
	return float64(m.Operations) / m.Seconds
}

// Fill writes what was measured into run and leaves its other fields alone.
func (m *Measurement) Fill(run *result.Run) {
	run.Seconds = m.Seconds
	run.Operations = m.Operations
	run.PerSecond = m.PerSecond()
	run.Failures = m.Failures
	run.Reasons = m.Reasons
	run.Latency = m.Latency.Latency()
	run.Service = m.Service.Latency()
	run.Series = m.Series
	run.Laps = nil
	for name, lap := range m.Laps {
		if run.Laps == nil {
			run.Laps = make(map[string]result.Latency, len(m.Laps))
		}
		run.Laps[name] = lap.Latency()
	}
}

var errPlan = errors.New("load: the plan cannot be run")

func (p Plan) check() error {
	switch {
	case p.Clients < 1:
		return fmt.Errorf("%w: %d clients", errPlan, p.Clients)
	case !(p.Rate >= 0) || p.Rate > 1e9:
		return fmt.Errorf("%w: rate %v", errPlan, p.Rate)
	case p.Duration <= 0:
		return fmt.Errorf("%w: duration %v", errPlan, p.Duration)
	case p.WarmUp < 0, p.Overtime < 0, p.Patience < 0:
		return fmt.Errorf("%w: negative time", errPlan)
	}
	return nil
}
