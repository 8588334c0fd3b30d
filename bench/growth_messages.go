package bench

import (
	"context"
	"fmt"

	"parley/bench/load"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
)

// messages stores messages up to each size in turn, starting with an empty server.
func (g *grower) messages(ctx context.Context) error {
	for _, size := range append([]int64{0}, sizes(firstMessages, g.growth.Messages)...) {
		if size > 0 && size < g.host.Stored() && size < g.growth.Messages {
			continue // the messages sent at the last size already exceed this one
		}
		run := result.Run{
			Target: g.host.Name(), Scenario: scenario.Send, Clients: g.growth.Clients, Repeat: 1,
			Growing: growingMessages, Figures: map[string]float64{},
		}
		err := g.fill(ctx, size-g.host.Stored(), &run)
		run.Size = g.host.Stored()
		if err == nil {
			err = g.lookAtMessages(ctx, &run)
		}
		if err != nil {
			run.Invalid = "broken off: " + err.Error()
			_ = g.keep(run)
			return err
		}
		if err := g.keep(run); err != nil {
			return err
		}
	}
	if !g.growth.Verify {
		return nil
	}
	return g.verifySample(ctx)
}

// fill stores n more messages.
func (g *grower) fill(ctx context.Context, n int64, run *result.Run) error {
	if n <= 0 {
		return nil
	}
	host, w := g.host, g.watching("fill", n)
	var settled result.Run
	sum, err := g.chunks(ctx, n, fillChunk, false, w, func(int64) (load.Dial, error) {
		return host.PrepareFill(ctx, g.growth.Pages)
	}, func() error {
		host.Settle(&settled)
		if settled.Failures > 0 {
			return fmt.Errorf("%d messages got an id that another has", settled.Failures)
		}
		return nil
	})
	var filled result.Run
	sum.Fill(&filled)
	w.fill(&filled, g.side.target.Processes())
	g.Live.End(filled)
	run.Figures["fill_per_second"] = filled.PerSecond
	run.Figures["fill_failures"] = float64(filled.Failures)
	return err
}

// lookAtMessages measures a server that stores this many messages.
func (g *grower) lookAtMessages(ctx context.Context, run *result.Run) error {
	figures := run.Figures
	if _, err := g.measure(ctx, g.side, run, report.Task{Repeat: 1, Repeats: 1, WarmUp: g.WarmUp, Duration: g.Duration}); err != nil {
		return err
	}
	run.Figures = figures
	g.Live.End(*run)
	if run.Size > 0 {
		if err := g.beside(ctx, run); err != nil {
			return err
		}
	}
	if err := g.dive(ctx, run); err != nil {
		return err
	}
	g.settle(ctx)
	if err := g.disk(run, "message", g.host.Stored()); err != nil {
		return err
	}
	if err := g.kill(ctx, run); err != nil {
		return err
	}
	return g.term(ctx, run)
}

// dive reads the first page of the long inbox and its deepest page in turn.
func (g *grower) dive(ctx context.Context, run *result.Run) error {
	dial, depth, err := g.host.PrepareDive(ctx, g.growth.Pages)
	if err != nil || depth == 0 {
		return err
	}
	g.settle(ctx)
	g.Live.Begin(report.Task{Target: run.Target, Scenario: "deep page", Clients: 1, Repeat: 1, Repeats: 1, Duration: g.Duration})
	w := newWatch(g.Live, g.side.target.Processes())
	m, err := load.Run(ctx, load.Plan{Clients: 1, Duration: g.Duration}, dial, w)
	if err != nil {
		return err
	}
	var pages result.Run
	m.Fill(&pages)
	w.fill(&pages, g.side.target.Processes())
	g.Live.End(pages)
	if pages.Failures > 0 {
		return fmt.Errorf("%d pages of the long inbox were not as they should be: %v", pages.Failures, pages.Reasons)
	}
	first, deep := pages.Laps["first page"], pages.Laps["deep page"]
	run.Figures["deep_page"] = float64(depth)
	run.Figures["first_page_p50_ms"], run.Figures["first_page_p99_ms"] = first.P50, first.P99
	run.Figures["deep_page_p50_ms"], run.Figures["deep_page_p99_ms"] = deep.P50, deep.P99
	return nil
}

// verifySample kills the server once more and reads a sample of all messages.
func (g *grower) verifySample(ctx context.Context) error {
	killed, took, err := g.killUnderLoad(ctx, g.side)
	if err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	g.Live.Note(fmt.Sprintf("%s: reading %d of %d acknowledged messages back", g.host.Name(), g.host.Acknowledged(), g.host.Stored()))
	v, err := g.host.VerifySample(ctx)
	if err != nil {
		return err
	}
	v.Killed, v.RestartSeconds = killed, took.Seconds()
	g.out.Verified = v
	return nil
}
