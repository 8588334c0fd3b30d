package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"parley/bench/load"
	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

// Run measures. With an error, such as the end of the context, it also returns the
// results so far.
func Run(ctx context.Context, config Config) (*result.Report, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	r := &runner{Config: config, out: &result.Report{
		Schema: result.Schema, Began: time.Now().UTC(), Command: config.Command, Versions: map[string]string{},
	}}
	err := r.all(ctx)
	r.out.Ended = time.Now().UTC()
	return r.out, errors.Join(err, r.stop())
}

// runner is a bench in progress.
type runner struct {
	Config
	out  *result.Report
	here []*side
	// number is the number of the current run; of is the expected number of runs, as far
	// as it is known.
	number, of int
}

// side is one target of the bench.
type side struct {
	target target.Target
	host   *scenario.Set
	// lost is the reason why it no longer takes part.
	lost error
}

// samples is the approximate number of messages that a verification reads back of those that
// GrowMessages stores.
const samples = 10_000

func (r *runner) all(ctx context.Context) (err error) {
	r.out.Machine = machine.Describe(r.Dir)
	r.Verify = r.Verify || r.has(alwaysVerified...)
	if r.Params.Keep = r.Verify && !r.has(scenario.GrowMessages); r.Verify && !r.Params.Keep {
		r.Params.Sample = int(max(1, r.Params.Grow/samples))
	}
	if r.Params.Note == nil {
		r.Params.Note = r.Live.Note
	}
	if r.out.DiskBefore, err = machine.ProbeDisk(ctx, r.Dir, r.ProbeTime); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	r.out.Nodes = r.Nodes
	r.of = r.count()
	for _, c := range r.Cases {
		for repeat := 1; repeat <= r.repeats(c); repeat++ {
			if err := r.round(ctx, c, repeat); err != nil {
				return err
			}
		}
	}
	r.out.Goals = report.Goals(r.out)
	if r.out.DiskAfter, err = machine.ProbeDisk(ctx, r.Dir, r.ProbeTime); err != nil {
		return err
	}
	if r.Verify {
		return r.verify(ctx, r.here[0])
	}
	return nil
}

// start starts all targets. If a peer cannot be started, it is left out and listed in the
// report; if ours cannot, the bench fails.
func (r *runner) start(ctx context.Context) error {
	for i, t := range r.Targets {
		s := &side{target: t}
		endpoint, err := t.Start(ctx)
		if err == nil {
			s.host, err = scenario.NewSet(ctx, t.Name(), endpoint, r.Params)
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), t.Stop())
		}
		if err != nil {
			err = errors.Join(err, t.Stop())
			if i == 0 {
				return err
			}
			r.Live.Note(t.Name() + " is left out: " + err.Error())
			r.out.Versions[t.Name()] = "left out: " + err.Error()
			continue
		}
		r.out.Versions[t.Name()] = endpoint.Version
		r.here = append(r.here, s)
	}
	return nil
}

