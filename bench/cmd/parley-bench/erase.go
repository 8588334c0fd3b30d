package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/bench"
	"parley/bench/report"
	"parley/bench/scenario"
	"parley/bench/target"
)

type eraseCmd struct {
	Agents   int   `default:"1000" help:"Agents of the organization that is erased."`
	Messages int64 `default:"1000000" help:"Messages that they sent and received: a third each between them, to others and from others."`

	Clients    int           `default:"64" help:"Connections that store the messages."`
	Rate       float64       `default:"500" help:"Messages a second that others send before and during the erasure."`
	Recipients int           `default:"100" help:"Agents of others that receive."`
	Payload    int           `default:"256" help:"Characters of encrypted_payload."`
	Duration   time.Duration `default:"20s" help:"How long others send before the erasure."`
	Warmup     time.Duration `default:"2s" help:"What goes before it, at the same pace."`
	Seed       uint64        `default:"1" help:"Makes choices and payloads repeatable."`

	Serve  string `name:"serve-args" placeholder:"FLAGS" help:"Further flags of the bench's own server, as in --serve-args=\"--journals 4\"."`
	Dir    string `placeholder:"DIR" help:"Where the bench's own server writes; its disk is probed. Default: the system's temporary directory."`
	Verify bool   `help:"Afterwards kill the server under load, start it again, read every acknowledged message of others back, and look again for what was erased."`
	Out    string `placeholder:"DIR" help:"Where results go; default: bench-results/TIME."`
}

// Run erases an organization, measures that and prints the results.
func (c *eraseCmd) Run(ctx context.Context, std *terminal) error {
	dir, remove, err := benchDir(c.Dir)
	if err != nil {
		return err
	}
	defer remove()
	binary, err := std.ownServer()
	if err != nil {
		return err
	}
	measured, err := bench.Erase(ctx, bench.Erasure{
		Server: &target.Server{Label: ours, Binary: binary, Dir: filepath.Join(dir, ours), Args: strings.Fields(c.Serve), Env: childEnvironment()},
		Agents: c.Agents, Messages: c.Messages, Clients: c.Clients, Rate: c.Rate, WarmUp: c.Warmup, Duration: c.Duration, Verify: c.Verify,
		Params: scenario.Params{Seed: c.Seed, Payload: c.Payload, Agents: c.Recipients, Senders: c.Recipients},
		Dir:    filepath.Dir(dir), ProbeTime: min(probeTime, c.Duration), Live: report.NewLive(std.err), Command: os.Args,
	})
	if measured == nil {
		return exitError{code: exitUsage, err: err}
	}
	if ctx.Err() != nil {
		err = exitError{code: exitUnexpected, err: errors.New("interrupted")}
	}
	if len(measured.Runs) == 0 {
		return err
	}
	return errors.Join(err, tell(std, resultsDir(c.Out, measured), measured), judge(measured))
}
