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
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

type growthCmd struct {
	Agents   int64 `default:"100000" help:"Make so many agents, looking at 1,000 and each tenfold; 0 for none."`
	Messages int64 `default:"1000000" help:"Store so many messages, looking at 0, 100,000 and each tenfold; 0 for none."`

	Clients    int           `default:"128" help:"Connections that make agents, and that send."`
	Active     int           `default:"10000" help:"Agents that send and receive while memory is looked at."`
	Rest       time.Duration `help:"How long to wait after the last agents were made, so that those not active may leave memory."`
	Pages      int           `default:"10000" help:"How deep the inbox page is that is compared with the first, if there are as many."`
	Recipients int           `default:"1000" help:"Agents that the messages go to."`
	Senders    int           `default:"1" help:"Senders to them."`
	Payload    int           `default:"1024" help:"Characters of encrypted_payload."`
	Duration   time.Duration `default:"5s" help:"Measured window of sends and of inbox pages at each size."`
	Warmup     time.Duration `default:"1s" help:"What goes before it, at the same pace."`
	Seed       uint64        `default:"1" help:"Makes choices and payloads repeatable."`

	Serve  string `name:"serve-args" placeholder:"FLAGS" help:"Further flags of the bench's own server, as in --serve-args=\"--journals 4\"."`
	Dir    string `placeholder:"DIR" help:"Where the bench's own server writes; its disk is probed. Default: the system's temporary directory."`
	Verify bool   `help:"At the end kill the server under load once more and read a sample of all messages back."`
	Out    string `placeholder:"DIR" help:"Where results go, after each size; default: bench-results/TIME."`
}

// Run grows the server, measures it and prints the results. It saves each size once it is
// measured, so that a later failure does not lose it.
func (c *growthCmd) Run(ctx context.Context, std *terminal) error {
	dir, remove, err := benchDir(c.Dir)
	if err != nil {
		return err
	}
	defer remove()
	binary, err := std.ownServer()
	if err != nil {
		return err
	}
	measured, err := bench.Grow(ctx, bench.Growth{
		Server: func(dir string) target.Target {
			return &target.Server{Label: "parley", Binary: binary, Dir: filepath.Join(dir, "parley"), Args: strings.Fields(c.Serve), Env: childEnvironment()}
		},
		Agents: c.Agents, Messages: c.Messages, Clients: c.Clients, Active: c.Active, Rest: c.Rest, Pages: c.Pages,
		WarmUp: c.Warmup, Duration: c.Duration, Verify: c.Verify,
		Params: scenario.Params{Seed: c.Seed, Payload: c.Payload, Agents: c.Recipients, Senders: c.Senders},
		Dir:    dir, ProbeTime: min(probeTime, c.Duration), Live: report.NewLive(std.err), Command: os.Args,
		Save: func(r *result.Report) error {
			_, err := report.Save(resultsDir(c.Out, r), r)
			return err
		},
	})
	if measured == nil {
		return exitError{code: exitUsage, err: err}
	}
	if ctx.Err() != nil {
		err = exitError{code: exitUnexpected, err: errors.New("interrupted; the sizes that were measured were saved")}
	}
	if len(measured.Runs) == 0 {
		return err
	}
	return errors.Join(err, tell(std, resultsDir(c.Out, measured), measured), judge(measured))
}
