// Command parley-bench measures a Parley server through its HTTP interface, and other
// systems for comparison. `parley bench` starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line, in the order in which help lists it.
type commands struct {
	JSON   bool   `name:"json" help:"Print results as one JSON value."`
	Server string `name:"server" placeholder:"FILE" help:"Server program to measure; default: parley beside this program, or on PATH."`

	Run runCmd `cmd:"" default:"withargs" help:"Measure; default subcommand."`
}

// Exit codes: those of parley that apply here.
const (
	exitUnexpected = 1
	exitUsage      = 2
	exitNetwork    = 8
)

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// terminal holds the output streams of a command and the server to measure.
type terminal struct {
	out, err io.Writer
	json     bool
	// server is the path of the server program; if it is empty, ownServer searches for
	// it.
	server string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends the process
	os.Exit(run(ctx, os.Args[1:], &terminal{out: os.Stdout, err: os.Stderr}))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, std *terminal) int {
	var chosen commands
	code, left := 0, false
	parser, err := kong.New(&chosen,
		kong.Name("parley-bench"),
		kong.Description("Measure a Parley server durably: throughput, latency, memory, disk and restart; peers beside it."),
		kong.Writers(std.out, std.err),
		kong.Exit(func(c int) { code, left = c, true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return std.fail(err)
	}
	selected, err := parser.Parse(args)
	if left { // --help has been printed
		return code
	}
	std.json, std.server = chosen.JSON || err != nil && slices.Contains(args, "--json"), chosen.Server
	if err != nil {
		return std.fail(exitError{code: exitUsage, err: fmt.Errorf("%w\nRun \"parley bench --help\" for usage", err)})
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	if err := selected.Run(std); err != nil {
		return std.fail(err)
	}
	return 0
}

// note writes a line on standard error.
func (t *terminal) note(format string, args ...any) { _, _ = fmt.Fprintf(t.err, format+"\n", args...) }

// value writes v as one line of JSON.
func (t *terminal) value(v any) error { return json.NewEncoder(t.out).Encode(v) }

// fail reports an error on standard error and returns the exit code.
func (t *terminal) fail(err error) int {
	code := exitUnexpected
	var known exitError
	switch {
	case errors.As(err, &known):
		code = known.code
	case networkFailure(err):
		code = exitNetwork
	}
	if !t.json {
		t.note("parley bench: %s", err)
		return code
	}
	text, _ := json.Marshal(map[string]any{"error": err.Error(), "exit": code})
	t.note("%s", text)
	return code
}

// ownServer returns the server program to start: the one that was named, or else parley
// beside this program, or else on PATH.
func (t *terminal) ownServer() (string, error) {
	if t.server != "" {
		return filepath.Abs(t.server)
	}
	name := "parley"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isProgram(beside) {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", exitError{code: exitUsage, err: errors.New("there is no server program beside parley-bench or on PATH: name it with --server, or a running server with --url")}
	}
	return filepath.Abs(found)
}

// childEnvironment returns this process's environment without the settings of serve,
// because a server that the bench starts is configured by its command line alone.
func childEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PARLEY_") })
}
