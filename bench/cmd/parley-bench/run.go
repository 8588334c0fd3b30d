package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/bench"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

type runCmd struct {
	Scenarios []string `arg:"" optional:"" help:"send, reply, sync, inbox, stream, hot, cold, idle, overload, fanout, hotgroup, poll, webhook, quota, directory, a2a, failover, erase, grow-agents, grow-messages; default: send to stream."`
	Goals     bool     `help:"Run the cases that the published goals name, no others."`
	Overload  bool     `help:"With --goals: those of overload too, which take two minutes more."`

	URL      string   `name:"url" placeholder:"URL" help:"Measure this server, on which the bench registers organizations; default: one of its own."`
	AdminURL string   `name:"admin-url" placeholder:"URL" help:"Admin listener of that server, for its metrics."`
	PID      int      `name:"pid" help:"Process of that server if it runs here, for its CPU and memory."`
	Beside   []string `placeholder:"FILE" help:"Peers to measure in turn with ours, each a program."`
	Nodes    int      `placeholder:"N" help:"Measure a cluster of this many nodes behind haproxy; 1 is a cluster of one voter. Without scenarios: send, inbox."`
	InTurn   bool     `help:"With --nodes: haproxy gives each connection to the next node that is ready, not to the one that leads."`
	Single   bool     `name:"beside-single" help:"With --nodes: measure a single server behind the same haproxy too, the two in turn."`
	Serve    string   `name:"serve-args" placeholder:"FLAGS" help:"Further flags of the bench's own server, as in --serve-args=\"--journals 4\"."`
	Dir      string   `placeholder:"DIR" help:"Where the bench's own server and peers write; its disk is probed. Default: the system's temporary directory."`

	Clients  []int         `placeholder:"N" help:"Connections that ask at once; default: 1, 64 and 256 for send, 64 for others."`
	Rates    []float64     `placeholder:"N" help:"Arrivals a second: adds open loops with the most clients."`
	Duration time.Duration `default:"5s" help:"Measured window of each run."`
	Warmup   time.Duration `default:"1s" help:"What goes before it, at the same pace."`
	Repeats  int           `default:"3" help:"Runs of each case, all targets in turn."`

	host.Params `embed:""`

	Verify bool   `help:"At the end kill the bench's own server under load, start it again and read every acknowledged message back."`
	Out    string `placeholder:"DIR" help:"Where results go; default: bench-results/TIME."`
}

// probeTime is the duration of each probe of the disk, before and after the runs.
const probeTime = time.Second

// Run measures, saves and prints the results. After an interrupt or a failure it saves
// the results so far.
func (c *runCmd) Run(ctx context.Context, std *terminal) error {
	config, remove, err := c.config(std)
	if err != nil {
		return err
	}
	defer remove()
	measured, err := bench.Run(ctx, config)
	if measured == nil {
		return exitError{code: exitUsage, err: err}
	}
	if ctx.Err() != nil {
		err = exitError{code: exitUnexpected, err: fmt.Errorf("interrupted after %d of the runs; what there is was saved", len(measured.Runs))}
	}
	if len(measured.Runs) == 0 && measured.Verified == nil {
		return err
	}
	return errors.Join(err, tell(std, resultsDir(c.Out, measured), measured), judge(measured))
}

// resultsDir returns the directory for the results: out, or if that is empty, one named
// by the time at which the bench began.
func resultsDir(out string, measured *result.Report) string {
	if out != "" {
		return out
	}
	return filepath.Join("bench-results", measured.Began.Format("20060102T150405Z"))
}

// tell saves the results and prints them.
func tell(std *terminal, out string, measured *result.Report) error {
	files, err := report.Save(out, measured)
	if err != nil {
		return fmt.Errorf("the results cannot be saved: %w", err)
	}
	for _, file := range files {
		std.note("wrote %s", file)
	}
	if std.json {
		return std.value(measured)
	}
	return report.Markdown(std.out, measured)
}

// judge returns an error if the measurement found a violation, because speed without
// durability is worth nothing.
func judge(measured *result.Report) error {
	if v := measured.Verified; v != nil && !v.Clean() {
		return fmt.Errorf("verification: of %d acknowledged: %s", v.Acknowledged, strings.Join(v.Violations(), ", "))
	}
	return nil
}

