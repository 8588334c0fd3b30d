package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience is the longest a start may take, replay of a large journal
	// and the making of a database included.
	startPatience = 2 * time.Minute
	// stopPatience is the longest an orderly end may take.
	stopPatience = 20 * time.Second
	logTailBytes = 2000
)

// process is one run of a program that says on standard output when it is
// ready.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// launch starts a program and waits for the first line of its output that
// ready accepts. What it writes to standard error is appended to log.
func launch(ctx context.Context, log string, env []string, binary string, args []string, ready func(line string) bool) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), log: log, exited: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	p.cmd.Stderr, p.cmd.Env, p.cmd.SysProcAttr = file, env, apart()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	heard := make(chan struct{})
	if err := p.begin(out, ready, heard); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", binary, err)
	}
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case <-heard:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("%s ended before it was ready: %w\n%s", binary, p.ending(), p.logTail())
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = fmt.Errorf("%s was not ready within %v", binary, startPatience)
	}
	p.kill()
	return nil, fmt.Errorf("%w\n%s", err, p.logTail())
}

// begin starts the process on a thread that stays: the death signal of a child
// is bound to the thread that made it.
func (p *process) begin(out io.Reader, ready func(string) bool, heard chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		told := false
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if !told && ready(lines.Text()) {
				told = true
				close(heard)
			}
		}
		_, _ = io.Copy(io.Discard, out) // a line too long to be read ends the scan
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return <-started
}

// ending is why the process is gone.
func (p *process) ending() error {
	if p.err == nil {
		return errors.New("exit code 0")
	}
	return p.err
}

// kill is SIGKILL, which a process can neither catch nor delay, for all of its
// group.
func (p *process) kill() {
	killGroup(p.cmd.Process)
	<-p.exited
}

// stop is SIGTERM and, for one that does not listen, SIGKILL.
func (p *process) stop() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s was gone before it was stopped: %w\n%s", p.cmd.Path, p.ending(), p.logTail())
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s did not stop in order: %w\n%s", p.cmd.Path, p.err, p.logTail())
		}
		return nil
	case <-patience.C:
		p.kill()
		return fmt.Errorf("%s did not stop within %v", p.cmd.Path, stopPatience)
	}
}

// logTail is the end of what the process wrote to standard error.
func (p *process) logTail() string {
	text, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(text[max(0, len(text)-logTailBytes):]))
}
