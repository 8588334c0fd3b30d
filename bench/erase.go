package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

// Erasure says how large an organization is that is erased, and what others do meanwhile.
type Erasure struct {
	// Server is a server of the bench's own.
	Server target.Target
	// Agents is how many agents the organization has, Messages how many messages they sent
	// and received.
	Agents   int
	Messages int64
	// Clients is how many connections store the messages.
	Clients int
	// Rate is how many messages a second others send, before and during the erasure. Before
	// it they do so for Duration.
	Rate             float64
	WarmUp, Duration time.Duration
	// Params holds the seed, the payload, and the senders and recipients that are others.
	Params scenario.Params
	// Verify kills the server afterwards and reads everything back.
	Verify bool
	// Dir is the directory for data. The disk under it is probed for ProbeTime.
	Dir       string
	ProbeTime time.Duration
	Live      *report.Live
	Command   []string
}

// Figures of a run of Erase.
const (
	figureEraseSeconds  = "erase_seconds"
	figureErasedAgents  = "agents"
	figureErased        = "messages"
	figureBesideErasure = "p99_of_before"
)

// othersSending is the number of connections over which others send.
const othersSending = 64

// Erase measures the erasure of an organization while others send. With an error, it also
// returns the results so far.
func Erase(ctx context.Context, e Erasure) (*result.Report, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	e.Params.Keep = true
	out := &result.Report{Schema: result.Schema, Began: time.Now().UTC(), Command: e.Command, Versions: map[string]string{}}
	out.Machine = machine.Describe(e.Dir)
	r := &runner{out: out, Config: Config{
		Targets: []target.Target{e.Server}, Repeats: 1, WarmUp: e.WarmUp, Duration: e.Duration, Params: e.Params, Dir: e.Dir, Live: e.Live,
	}}
	if r.Params.Note == nil {
		r.Params.Note = r.Live.Note
	}
	var err error
	if out.DiskBefore, err = machine.ProbeDisk(ctx, e.Dir, e.ProbeTime); err != nil {
		return out, fmt.Errorf("the disk under %s cannot be probed: %w", e.Dir, err)
	}
	if err = r.start(ctx); err == nil {
		err = (&eraser{grower: newGrower(r, &Growth{Clients: e.Clients}, ""), erasure: &e}).all(ctx)
	}
	out.Goals = report.Goals(out)
	if err == nil {
		out.DiskAfter, err = machine.ProbeDisk(ctx, e.Dir, e.ProbeTime)
	}
	out.Ended = time.Now().UTC()
	return out, errors.Join(err, r.stop())
}

func (e *Erasure) check() error {
	switch {
	case e.Agents < 2 || e.Messages < 1:
		return errors.New("an organization of two agents and a message at least is needed")
	case e.Clients < 1 || e.Rate <= 0:
		return errors.New("erase needs a client, and a rate at which others send")
	case e.Duration <= 0 || e.WarmUp < 0 || e.WarmUp+e.Duration > runLongest:
		return fmt.Errorf("warm-up and duration should be some time, together at most %v", runLongest)
	}
	return e.Params.Check()
}

// eraser is a call of Erase in progress.
type eraser struct {
	*grower
	org     *scenario.Erasure
	erasure *Erasure
}

func (e *eraser) all(ctx context.Context) error {
	var err error
	if e.org, err = scenario.BeginErasure(ctx, e.side.host.Host, e.erasure.Agents); err != nil {
		return err
	}
	filled, err := e.fillErased(ctx)
	if err != nil {
		return err
	}
	e.settle(ctx)
	before, err := e.send(ctx, e.plan(), newWatch(e.Live, e.side.target.Processes()))
	if err != nil {
		return err
	}
	run, err := e.erase(ctx, before)
	if err != nil {
		return err
	}
	run.Figures["fill_per_second"] = filled
	e.out.Runs = append(e.out.Runs, *run)
	e.Live.End(*run)
	if err := e.org.Check(ctx); err != nil || !e.erasure.Verify {
		return err
	}
	if err := e.verify(ctx, e.side); err != nil {
		return err
	}
	return e.org.CheckGone(ctx) // by the server that was killed and started again
}

// fillErased stores the messages of the organization, and returns how many a second.
func (e *eraser) fillErased(ctx context.Context) (perSecond float64, err error) {
	n := e.erasure.Messages
	sum, err := e.chunks(ctx, n, fillChunk, false, e.watching("fill", n), func(int64) (load.Dial, error) {
		return e.org.Prepare(ctx)
	}, func() error { return e.org.SettlePart(n) })
	return sum.PerSecond(), err
}

// plan is the load of others.
func (e *eraser) plan() load.Plan {
	return load.Plan{Clients: othersSending, Rate: e.erasure.Rate, WarmUp: e.WarmUp, Duration: e.Duration, Overtime: e.Duration}
}

// send lets others send.
func (e *eraser) send(ctx context.Context, plan load.Plan, w load.Watch) (*load.Measurement, error) {
	dial, err := e.side.host.Prepare(ctx, scenario.Send, plan.Clients)
	if err != nil {
		return nil, err
	}
	e.Live.Begin(report.Task{
		Target: e.side.host.Name(), Scenario: scenario.Send, Clients: plan.Clients, Rate: plan.Rate, Repeat: 1, Repeats: 1,
		WarmUp: plan.WarmUp, Duration: e.Duration,
	})
	m, err := load.Run(ctx, plan, dial, w)
	var settled result.Run
	if e.side.host.Settle(&settled); settled.Failures > 0 {
		err = errors.Join(err, fmt.Errorf("%d messages got an id that another has", settled.Failures))
	}
	return m, err
}

// erase erases the organization while others send.
func (e *eraser) erase(ctx context.Context, before *load.Measurement) (*result.Run, error) {
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var agents, messages int64
	var took time.Duration
	pids := e.side.target.Processes()
	w := &beginning{watch: newWatch(e.Live, pids), begun: make(chan struct{})}
	go func() {
		select {
		case <-w.begun:
		case <-under.Done():
			return
		}
		began := time.Now()
		var err error
		agents, messages, err = e.org.Erase(ctx)
		if took = time.Since(began); err == nil {
			err = errEnough
		}
		cancel(err)
	}()
	plan := e.plan()
	plan.Duration = growthLongest
	during, err := e.send(under, plan, w)
	if err == nil || !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("the erasure: %w", err)
	}
	run := &result.Run{Target: e.side.host.Name(), Scenario: scenario.Erase, Clients: othersSending, Rate: plan.Rate, Repeat: 1}
	during.Fill(run)
	w.fill(run, pids)
	earlier := before.Latency.Latency()
	run.Laps = map[string]result.Latency{"others before the erasure": earlier, "others during the erasure": run.Latency}
	run.Figures = map[string]float64{
		figureEraseSeconds: took.Seconds(), figureErasedAgents: float64(agents), figureErased: float64(messages),
		"erased_messages_per_second": float64(messages) / took.Seconds(),
	}
	if earlier.P99 > 0 {
		run.Figures[figureBesideErasure] = run.Latency.P99 / earlier.P99
	}
	e.Live.Note(fmt.Sprintf("%s: erased in %.1f s; others' p50 %.2f ms before and %.2f ms during, p99 %.2f ms and %.2f ms",
		run.Target, took.Seconds(), earlier.P50, run.Latency.P50, earlier.P99, run.Latency.P99))
	return run, nil
}

// beginning is a watch that says when the measured window begins.
type beginning struct {
	*watch
	begun chan struct{}
}

// Begin implements load.Watch.
func (b *beginning) Begin() {
	b.watch.Begin()
	close(b.begun)
}
