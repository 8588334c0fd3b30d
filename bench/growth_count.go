package bench

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/report"
	"parley/bench/result"
)

// count ends a run after a number of operations instead of a time.
type count struct {
	// wanted is how many are to succeed, borne how many may fail on the way.
	wanted, borne       int64
	given, done, failed atomic.Int64
	stop                context.CancelCauseFunc
}

// countPause is how long a client waits for an operation that another may fail.
const countPause = 2 * time.Millisecond

// take gives an operation to a client. It waits while others are about to do the
// last ones, and says false when the run is over.
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

// counted is a client whose operations are counted with those of the others.
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

// onlooker ticks for several runs that are one to the onlooker: what lies
// between its begin and its end is theirs.
type onlooker struct {
	*watch
}

// Begin implements load.Watch.
func (onlooker) Begin() {}

// End implements load.Watch.
func (onlooker) End() {}

// Tick implements load.Watch.
func (o onlooker) Tick(second result.Second) { o.watch.Tick(second) }

// chunks is a run of n operations in parts of at most size, each prepared anew.
// w is begun and ended around them.
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
			add(sum, m)
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

func add(sum, m *load.Measurement) {
	sum.Seconds += m.Seconds
	sum.Intended += m.Intended
	sum.Operations += m.Operations
	sum.Failures += m.Failures
	sum.InTime += m.InTime
	sum.Latency.Merge(m.Latency)
	sum.Service.Merge(m.Service)
	sum.Series = append(sum.Series, m.Series...)
	for reason, n := range maps.All(m.Reasons) {
		sum.Reasons[reason] += n
	}
}

// watching begins what the live view shows of n operations.
func (g *grower) watching(name string, n int64) *watch {
	g.Live.Begin(report.Task{
		Target: g.side.host.Name(), Scenario: name, Clients: int(min(int64(g.growth.Clients), n)), Repeat: 1, Repeats: 1, Operations: n,
	})
	return newWatch(g.Live, g.side.target.Processes())
}
