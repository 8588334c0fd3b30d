package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario"
)

const (
	// failoverLeast is how many nodes there must be: with fewer nobody is left who can lead.
	failoverLeast = 3
	// failoverPatience bounds the time until a message is acknowledged again.
	failoverPatience = time.Minute
)

// lapFailover is the time from the death of the leader until a message is acknowledged.
const lapFailover = "SIGKILL of the leader to the first 201"

// isFailover reports whether a case kills nodes. What was acknowledged meanwhile is always
// read back.
func isFailover(c Case) bool { return c.Scenario == scenario.Failover }

// nodes is a target whose nodes can be killed one by one.
type nodes interface {
	Leader(ctx context.Context) (int, error)
	KillNode(i int) error
	StartNode(ctx context.Context, i int) error
}

// failover is scenario.Failover on several nodes.
type failover struct {
	*runner
	side *side
}

// Run implements scenario.Scenario: kills of the leader under load, each after all nodes have
// become ready again.
func (o *failover) Run(ctx context.Context, r *scenario.Round) (err error) {
	r.Bench.Begin(ctx)
	name, f := o.side.host.Name(), failures{outages: load.NewHistogram()}
	for n := range o.Kills {
		if err = o.killLeader(ctx, r.Plan.Clients, &f); err != nil {
			err = fmt.Errorf("kill %d: %w", n+1, err)
			break
		}
		last := len(f.firsts) - 1
		o.Live.Note(fmt.Sprintf("%s: kill %d of %d: the first 201 after %.0f ms, all nodes ready after %.1f s", name, n+1, o.Kills, f.firsts[last], f.readies[last]/1e3))
	}
	if len(f.firsts) > 0 {
		f.fill(r.Result)
	}
	return err
}

// failures are what the kills of a run have shown.
type failures struct {
	load *load.Measurement
	// firsts and readies are the times, in milliseconds, until the first 201 and until all
	// nodes were ready.
	firsts, readies []float64
	outages         *load.Histogram
}

func (f *failures) fill(run *result.Run) {
	f.load.Fill(run)
	run.Laps = map[string]result.Latency{lapFailover: f.outages.Latency()}
	run.Figures = map[string]float64{
		"kills": float64(len(f.firsts)), "first_201_p50_ms": quantile(f.firsts, 50), "first_201_p99_ms": quantile(f.firsts, 99),
		"first_201_max_ms": slices.Max(f.firsts), "ready_p50_ms": quantile(f.readies, 50),
	}
}

// quantile returns the least value that so many percent of all do not exceed.
func quantile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// killLeader kills the leader once under load, and starts it again.
func (o *failover) killLeader(ctx context.Context, clients int, f *failures) error {
	s := o.side
	var outage scenario.Outage
	dial, err := scenario.PrepareFailover(ctx, s.host, clients, &outage)
	if err != nil {
		return err
	}
	under, cancel := context.WithCancelCause(ctx)
	var sent *load.Measurement
	var broke error
	over := make(chan struct{})
	go func() {
		defer close(over)
		sent, broke = load.Run(under, load.Plan{Clients: clients, Duration: 2 * failoverPatience}, dial, nil)
	}()
	err = f.kill(ctx, s.target.(nodes), &outage)
	cancel(errEnough)
	<-over
	var settled result.Run
	s.host.Settle(&settled)
	switch {
	case err != nil:
		return err
	case sent == nil || !errors.Is(broke, errEnough):
		return fmt.Errorf("the load ended early: %w", broke)
	case settled.Failures > 0:
		return fmt.Errorf("%d messages got an id that another has", settled.Failures)
	}
	if f.load == nil {
		f.load = sent
	} else {
		f.load.Add(sent)
	}
	return nil
}

// kill kills the leader after a moment of load, and returns when all nodes are ready.
func (f *failures) kill(ctx context.Context, all nodes, outage *scenario.Outage) error {
	if err := sleep(ctx, killAfter); err != nil {
		return err
	}
	leader, err := all.Leader(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := all.KillNode(leader); err != nil {
		return err
	}
	patience := time.NewTimer(failoverPatience)
	defer patience.Stop()
	select {
	case first := <-outage.Begin():
		f.firsts = append(f.firsts, first.Sub(killed).Seconds()*1e3)
		f.outages.Record(first.Sub(killed))
	case <-patience.C:
		return fmt.Errorf("no message is acknowledged within %v after the leader was killed", failoverPatience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	started := time.Now()
	err = all.StartNode(ctx, leader)
	f.readies = append(f.readies, time.Since(started).Seconds()*1e3)
	return err
}
