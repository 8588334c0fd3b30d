package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"parley"
)

type serveCmd struct {
	Config
	AcceptLoss bool `help:"Open a data directory that does not hold all that was acknowledged, and give up what is missing. For when there is no backup."`
	Hints      bool `help:"Say on standard error what to do next, even where standard output is no terminal."`
}

// Run serves until the first SIGTERM or SIGINT, drains and returns. Standard
// output gets one line, once connections are accepted; whoever starts the
// server may wait for it. Everything else is log, on standard error.
func (c *serveCmd) Run(ctx context.Context, std *streams) error {
	c.acceptLoss = c.AcceptLoss
	slog.SetDefault(newLogger(&c.Config, std.err))
	ready := func(address string) {
		_, _ = fmt.Fprintf(std.out, "parley: listening on http://%s\n", address)
		if c.Hints || isTerminal(std.out) {
			c.hint(std.err, address)
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
		return errors.New("draining took too long; what was answered is on disk")
	}
}

func (c *serveCmd) hint(w io.Writer, address string) {
	url := c.BaseURL
	if url == "" {
		url = "http://" + address
	}
	for _, line := range []string{
		"see it work    parley demo --url " + url,
		"take part      parley register acme --email ops@acme.example --url " + url,
		"read about it  " + url + "/docs",
	} {
		_, _ = fmt.Fprintln(w, "  "+line)
	}
}

// newLogger writes lines for a person on a terminal and under --dev, else JSON.
func newLogger(c *Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // one of an enumeration
	text := c.LogFormat == "text" || c.LogFormat == "auto" && (c.Dev || isTerminal(w))
	if !text {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{
		Level:      level,
		TimeFormat: time.TimeOnly + ".000",
		NoColor:    !isTerminal(w) || os.Getenv("NO_COLOR") != "",
	}))
}
