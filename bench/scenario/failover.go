package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

const (
	// failoverWait bounds the time until a message is acknowledged again.
	failoverWait = time.Minute
	// killAfter is how long the load runs before the leader is killed.
	killAfter = 500 * time.Millisecond
)

// partFailover is the time from the death of the leader until a message is acknowledged.
const partFailover = "SIGKILL of the leader to the first 201"

// errKilled ends the load after a kill.
var errKilled = errors.New("the leader was killed and started again")

// failover is Failover: kills of the leader under load, each after all nodes have become ready
// again.
type failover struct{ set *Set }

// Run implements Scenario.
func (o *failover) Run(ctx context.Context, r *host.Round) (err error) {
	r.Bench.Begin(ctx)
	k := leaderKills{set: o.set, nodes: r.Bench.Nodes(), outages: load.NewHistogram()}
	for n := range o.set.Params.Kills {
		if err = k.once(ctx, r.Plan.Clients); err != nil {
			err = fmt.Errorf("kill %d: %w", n+1, err)
			break
		}
		o.set.Note("kill %d: the first 201 after %.0f ms, all nodes ready after %.1f s", n+1, k.firsts[n], k.readies[n]/1e3)
	}
	if len(k.firsts) > 0 {
		k.fill(r.Result)
	}
	return err
}

// leaderKills are the kills of a run and what they have shown.
type leaderKills struct {
	set   *Set
	nodes host.Nodes
	load  load.Measurement
	// firsts and readies are the times, in milliseconds, until the first 201 and until all
	// nodes were ready.
	firsts, readies []float64
	outages         *load.Histogram
}

func (k *leaderKills) fill(run *result.Run) {
	k.load.Fill(run)
	run.Parts = map[string]result.Latency{partFailover: k.outages.Latency()}
	run.Figures = map[string]float64{
		"kills": float64(len(k.firsts)), "first_201_p50_ms": quantile(k.firsts, 50), "first_201_p99_ms": quantile(k.firsts, 99),
		"first_201_max_ms": slices.Max(k.firsts), "ready_p50_ms": quantile(k.readies, 50),
	}
}

// quantile returns the least value that so many percent of all do not exceed.
func quantile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// once kills the leader under load, and starts it again.
func (k *leaderKills) once(ctx context.Context, clients int) error {
	var outage outage
	dial, err := k.set.Prepare(ctx, Send, clients)
	if err != nil {
		return err
	}
	under, cancel := context.WithCancelCause(ctx)
	var sent *load.Measurement
	var broke error
	over := make(chan struct{})
	go func() {
		defer close(over)
		sent, broke = load.Run(under, load.Plan{Clients: clients, Duration: 2 * failoverWait}, outage.observing(dial), nil)
	}()
	err = k.kill(ctx, &outage)
	cancel(errKilled)
	<-over
	err = errors.Join(err, k.set.SettleUnmeasured())
	if err == nil && (sent == nil || !errors.Is(broke, errKilled)) {
		err = fmt.Errorf("the load ended early: %w", broke)
	}
	if err == nil {
		k.load.Add(sent)
	}
	return err
}

// kill kills the leader after a moment of load, and returns when all nodes are ready.
func (k *leaderKills) kill(ctx context.Context, outage *outage) error {
	if err := host.SleepUntil(ctx, time.Now().Add(killAfter)); err != nil {
		return err
	}
	leader, err := k.nodes.Leader(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := k.nodes.KillNode(leader); err != nil {
		return err
	}
	deadline := time.NewTimer(failoverWait)
	defer deadline.Stop()
	select {
	case first := <-outage.begin():
		k.firsts = append(k.firsts, first.Sub(killed).Seconds()*1e3)
		k.outages.Record(first.Sub(killed))
	case <-deadline.C:
		return fmt.Errorf("no message is acknowledged within %v after the leader was killed", failoverWait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	started := time.Now()
	err = k.nodes.StartNode(ctx, leader)
	k.readies = append(k.readies, time.Since(started).Seconds()*1e3)
	return err
}

// outage finds the first message that is acknowledged after a fault. Its methods may be
// called concurrently.
type outage struct {
	mu    sync.Mutex
	since time.Time
	first chan time.Time
}

// begin says that something failed before now, and returns a channel that gets the time of the
// first 201 to a request that was sent later. An answer to an earlier request may have been
// under way when it failed, so it proves nothing.
func (o *outage) begin() <-chan time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since, o.first = time.Now(), make(chan time.Time, 1)
	return o.first
}

// acknowledged notes a 201 to a request that was sent at a time.
func (o *outage) acknowledged(sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first != nil && sent.After(o.since) {
		o.first <- time.Now()
		o.first = nil
	}
}

// observing returns a Dial for clients of which the outage sees the successes.
func (o *outage) observing(dial load.Dial) load.Dial {
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := dial(ctx, worker)
		if err != nil {
			return nil, err
		}
		return observed{c, o}, nil
	}
}

// observed is the client of Failover.
type observed struct {
	load.Client
	outage *outage
}

// Do implements load.Client.
func (c observed) Do(ctx context.Context, n int, parts *load.Parts) error {
	sent := time.Now()
	err := c.Client.Do(ctx, n, parts)
	if err == nil {
		c.outage.acknowledged(sent)
	}
	return err
}
