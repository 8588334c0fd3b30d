package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"parley/bench/load"
	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

// Growth says how far a server is grown and how it is looked at on the way.
// Agents and messages are grown apart, each on a server of its own with an empty
// directory.
type Growth struct {
	// Server makes the server that keeps its data under dir.
	Server func(dir string) target.Target
	// Agents is how many are made, Messages how many are stored; 0 leaves that
	// curve out.
	Agents, Messages int64
	// Clients is how many connections make agents and send.
	Clients int
	// Active is how many agents send and receive while memory is looked at.
	Active int
	// Rest is waited for after the last agent was made, so that those who are not
	// active may leave memory.
	Rest time.Duration
	// Pages is how deep the page is that is compared with the first.
	Pages int
	// WarmUp and Duration are of each measurement of sends.
	WarmUp, Duration time.Duration
	// Params are seed, payload, and the recipients and senders of messages.
	Params scenario.Params
	// Verify reads a sample of the messages back after a last kill.
	Verify bool
	// Dir is where data is written: the disk under it is probed, for ProbeTime.
	Dir       string
	ProbeTime time.Duration
	Live      *report.Live
	Command   []string
	// Save is given what there is after each size; nil for nobody.
	Save func(*result.Report) error
}

const (
	growingAgents   = "agents"
	growingMessages = "messages"
	// firstAgents and firstMessages are the least sizes of long curves. Each
	// further one is ten times as large.
	firstAgents   = 1000
	firstMessages = 100_000
	// diskPerAgent and diskPerMessage, beside its payload, are what is asked for
	// before anything is written; diskSlack is for logs of the store.
	diskPerAgent   = 3 << 10
	diskPerMessage = 2 << 10
	diskSlack      = 128 << 20
	// createChunk and fillChunk bound what is done under one token, and how many
	// acknowledged messages are recorded at once.
	createChunk = 50_000
	fillChunk   = 250_000
	// samples is about how many messages Verify reads back.
	samples = 10_000
	// growthLongest is longer than anything that ends by its count.
	growthLongest = 24 * time.Hour
)

// Grow measures scaling curves. What was measured comes back also beside an
// error.
func Grow(ctx context.Context, g Growth) (*result.Report, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	out := &result.Report{Schema: result.Schema, Began: time.Now().UTC(), Command: g.Command, Versions: map[string]string{}}
	err := g.all(ctx, out)
	out.Ended = time.Now().UTC()
	return out, err
}

func (g *Growth) check() error {
	switch {
	case g.Agents < 0 || g.Messages < 0 || g.Agents+g.Messages == 0:
		return errors.New("there is nothing to grow: name a number of agents, of messages or of both")
	case g.Agents == 1 || g.Agents >= 10_000_000 || g.Messages > 10_000_000_000:
		return errors.New("agents should be 2 to 9999999, messages at most ten thousand million")
	case g.Verify && g.Messages == 0:
		return errors.New("a verification needs messages that it could read back")
	case g.Clients < 1 || g.Active < 2 || g.Pages < 2:
		return errors.New("growth needs a client, two active agents and two pages at least")
	case g.Duration <= 0 || g.WarmUp < 0 || g.Rest < 0 || g.WarmUp+g.Duration > runLongest:
		return fmt.Errorf("warm-up and duration should be some time, together at most %v", runLongest)
	}
	if err := g.Params.Check(); err != nil {
		return err
	}
	return g.room()
}

// room refuses what the disk would not hold.
func (g *Growth) room() error {
	need := g.needs()
	free, err := machine.FreeBytes(g.Dir)
	if err != nil {
		g.Live.Note("whether the disk has room is not known: " + err.Error())
		return nil
	}
	if need > free {
		return fmt.Errorf("%d agents or %d messages may take %.1f GiB, and under %s %.1f GiB are free: grow less, or name another directory",
			g.Agents, g.Messages, gibibytes(need), g.Dir, gibibytes(free))
	}
	return nil
}

// needs is an estimate in bytes. The curves are measured one after the other,
// and what the first wrote is removed before the second.
func (g *Growth) needs() uint64 {
	agents := uint64(g.Agents) * diskPerAgent
	messages := uint64(g.Messages) * uint64(diskPerMessage+g.Params.Payload)
	return max(agents, messages) + diskSlack
}

func gibibytes(n uint64) float64 { return float64(n) / (1 << 30) }

// sizes are the steps of a curve: first and its tenfolds under most, and most.
// A short curve begins at a tenth.
func sizes(first, most int64) (steps []int64) {
	if most <= first {
		first = max(1, most/10)
	}
	for size := first; size < most; size *= 10 {
		steps = append(steps, size)
	}
	return append(steps, most)
}

