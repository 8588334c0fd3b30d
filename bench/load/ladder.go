package load

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"
)

// Search describes a search for the highest rate that keeps latency within bounds.
type Search struct {
	// Plan is the load of every rung except for its rate.
	Plan Plan
	// Bound is the maximum for the 99th percentile of latency.
	Bound time.Duration
	// Steps are the shares of capacity to try, in this order, until one does not hold;
	// nil is 0.25, 0.5, 0.75, 0.9, 1 and 1.1.
	Steps []float64
	// Precision ends the bisection when the highest rate that holds and the lowest that
	// does not differ by less than this share; 0 is 0.05.
	Precision float64
	// Rungs bounds the number of rates to try; 0 is 12.
	Rungs int
	// Failures is the share of operations that may fail; 0 allows one in a thousand.
	Failures float64
}

// Rung is the measurement at one rate.
type Rung struct {
	Rate float64
	// Fails is the reason why the rate does not hold; empty if it does.
	Fails       string
	Measurement *Measurement
}

// Climb is the result of Ladder.
type Climb struct {
	// Capacity is the throughput of the closed loop Closed, in operations per second.
	Capacity float64
	Closed   *Measurement
	// Rungs holds all rates in the order in which they were tried.
	Rungs []Rung
	// Best is the highest rate that holds; nil if none did.
	Best *Rung
}

const (
	usualPrecision = 0.05
	usualRungs     = 12
	usualFailures  = 0.001
	// behind is the share of a rung's arrivals that may be unanswered at the end of its
	// window, in addition to those that are in progress.
	behind = 0.02
)

var usualSteps = []float64{0.25, 0.5, 0.75, 0.9, 1, 1.1}

// Ladder finds the highest rate whose 99th percentile of latency stays within the bound.
// It measures capacity with a closed loop, tries the steps until one does not hold, and
// bisects between the last rate that held and that one. watch, which may be nil, returns
// a Watch for each run; the rate 0 is the closed loop. With an error, Ladder also returns
// the climb so far.
func Ladder(ctx context.Context, search Search, dial Dial, watch func(rate float64) Watch) (*Climb, error) {
	search = search.complete()
	climb := &Climb{}
	if err := search.check(); err != nil {
		return climb, err
	}
	if watch == nil {
		watch = func(float64) Watch { return nil }
	}
	closed := search.Plan
	closed.Rate = 0
	measurement, err := Run(ctx, closed, dial, watch(0))
	climb.Closed = measurement
	if err != nil {
		return climb, err
	}
	climb.Capacity = measurement.PerSecond()
	if measurement.Operations == 0 {
		return climb, fmt.Errorf("load: nothing succeeded in the closed loop: %v", measurement.Reasons)
	}
	return climb, climb.ascend(func(rate float64) (Rung, error) {
		plan := search.Plan
		plan.Rate = rate
		measurement, err := Run(ctx, plan, dial, watch(rate))
		if err != nil {
			return Rung{}, err
		}
		return Rung{Rate: rate, Fails: search.fails(measurement), Measurement: measurement}, nil
	}, search)
}

// ascend tries the steps and then bisects.
func (c *Climb) ascend(try func(rate float64) (Rung, error), search Search) error {
	var low, high float64
	best := -1
	step := func(rate float64) error {
		rung, err := try(rate)
		if err != nil {
			return err
		}
		c.Rungs = append(c.Rungs, rung)
		if rung.Fails != "" {
			high = rate
			return nil
		}
		low, best = rate, len(c.Rungs)-1
		return nil
	}
	var err error
	for _, share := range search.Steps {
		if err != nil || high > 0 || len(c.Rungs) == search.Rungs {
			break
		}
		err = step(round(share * c.Capacity))
	}
	for err == nil && high > 0 && len(c.Rungs) < search.Rungs && high-low > search.Precision*high {
		middle := round((low + high) / 2)
		if middle <= low || middle >= high {
			break
		}
		err = step(middle)
	}
	if best >= 0 {
		c.Best = &c.Rungs[best]
	}
	return err
}

// round rounds a rate to three significant digits.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	if unit < 1 { // dividing 1 is exact, multiplying by 0.1 is not
		return math.Round(rate/unit) / math.Round(1/unit)
	}
	return math.Round(rate/unit) * unit
}

// fails returns the reason why a rung does not hold, or "" if it does. In a window too
// short for a growing backlog to reach the bound, it detects the backlog by the
// operations that are unanswered at the end: the median contains half of the backlog, and
// all of the operations in progress.
func (s Search) fails(m *Measurement) string {
	if asked := float64(m.Intended); float64(m.Failures) > s.Failures*asked {
		return fmt.Sprintf("%d of %d operations failed", m.Failures, m.Intended)
	}
	if p99 := m.Latency.Quantile(99); p99 > s.Bound {
		return fmt.Sprintf("p99 %v is over %v", p99, s.Bound)
	}
	late := float64(m.Intended-m.InTime) / float64(max(m.Intended, 1))
	if under := m.Latency.Quantile(50).Seconds() / s.Plan.Duration.Seconds(); late > behind+under {
		return fmt.Sprintf("fell behind: %.1f %% were unanswered at the end of the window", 100*late)
	}
	return ""
}

func (s Search) complete() Search {
	if s.Steps == nil {
		s.Steps = usualSteps
	}
	s.Precision = cmp.Or(s.Precision, usualPrecision)
	s.Rungs = cmp.Or(s.Rungs, usualRungs)
	s.Failures = cmp.Or(s.Failures, usualFailures)
	s.Plan.Overtime = cmp.Or(s.Plan.Overtime, s.Plan.Duration)
	return s
}

func (s Search) check() error {
	if err := s.Plan.check(); err != nil {
		return err
	}
	if s.Bound <= 0 || s.Precision < 0 || s.Rungs < 0 || s.Failures < 0 {
		return fmt.Errorf("%w: negative bound, precision, rungs or failures", errPlan)
	}
	for i, step := range s.Steps {
		if step <= 0 || i > 0 && step <= s.Steps[i-1] {
			return fmt.Errorf("%w: steps %v do not ascend from above 0", errPlan, s.Steps)
		}
	}
	return nil
}
