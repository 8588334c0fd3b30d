package bench

import (
	"context"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/report"
	"parley/bench/result"
)

// count ends a run after a number of operations instead of a duration.
type count struct {
	// wanted is the number of operations that must succeed; borne is how many may fail.
	wanted, borne       int64
	given, done, failed atomic.Int64
	stop                context.CancelCauseFunc
}

// countPause is how long a client waits between checks while other clients perform the
// last operations, which may fail.
const countPause = 2 * time.Millisecond

// take assigns an operation to a client. It waits while other clients perform the last
// operations, and returns false when the run is over.
func (c *count) take(ctx context.Context) bool {
	for {
		given := c.given.Load()
		if given < c.wanted && c.given.CompareAndSwap(given, given+1) {
			return true
		}
		if given < c.wanted {
			continue
		}
		if sleep(ctx, countPause) != nil {
			return false
		}
	}
}

// counted is a client whose operations are counted together with those of the others.
type counted struct {
	load.Client
	count *count
}

// Do implements load.Client.
func (c *counted) Do(ctx context.Context, n int, laps *load.Laps) error {
	if !c.count.take(ctx) {
		return ctx.Err()
	}
	err := c.Client.Do(ctx, n, laps)
	if err == nil {
		if c.count.done.Add(1) == c.count.wanted {
			c.count.stop(errEnough)
		}
		return nil
	}
	if c.count.failed.Add(1) > c.count.borne {
		c.count.stop(err)
	}
	c.count.given.Add(-1)
	return err
}

// onlooker forwards the ticks of several runs to one Watch, which sees them as a single
// run between its own Begin and End.
type onlooker struct {
	*watch
}

// Begin implements load.Watch.
func (onlooker) Begin() {}

// End implements load.Watch.
func (onlooker) End() {}

// Tick implements load.Watch.
func (o onlooker) Tick(second result.Second) { o.watch.Tick(second) }

// chunks runs n operations in parts of at most size, and prepares each part separately.
// It calls Begin and End of w once around all of them.
func (g *grower) chunks(ctx context.Context, n, size int64, strict bool, w *watch, prepare func(part int64) (load.Dial, error), settle func() error) (*load.Measurement, error) {
	sum := &load.Measurement{Reasons: map[string]int64{}, Latency: load.NewHistogram(), Service: load.NewHistogram()}
	w.Begin()
	defer w.End()
	for n > 0 {
		part := min(n, size)
		dial, err := prepare(part)
		if err != nil {
			return sum, err
		}
		m, err := g.exactly(ctx, part, strict, dial, onlooker{w})
		if m != nil {
			sum.Add(m)
		}
		if settled := settle(); err == nil {
			err = settled
		}
		if err != nil {
			return sum, err
		}
		n -= part
	}
	return sum, nil
}

// watching starts the live view of n operations.
func (g *grower) watching(name string, n int64) *watch {
	g.Live.Begin(report.Task{
		Target: g.side.host.Name(), Scenario: name, Clients: int(min(int64(g.growth.Clients), n)), Repeat: 1, Repeats: 1, Operations: n,
	})
	return newWatch(g.Live, g.side.target.Processes())
}