func (r *runner) stop() error {
	var errs []error
	for _, s := range r.here {
		s.host.Close()
		if err := s.target.Stop(); err != nil && s.lost == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// takesPart reports whether a target runs a case.
func (r *runner) takesPart(s *side, c Case) bool {
	ours := s == r.here[0]
	return s.lost == nil && s.host.Can(c.Scenario) && (ours || c.Share == 0 && (c.Peer == "" || c.Peer == s.host.Name()))
}

// repeats returns how often a case is run.
func (r *runner) repeats(c Case) int {
	if slices.Contains(once, c.Scenario) {
		return 1
	}
	return r.Repeats
}

func (r *runner) count() (n int) {
	for _, c := range r.Cases {
		for _, s := range r.here {
			if r.takesPart(s, c) {
				n += r.repeats(c)
			}
		}
	}
	return n
}

// round runs one repeat of a case on all targets in turn. If a peer fails, it is left out
// from then on; if ours fails, the bench ends.
func (r *runner) round(ctx context.Context, c Case, repeat int) error {
	for _, s := range r.here {
		if !r.takesPart(s, c) {
			continue
		}
		err := r.one(ctx, s, c, repeat)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s == r.here[0]:
			return fmt.Errorf("%s: %s: %w", s.host.Name(), c.Scenario, err)
		default:
			s.lost = err
			r.Live.Note(fmt.Sprintf("%s takes no further part: %s: %v", s.host.Name(), c.Scenario, err))
			r.out.Versions[s.host.Name()] += "; given up: " + err.Error()
		}
	}
	return nil
}

// one performs a single run. If it fails midway, it is recorded as invalid.
func (r *runner) one(ctx context.Context, s *side, c Case, repeat int) error {
	rate := c.Rate
	if c.Share > 0 {
		if rate = r.capacity(s, c.Scenario) * c.Share; rate == 0 {
			return errors.New("the share of a capacity that no closed loop before has found")
		}
		rate = math.Max(1, math.Floor(rate/100)*100)
	}
	run := result.Run{Target: s.host.Name(), Scenario: c.Scenario, Clients: c.Clients, Rate: rate, Share: c.Share, Window: c.Window.Seconds(), Size: c.Size, Repeat: repeat}
	r.number++
	duration := cmp.Or(c.Window, r.Duration)
	measured, err := r.measure(ctx, &round{runner: r, side: s, run: &run, runsOfCase: r.repeats(c), plan: load.Plan{
		Clients: run.Clients, Rate: run.Rate, WarmUp: r.WarmUp, Duration: duration,
		// A target that cannot keep up gets the same time once more. Arrivals still due
		// after that are counted as never sent.
		Overtime: duration,
	}})
	if measured {
		if err != nil {
			run.Invalid = "broken off: " + err.Error()
		}
		r.out.Runs = append(r.out.Runs, run)
		r.Live.End(run)
	}
	return err
}

// measure performs a run of a scenario, and reports whether there is something measured.
func (r *runner) measure(ctx context.Context, around *round) (measured bool, err error) {
	s, run := around.side, around.run
	elected, err := termOf(ctx, s.target)
	if err != nil {
		return false, err
	}
	one := &host.Round{Plan: around.plan, Result: run, Bench: around}
	err = s.host.Scenario(run.Scenario).Run(ctx, one)
	w := around.watch
	if err == nil && run.Window > 0 {
		w.chargeUntilIdle(func() { r.settle(ctx) })
	}
	s.host.Settle(run)
	if w == nil || w.window == 0 && run.Operations == 0 {
		return false, err
	}
	if w.window > 0 {
		w.fill(run, around.pids())
		run.CPU.PerOperation = cmp.Or(one.CPUPerOperation, run.CPU.PerOperation)
	}
	if elected == 0 || err != nil || run.Scenario == scenario.Failover {
		return true, err
	}
	now, err := termOf(ctx, s.target)
	if run.Figures == nil {
		run.Figures = map[string]float64{}
	}
	run.Figures[figureElections] = float64(now - elected)
	return true, err
}

// capacity returns the median throughput of a target in the closed loops of a scenario
// with the most clients.
func (r *runner) capacity(s *side, name string) float64 {
	most := 0
	var reached []float64
	for _, run := range r.out.Runs {
		if run.Target != s.host.Name() || run.Scenario != name || run.Rate != 0 || run.Window != 0 || run.Clients < most {
			continue
		}
		if run.Clients > most {
			most, reached = run.Clients, nil
		}
		reached = append(reached, run.PerSecond)
	}
	return report.NewSpread(reached).Median
}

// figureElections is how many elections several nodes held during a run.
const figureElections = "elections"

// termOf returns the term in which a target's nodes are led, 0 if it is none of several.
func termOf(ctx context.Context, t target.Target) (uint64, error) {
	led, several := t.(interface {
		Term(context.Context) (uint64, error)
	})
	if !several {
		return 0, nil
	}
	return led.Term(ctx)
}

const (
	idleWait   = 15 * time.Second
	idleWindow = 50 * time.Millisecond
	// idleCPU is less than one tick of the system's clock for CPU time.
	idleCPU = 10 * time.Millisecond
)

// settle waits until no target is still processing earlier requests.
func (r *runner) settle(ctx context.Context) {
	var pids []int
	for _, s := range r.here {
		pids = append(pids, s.target.Processes()...)
	}
	settle(ctx, pids)
}

func settle(ctx context.Context, pids []int) {
	if len(pids) == 0 {
		return
	}
	before := machine.Processes(pids...)
	for deadline := time.Now().Add(idleWait); before.Err == nil && time.Now().Before(deadline); {
		if host.SleepUntil(ctx, time.Now().Add(idleWindow)) != nil {
			return
		}
		now := machine.Processes(pids...)
		if now.CPU-before.CPU < idleCPU {
			return
		}
		before = now
	}
}
