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

// Growth says how far a server grows and what is measured on the way. Agents and messages
// grow separately, each on its own server with an empty directory.
type Growth struct {
	// Server returns a server that keeps its data under dir.
	Server func(dir string) target.Target
	// Agents is how many agents are created, Messages how many messages are stored; 0
	// omits that curve.
	Agents, Messages int64
	// Clients is how many connections create agents and send.
	Clients int
	// Active is how many agents send and receive while memory is measured.
	Active int
	// Rest is the wait after the last agent was created, so that idle agents can leave
	// memory.
	Rest time.Duration
	// Pages is the depth of the page that is compared with the first.
	Pages int
	// WarmUp and Duration apply to each measurement of sends.
	WarmUp, Duration time.Duration
	// Params holds the seed, the payload, and the recipients and senders of messages.
	Params scenario.Params
	// Verify reads back a sample of the messages after a final kill.
	Verify bool
	// Dir is the directory for data. The disk under it is probed for ProbeTime.
	Dir       string
	ProbeTime time.Duration
	Live      *report.Live
	Command   []string
	// Save is called with the results so far after each size; it may be nil.
	Save func(*result.Report) error
}

const (
	growingAgents   = "agents"
	growingMessages = "messages"
	// firstAgents and firstMessages are the smallest sizes of long curves. Each further
	// size is ten times as large.
	firstAgents   = 1000
	firstMessages = 100_000
	// diskPerAgent and diskPerMessage, without the payload, are the bytes that must be
	// free before anything is written; diskSlack is for logs of the store.
	diskPerAgent   = 3 << 10
	diskPerMessage = 2 << 10
	diskSlack      = 128 << 20
	// createChunk and fillChunk bound the operations under one token, and the number of
	// acknowledged messages recorded at once.
	createChunk = 50_000
	fillChunk   = 250_000
	// samples is the approximate number of messages that Verify reads back.
	samples = 10_000
	// growthLongest is longer than any run that ends by its count.
	growthLongest = 24 * time.Hour
)

// Grow measures scaling curves. With an error, it also returns the results so far.
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

// room returns an error if the disk has too little space.
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

// needs estimates the required space in bytes. The curves are measured one after the
// other, and the data of the first is removed before the second.
func (g *Growth) needs() uint64 {
	agents := uint64(g.Agents) * diskPerAgent
	messages := uint64(g.Messages) * uint64(diskPerMessage+g.Params.Payload)
	return max(agents, messages) + diskSlack
}

func gibibytes(n uint64) float64 { return float64(n) / (1 << 30) }

// sizes returns the steps of a curve: first and its multiples by ten below most, and
// most. A short curve begins at a tenth.
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

// grower is one curve in progress.
type grower struct {
	*runner
	growth *Growth
	side   *side
	host   *scenario.Growth
	dir    string
}

func newGrower(r *runner, g *Growth, dir string) *grower {
	return &grower{runner: r, growth: g, side: r.here[0], host: &scenario.Growth{Host: r.here[0].host.Host}, dir: dir}
}

// curve grows one server from an empty directory and removes its data afterwards.
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
	if err := grow(newGrower(r, g, dir), ctx); err != nil {
		return fmt.Errorf("growing %s: %w", name, err)
	}
	return nil
}

// keep records one size and saves the report, so that a later failure does not lose it.
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
	return machine.Processes(g.side.target.Processes()...).Resident
}

// disk records the disk space that the server uses, and the bytes written per item for
// size items: space that the server preallocates for logs does not count for an item.
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

// term stops the server in an orderly way and starts it again.
func (g *grower) term(ctx context.Context, run *result.Run) error {
	began := time.Now()
	if err := g.side.target.Stop(); err != nil {
		return err
	}
	run.Figures["stop_seconds"] = time.Since(began).Seconds()
	began = time.Now()
	endpoint, err := g.side.target.Start(ctx)
	if err != nil {
		return fmt.Errorf("the server does not start again: %w", err)
	}
	run.Figures["restart_term_seconds"] = time.Since(began).Seconds()
	g.host.Reopen(endpoint)
	return nil
}

// kill kills the server under load and starts it again.
func (g *grower) kill(ctx context.Context, run *result.Run) error {
	_, took, err := g.killUnderLoad(ctx, g.side)
	if err != nil {
		return err
	}
	run.Figures["restart_kill_seconds"] = took.Seconds()
	return nil
}

var errEnough = errors.New("all operations are done")

// exactly runs a closed loop of n operations. If strict is set, a failure ends it;
// otherwise failed operations are repeated, up to a bound.
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
