package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"parley/client/parley"
	"parley/cmd/parley/machine"
	"parley/cmd/parley/program"
)

type ServeCmd struct {
	Config
	AcceptLoss bool   `help:"Open a data directory that lacks acknowledged data, and accept the loss. Use it only if there is no backup."`
	Join       string `env:"PARLEY_JOIN" placeholder:"HOST:PORT" help:"Address of a node of the cluster to join, with a new data directory."`
	JoinToken  string `name:"join-token" env:"PARLEY_JOIN_TOKEN" placeholder:"TOKEN" help:"Token for that, from \"parley cluster token\" on a node of the cluster."`
	Hints      bool   `help:"Print next steps on standard error even if standard output is not a terminal."`
}

// Run serves until the first SIGTERM or SIGINT, drains and returns. It writes one line to
// standard output once connections are accepted; a script can wait for it. It logs
// everything else to standard error. If the log is JSON, standard error contains no other
// text.
func (c *ServeCmd) Run(ctx context.Context, std *program.Streams) error {
	c.acceptLoss, c.join, c.joinToken = c.AcceptLoss, c.Join, c.JoinToken
	slog.SetDefault(newLogger(&c.Config, std.RawErr))
	err := c.serve(ctx, std)
	if err == nil || c.readableLog(std.RawErr) {
		return err
	}
	slog.Error("the server ended", "error", err.Error(), "exit", program.ExitCode(err))
	return program.LoggedError{Err: err}
}

func (c *ServeCmd) serve(ctx context.Context, std *program.Streams) error {
	ready := func(address string) {
		machine.AddThreads()
		_, _ = fmt.Fprintf(std.RawOut, "parley: listening on http://%s\n", address)
		if c.readableLog(std.RawErr) && (c.Hints || program.IsTerminal(std.RawOut)) {
			c.hint(std.RawErr, address)
		}
	}
	done := make(chan error, 1)
	go func() { done <- runServer(ctx, c.Config, ready) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(parley.DrainWait):
		return errors.New("draining took too long; everything acknowledged is on disk")
	}
}

func (c *ServeCmd) hint(w io.Writer, address string) {
	url := c.BaseURL
	if url == "" {
		url = "http://" + address
	}
	for _, line := range []string{
		"see it work    " + program.Typed("demo --url "+url),
		"take part      " + program.Typed("register my-org --email you@my-org.example --url "+url),
		"read about it  " + url + "/docs",
	} {
		_, _ = fmt.Fprintln(w, "  "+line)
	}
}

// readableLog reports whether the log is text for a person.
func (c *Config) readableLog(w io.Writer) bool {
	return c.LogFormat == "text" || c.LogFormat == "auto" && (c.Dev || program.IsTerminal(w))
}

// newLogger logs text on a terminal and with --dev, else JSON.
func newLogger(c *Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // one of an enumeration, so it parses
	if !c.readableLog(w) {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{
		Level:      level,
		TimeFormat: time.TimeOnly + ".000",
		NoColor:    !program.IsTerminal(w) || os.Getenv("NO_COLOR") != "",
	}))
}
