// Package load puts a system under test under load at a known rate and measures what
// happens. It depends neither on HTTP nor on Parley: a Client defines an operation.
//
// In a closed loop every worker sends its next request as soon as it has an answer. This
// finds capacity and hides stalls, because nobody sends to a stalled system. An open loop
// sends at intended times that do not depend on the answers. If it could not send in time
// it sends late, and it measures latency from the intended time, so a stall counts for
// every arrival that it delayed.
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
	// Do performs operation n of this worker, waits for its answer and checks it.
	// Operations are counted from 0 without gaps, also across connections. The error
	// Refused means that the system refused the operation and the connection is still
	// usable. Any other error breaks the connection, which is closed and dialled again.
	// An operation in progress should end when ctx does; if it does not, Close ends it.
	// Do bounds its own waiting: a run waits for every answer.
	Do(ctx context.Context, n int, parts *Parts) error
	// A Client with a method Ended() bool is closed and dialled again before its next operation
	// once that returns true.
	//
	// Close ends the connection. It is called once. If the run is cancelled while an
	// operation is in progress, it is called from another goroutine than Do, and Do must
	// then return with any error.
	Close() error
}

// Dial connects worker to the system, at the start of a run and again after its
// connection broke. Calls for different workers may be concurrent.
type Dial func(ctx context.Context, worker int) (Client, error)

// Refused is the answer of a system that refused an operation properly. It counts as a
// failure, but the connection stays open. Reason becomes a key of the report and must
// have few different values.
type Refused struct{ Reason string }

// Error implements error.
func (r Refused) Error() string { return "refused: " + r.Reason }

// Plan describes the load of one run.
type Plan struct {
	// Clients is the number of workers. Each has its own connection.
	Clients int
	// Rate is the arrivals per second of all workers together; 0 is a closed loop.
	Rate float64
	// WarmUp is how long the load runs at the same rate before the window. It is not
	// measured.
	WarmUp time.Duration
	// Duration is the measured window. Arrivals that are due within it belong to it, even
	// if they are answered later.
	Duration time.Duration
	// Operations, if not 0, ends a closed loop when so many operations have succeeded, instead
	// of Duration. Failed operations are repeated. If more than a tenth and a hundred of them
	// fail, the run fails.
	Operations int64
	// Overtime bounds how long after the window the arrivals that were due in it are
	// still sent; 0 sends all of them. Arrivals that are given up count as failures with
	// the reason NeverSent, and their wait so far is part of the latency.
	Overtime time.Duration
	// SkipBusy skips an arrival of an open loop that is due while its client waits for an answer,
	// dials, or has not begun: it is neither sent later nor counted.
	SkipBusy bool
	// Patience is how long a worker redials a broken connection before the run fails; 0
	// is five seconds.
	Patience time.Duration
}

// NeverSent is the reason of arrivals that were given up after Plan.Overtime.
const NeverSent = "never sent"

// Watch observes a run. All its methods are called from one goroutine.
type Watch interface {
	// Begin is called when the measured window opens, after the warm-up.
	Begin()
	// Tick is called after each second of the window.
	Tick(second result.Second)
	// End is called when the last measured operation is answered.
	End()
}

// Measurement is what one run measured.
type Measurement struct {
	// Seconds is the time from the start of the window to the last answer. It is at least
	// Plan.Duration unless the run was cancelled.
	Seconds float64
	// Operations counts the operations with a correct answer, Failures the others.
	// Reasons counts the failures by reason.
	Operations, Failures int64
	Reasons              map[string]int64
	// Latency is measured from the intended start, Service from the actual start. They
	// include failures only if these are NeverSent.
	Latency, Service *Histogram
	// Parts holds the parts that clients noted.
	Parts map[string]*Histogram
}

// PerSecond returns the actual throughput in operations per second.
func (m *Measurement) PerSecond() float64 {
	if m.Seconds <= 0 {
		return 0
	}
	return float64(m.Operations) / m.Seconds
}

// Add adds another window of the same kind, except its Parts. The zero Measurement is the sum of
// none.
func (m *Measurement) Add(other *Measurement) {
	if m.Reasons == nil {
		m.Reasons, m.Latency, m.Service = map[string]int64{}, NewHistogram(), NewHistogram()
	}
	m.Seconds += other.Seconds
	m.Operations += other.Operations
	m.Failures += other.Failures
	for reason, n := range other.Reasons {
		m.Reasons[reason] += n
	}
	m.Latency.Merge(other.Latency)
	m.Service.Merge(other.Service)
}

// Fill copies the measurement into run and leaves its other fields unchanged.
func (m *Measurement) Fill(run *result.Run) {
	run.Seconds = m.Seconds
	run.Operations = m.Operations
	run.PerSecond = m.PerSecond()
	run.Failures = m.Failures
	run.Reasons = m.Reasons
	run.Parts = nil
	if m.Latency != nil {
		run.Latency, run.Service = m.Latency.Latency(), m.Service.Latency()
	}
	for name, part := range m.Parts {
		if run.Parts == nil {
			run.Parts = make(map[string]result.Latency, len(m.Parts))
		}
		run.Parts[name] = part.Latency()
	}
}

var errPlan = errors.New("load: the plan cannot be run")

func (p Plan) check() error {
	switch {
	case p.Clients < 1:
		return fmt.Errorf("%w: %d clients", errPlan, p.Clients)
	case !(p.Rate >= 0) || p.Rate > 1e9:
		return fmt.Errorf("%w: rate %v", errPlan, p.Rate)
	case p.Duration <= 0 && p.Operations <= 0, p.Operations > 0 && p.Rate > 0:
		return fmt.Errorf("%w: duration %v, %d operations at a rate of %v", errPlan, p.Duration, p.Operations, p.Rate)
	case p.WarmUp < 0, p.Overtime < 0, p.Patience < 0:
		return fmt.Errorf("%w: negative time", errPlan)
	}
	return nil
}
