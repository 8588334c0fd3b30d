package bench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

// besideWindows is how many windows the grown server and an empty one get, in turn.
const besideWindows = 3

// beside sends to the grown server and to a new one, in turn and within the same minutes:
// if the machine became slower while the messages were stored, it slows both. The empty
// server is removed afterwards.
func (g *grower) beside(ctx context.Context, run *result.Run) (err error) {
	dir, err := os.MkdirTemp(g.growth.Dir, "growing-beside-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	params := g.Params
	params.Keep, params.Sample = false, 0
	fresh := &runner{out: &result.Report{Versions: map[string]string{}}, Config: g.Config}
	fresh.Params, fresh.Targets = params, []target.Target{g.growth.Server(dir)}
	if err := fresh.start(ctx); err != nil {
		return fmt.Errorf("an empty server beside: %w", err)
	}
	defer func() { err = errors.Join(err, fresh.stop()) }()
	var full, empty float64
	for window := range besideWindows {
		for _, turn := range []struct {
			runner *runner
			side   *side
			sum    *float64
		}{{g.runner, g.side, &full}, {fresh, fresh.here[0], &empty}} {
			perSecond, err := g.window(ctx, turn.runner, turn.side, window)
			if err != nil {
				return err
			}
			*turn.sum += perSecond
		}
	}
	run.Figures["beside_per_second"] = full / besideWindows
	run.Figures["empty_beside_per_second"] = empty / besideWindows
	if empty > 0 {
		run.Figures["of_empty"] = full / empty
	}
	return nil
}

// window performs one measurement of sends for beside.
func (g *grower) window(ctx context.Context, r *runner, s *side, n int) (perSecond float64, err error) {
	run := result.Run{Target: s.host.Name(), Scenario: scenario.Send, Clients: g.growth.Clients, Repeat: n + 1}
	_, err = r.measure(ctx, s, &run, report.Task{Repeat: n + 1, Repeats: besideWindows, WarmUp: g.WarmUp, Duration: g.Duration})
	if err == nil {
		g.Live.End(run)
	}
	return run.PerSecond, err
}