func (c *runCmd) config(std *terminal) (config bench.Config, remove func(), err error) {
	cases, err := c.cases()
	if err != nil {
		return config, nil, exitError{code: exitUsage, err: err}
	}
	if c.URL != "" && c.Serve != "" {
		return config, nil, exitError{code: exitUsage, err: errors.New("--serve-args are for the bench's own server; --url has one already")}
	}
	if c.URL == "" && (c.PID != 0 || c.AdminURL != "") {
		return config, nil, exitError{code: exitUsage, err: errors.New("--pid and --admin-url belong to a server named by --url")}
	}
	if err := c.checkNodes(); err != nil {
		return config, nil, exitError{code: exitUsage, err: err}
	}
	dir, remove, err := benchDir(c.Dir)
	if err != nil {
		return config, nil, err
	}
	binary, own, err := c.own(std)
	if err == nil {
		config.Targets, err = c.targets(dir, binary, own)
	}
	if err != nil {
		remove()
		return config, nil, err
	}
	return bench.Config{
		Targets: config.Targets, Cases: cases, Nodes: c.Nodes,
		Repeats: c.Repeats, WarmUp: c.Warmup, Duration: c.Duration,
		Params: c.Params,
		Verify: c.Verify, Own: own,
		Dir: filepath.Dir(dir), ProbeTime: min(probeTime, c.Duration), Live: report.NewLive(std.err), Command: os.Args,
	}, remove, nil
}

// benchDir creates a directory under parent; remove removes it.
func benchDir(parent string) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp(parent, "parley-bench-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	// A database peer may run as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

func (c *runCmd) cases() ([]bench.Case, error) {
	if c.Goals {
		if len(c.Scenarios) > 0 || len(c.Clients) > 0 || len(c.Rates) > 0 {
			return nil, errors.New("--goals says which cases are run: name neither scenarios nor clients nor rates")
		}
		if c.Overload {
			return append(bench.Goals(), bench.Overload()...), nil
		}
		return bench.Goals(), nil
	}
	if c.Overload {
		return nil, errors.New("--overload goes with --goals; without, name the scenario overload")
	}
	names := c.Scenarios
	if len(names) == 0 && c.Nodes > 0 {
		names = []string{scenario.Send, scenario.Inbox}
	}
	if len(names) == 0 {
		names = []string{scenario.Send, scenario.Reply, scenario.Sync, scenario.Inbox, scenario.Stream}
	}
	switch {
	case slices.Contains(names, scenario.GrowAgents):
		c.Grow, c.Agents = cmp.Or(c.Grow, 100_000), 1
	case slices.Contains(names, scenario.GrowMessages):
		c.Grow = cmp.Or(c.Grow, 1_000_000)
	}
	return bench.Cases(names, c.Clients, c.Rates, c.Grow)
}

// serveArgs returns further flags of our server: those that the scenarios require, and
// those from the command line.
func (c *runCmd) serveArgs() (args []string) {
	if slices.Contains(c.Scenarios, scenario.Poll) {
		args = append(args, "--poll-limit", "0/0")
	}
	if slices.Contains(c.Scenarios, scenario.Webhook) {
		args = append(args, "--dev") // the webhook targets are on this machine
	}
	return append(args, strings.Fields(c.Serve)...)
}

// ours is the name in reports of the server under test.
const ours = "parley"

// own returns the program of the bench's own servers and a function that creates them; "" and
// nil if the command line names a server.
func (c *runCmd) own(std *terminal) (binary string, server func(dir string, flags ...string) target.Target, err error) {
	if c.URL != "" {
		return "", nil, nil
	}
	if binary, err = std.ownServer(); err != nil {
		return "", nil, err
	}
	return binary, func(dir string, flags ...string) target.Target {
		return &target.Server{Label: ours, Binary: binary, Dir: dir, Args: append(c.serveArgs(), flags...), Env: childEnvironment()}
	}, nil
}

// targets returns our server and the peers, each with its own directory under dir.
func (c *runCmd) targets(dir, binary string, own func(dir string, flags ...string) target.Target) ([]target.Target, error) {
	var all []target.Target
	switch {
	case own == nil:
		all = append(all, &target.Remote{Label: ours, URL: c.URL, AdminURL: c.AdminURL, AdminToken: os.Getenv("PARLEY_ADMIN_TOKEN"), PID: c.PID})
	case c.Nodes > 0:
		all = c.clusters(dir, binary)
	default:
		all = append(all, own(filepath.Join(dir, ours)))
	}
	for _, binary := range c.Beside {
		if !isProgram(binary) {
			return nil, exitError{code: exitUsage, err: fmt.Errorf("--beside: %s is no program; peers are built by make bench", binary)}
		}
		peer := &target.Peer{Binary: binary, Env: os.Environ()}
		peer.Dir = filepath.Join(dir, "beside-"+peer.Name())
		all = append(all, peer)
	}
	return all, nil
}
