package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"parley/cmd/parley/program"
)

// benchCmd starts parley-bench, which is a program of its own: nothing that
// measuring needs is linked into the server.
type benchCmd struct {
	Args []string `arg:"" optional:"" placeholder:"ARGUMENTS" help:"Arguments of parley-bench; --help lists them."`
}

// benchProgram is the file name of the program that measures.
const benchProgram = "parley-bench"

// Run hands the arguments to parley-bench, together with this program as the
// server to measure, and exits as it does.
func (c *benchCmd) Run(ctx context.Context, std *program.Streams) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tool, err := findBench(self)
	if err != nil {
		return err
	}
	args := []string{"--server", self}
	if std.JSON {
		args = append(args, "--json")
	}
	cmd := exec.CommandContext(ctx, tool, append(args, c.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.In, std.RawOut, std.RawErr
	// It saves what it has measured before it ends.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return program.ExitError{Code: exit.ExitCode(), Err: program.LoggedError{Err: err}} // parley-bench has said why
	}
	return err
}

// findBench looks for parley-bench beside this program, then on PATH.
func findBench(self string) (string, error) {
	name := benchProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if beside := filepath.Join(filepath.Dir(self), name); isProgram(beside) {
		return beside, nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is neither beside %s nor on PATH; in a checkout, build it:\n  make build", name, self)}
	}
	return found, nil
}

// isProgram reports whether path is a file, not a folder.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
