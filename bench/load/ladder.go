package load

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"
)

// Search says how to look for the highest rate that keeps latency in bounds.
type Search struct {
	// Plan is the pace of every rung but for its rate.
	Plan Plan
	// Bound is what the 99th percentile of latency may reach.
	Bound time.Duration
	// Steps are the shares of capacity that are tried in this order until one
	// does not hold; nil is 0.25, 0.5, 0.75, 0.9, 1 and 1.1.
	Steps []float64
	// Precision ends the bisection when the rate that holds and the one that
	// does not are closer than this share; 0 is 0.05.
	Precision float64
	// Rungs bounds how many rates are tried; 0 is 12.
	Rungs int
	// Failures is the share of operations that may fail; 0 allows one in a
	// thousand.
	Failures float64
}

// Rung is one rate that was tried.
type Rung struct {
	Rate float64
	// Fails says why the rate does not hold; empty if it does.
	Fails       string
	Measurement *Measurement
}

// Climb is the outcome of a Ladder.
type Climb struct {
	// Capacity is the throughput of the closed loop, which is Closed.
	Capacity float64
	Closed   *Measurement
	// Rungs are all rates in the order they were tried.
	Rungs []Rung
	// Best is the highest rate that holds; nil if none did.
	Best *Rung
}

const (
	usualPrecision = 0.05
	usualRungs     = 12
	usualFailures  = 0.001
	// behind is the share of a rung's arrivals that may be unanswered at the end
	// of its window beyond those that are just under way.
	behind = 0.02
)

var usualSteps = []float64{0.25, 0.5, 0.75, 0.9, 1, 1.1}

// Ladder finds the highest rate whose 99th percentile of latency stays within
// the bound: it measures capacity by a closed loop, goes up the steps until one
// does not hold, and halves the interval between the last that held and it.
// watch, which may be nil, gives a Watch for each run; the rate 0 is the closed
// loop. An error comes with the climb until then.
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

// ascend tries the steps, then bisects.
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

// round makes a rate one that people can name: three figures that count.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	if unit < 1 { // 1 divided is exact where 0.1 multiplied is not
		return math.Round(rate/unit) / math.Round(1/unit)
	}
	return math.Round(rate/unit) * unit
}

// fails says why a rung does not hold; empty if it does. A window too short for
// a growing backlog to reach the bound is caught by what was unanswered at its
// end: half of the backlog is in the median, operations under way are all in it.
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