func (g *Growth) all(ctx context.Context, out *result.Report) (err error) {
	out.Machine = machine.Describe(g.Dir)
	if out.DiskBefore, err = machine.ProbeDisk(ctx, g.Dir, g.ProbeTime); err != nil {
		return fmt.Errorf("the disk under %s cannot be probed: %w", g.Dir, err)
	}
	if g.Agents > 0 {
		params := g.Params
		params.Agents = 1
		if err := g.curve(ctx, out, growingAgents, params, (*grower).agents); err != nil {
			return err
		}
	}
	if g.Messages > 0 {
		params := g.Params
		params.Depth = g.Pages
		if g.Verify {
			params.Sample = int(max(1, g.Messages/samples))
		}
		if err := g.curve(ctx, out, growingMessages, params, (*grower).messages); err != nil {
			return err
		}
	}
	if out.DiskAfter, err = machine.ProbeDisk(ctx, g.Dir, g.ProbeTime); err != nil {
		return fmt.Errorf("the disk under %s cannot be probed: %w", g.Dir, err)
	}
	return nil
}

// grower is one curve under way.
type grower struct {
	*runner
	growth *Growth
	side   *side
	dir    string
}

// curve grows one server from nothing and removes what it wrote.
func (g *Growth) curve(ctx context.Context, out *result.Report, name string, params scenario.Params, grow func(*grower, context.Context) error) (err error) {
	dir, err := os.MkdirTemp(g.Dir, "growing-"+name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if params.Note == nil {
		params.Note = g.Live.Note
	}
	r := &runner{out: out, Config: Config{
		Targets: []target.Target{g.Server(dir)}, Repeats: 1, WarmUp: g.WarmUp, Duration: g.Duration,
		Params: params, Dir: g.Dir, Live: g.Live,
	}}
	if err := r.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := grow(&grower{runner: r, growth: g, side: r.here[0], dir: dir}, ctx); err != nil {
		return fmt.Errorf("growing %s: %w", name, err)
	}
	return nil
}

// keep records one size and has the report saved: whatever ends the bench
// later, it stays.
func (g *grower) keep(run result.Run) error {
	g.out.Runs = append(g.out.Runs, run)
	said := fmt.Sprintf("%s: at %d %s: %.0f op/s, %.1f MiB resident, %.1f MiB on the disk",
		run.Target, run.Size, run.Growing, run.PerSecond, float64(run.Resident)/(1<<20), run.Figures["disk_bytes"]/(1<<20))
	if run.Invalid != "" {
		said = fmt.Sprintf("%s: at %d %s: INVALID: %s", run.Target, run.Size, run.Growing, run.Invalid)
	}
	g.Live.Note(said)
	if g.growth.Save == nil {
		return nil
	}
	g.out.Ended = time.Now().UTC()
	return g.growth.Save(g.out)
}

func (g *grower) resident() uint64 {
	return meter{pids: g.side.target.Processes()}.Resident()
}

// disk notes what the server takes of the disk, and what it has written for each
// of size things: room that it reserves for logs is not a thing's.
func (g *grower) disk(run *result.Run, name string, size int64) error {
	files, err := machine.FilesUnder(g.dir)
	if err != nil {
		return fmt.Errorf("what is on the disk cannot be seen: %w", err)
	}
	run.Figures["disk_bytes"] = float64(files.Taken)
	if size > 0 {
		run.Figures["disk_bytes_per_"+name] = float64(files.Written) / float64(size)
	}
	return nil
}

// term ends the server in order and starts it again.
func (g *grower) term(ctx context.Context, run *result.Run) error {
	began := time.Now()
	if err := g.side.target.Stop(); err != nil {
		return err
	}
	run.Figures["stop_seconds"] = time.Since(began).Seconds()
	began = time.Now()
	door, err := g.side.target.Start(ctx)
	if err != nil {
		return fmt.Errorf("the server does not start again: %w", err)
	}
	run.Figures["restart_term_seconds"] = time.Since(began).Seconds()
	g.side.host.Reopen(door)
	return nil
}

// kill kills the server while it is sent to and starts it again.
func (g *grower) kill(ctx context.Context, run *result.Run) error {
	_, took, err := g.killUnderLoad(ctx, g.side)
	if err != nil {
		return err
	}
	run.Figures["restart_kill_seconds"] = took.Seconds()
	return nil
}

var errEnough = errors.New("all operations are done")

// exactly runs a closed loop of n operations. If it is strict, a failure ends it;
// if not, what failed is done again, up to a bound.
func (g *grower) exactly(ctx context.Context, n int64, strict bool, dial load.Dial, w load.Watch) (*load.Measurement, error) {
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &count{wanted: n, borne: 100 + n/10, stop: cancel}
	if strict {
		c.borne = 0
	}
	counting := func(ctx context.Context, worker int) (load.Client, error) {
		client, err := dial(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &counted{Client: client, count: c}, nil
	}
	plan := load.Plan{Clients: int(min(int64(g.growth.Clients), n)), Duration: growthLongest}
	m, err := load.Run(under, plan, counting, w)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return m, err
}
