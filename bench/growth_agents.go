package bench

import (
	"context"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario"
)

// ringRounds is how often each active agent sends, and receives, before memory is
// measured.
const ringRounds = 2

// agents creates agents up to each size in turn.
func (g *grower) agents(ctx context.Context) error {
	steps := sizes(firstAgents, g.growth.Agents)
	have := int64(1)
	for i, size := range steps {
		run := result.Run{
			Target: g.host.Name(), Scenario: scenario.Create, Clients: g.growth.Clients, Repeat: 1,
			Growing: growingAgents, Size: size, Figures: map[string]float64{},
		}
		err := g.create(ctx, size-have, &run)
		if err == nil {
			err = g.lookAtAgents(ctx, &run, i == len(steps)-1)
		}
		if err != nil {
			run.Invalid = "broken off: " + err.Error()
			_ = g.keep(run)
			return err
		}
		have = size
		if err := g.keep(run); err != nil {
			return err
		}
	}
	return nil
}

// create creates n more agents and records the measurement in run.
func (g *grower) create(ctx context.Context, n int64, run *result.Run) error {
	if n <= 0 {
		return nil
	}
	host, w := g.host, g.watching(scenario.Create, n)
	made := g.Params.Agents
	sum, err := g.chunks(ctx, n, createChunk, true, w, func(part int64) (load.Dial, error) {
		return host.PrepareAgents(ctx, g.Params.Agents+int(part))
	}, func() error {
		g.Params.Agents = host.SettleAgents()
		return nil
	})
	sum.Fill(run)
	w.fill(run, g.side.target.Processes())
	g.Live.End(*run)
	if got := int64(g.Params.Agents - made); err == nil && got != n {
		err = fmt.Errorf("%d agents were made instead of %d", got, n)
	}
	return err
}

// lookAtAgents measures the cost of the current number of agents: idle, and while some of
// them exchange messages. It also measures the last size after a restart, when memory
// holds only what is needed.
func (g *grower) lookAtAgents(ctx context.Context, run *result.Run, last bool) (err error) {
	if last && g.growth.Rest > 0 {
		g.Live.Note(fmt.Sprintf("%s: resting for %v, so that agents that are not active may leave memory", run.Target, g.growth.Rest))
		if err := sleep(ctx, g.growth.Rest); err != nil {
			return err
		}
	}
	g.settle(ctx)
	run.Resident = g.resident()
	if run.Figures["resident_active_bytes"], run.Figures["active_seconds"], err = g.talk(ctx); err != nil {
		return err
	}
	run.Figures["active_agents"] = float64(min(int64(g.growth.Active), run.Size))
	g.settle(ctx)
	if err := g.disk(run, "agent", run.Size); err != nil || !last {
		return err
	}
	if err := g.kill(ctx, run); err != nil {
		return err
	}
	if err := g.term(ctx, run); err != nil {
		return err
	}
	run.Figures["resident_restarted_bytes"], _, err = g.talk(ctx)
	return err
}

// talk makes the active agents send to each other in a ring. It returns the resident
// memory at the end, in bytes, and the duration in seconds.
func (g *grower) talk(ctx context.Context) (resident, seconds float64, err error) {
	active := min(g.growth.Active, g.Params.Agents)
	dial, err := g.host.PrepareRing(ctx, active)
	if err != nil {
		return 0, 0, err
	}
	n := int64(active) * ringRounds
	w := g.watching("active agents", n)
	began := time.Now()
	m, err := g.exactly(ctx, n, false, dial, w)
	resident, seconds = float64(g.resident()), time.Since(began).Seconds()
	var run result.Run
	if m != nil {
		m.Fill(&run)
	}
	g.host.Settle(&run)
	w.fill(&run, g.side.target.Processes())
	g.Live.End(run)
	if err == nil && run.Failures > 0 {
		err = fmt.Errorf("active agents: %d of their messages failed: %v", run.Failures, run.Reasons)
	}
	return resident, seconds, err
}
