package host

import (
	"context"
	"time"

	"parley/bench/load"
	"parley/bench/result"
)

// Turns sums the windows of one of two loads that take turns.
type Turns struct {
	load.Measurement
	// CPU is the processor time that the target used in them.
	CPU time.Duration
}

// CPUPerOperation returns the target's processor time for an operation, in microseconds.
func (t *Turns) CPUPerOperation() float64 {
	return float64(t.CPU.Microseconds()) / float64(max(1, t.Operations))
}

// Compare sets figures: the throughputs of two loads, and that of the second divided by that of the
// first.
func Compare(figures map[string]float64, sums [2]Turns, first, second, ratio string) {
	figures[first], figures[second] = sums[0].PerSecond(), sums[1].PerSecond()
	if figures[first] > 0 {
		figures[ratio] = figures[second] / figures[first]
	}
}

// InTurn measures windows of two loads in turn, so that a moment in which the machine is slow hits
// both. Each window is prepared separately, and after is called behind it with the number of its
// load. InTurn returns the sums of the windows, and the last window of the second load, which the
// watch observes; it may be nil.
func InTurn(ctx context.Context, plan load.Plan, meter Meter, windows int, prepare [2]func(ctx context.Context, clients int) (load.Dial, error), watch load.Watch, after func(i int) error) (sums [2]Turns, last *load.Measurement, err error) {
	for n := range windows {
		for i := range prepare {
			dial, err := prepare[i](ctx, plan.Clients)
			if err != nil {
				return sums, nil, err
			}
			meter.Settle(ctx)
			cost := &costWatch{meter: meter}
			if i == 1 && n == windows-1 {
				cost.next = watch
			}
			if last, err = load.Run(ctx, plan, dial, cost); err != nil {
				return sums, nil, err
			}
			sums[i].Add(last)
			sums[i].CPU += cost.spent
			if err := after(i); err != nil {
				return sums, nil, err
			}
		}
	}
	return sums, last, nil
}

// costWatch measures the target's processor time in a window. next, if not nil, observes
// the window too.
type costWatch struct {
	meter         Meter
	next          load.Watch
	before, spent time.Duration
}

// Begin implements load.Watch.
func (w *costWatch) Begin() {
	w.before = w.meter.CPU()
	if w.next != nil {
		w.next.Begin()
	}
}

// Tick implements load.Watch.
func (w *costWatch) Tick(second result.Second) {
	if w.next != nil {
		w.next.Tick(second)
	}
}

// End implements load.Watch.
func (w *costWatch) End() {
	w.spent = w.meter.CPU() - w.before
	if w.next != nil {
		w.next.End()
	}
}
