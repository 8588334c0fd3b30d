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
	// startPatience bounds the time of a start, including the replay of a large journal
	// or the creation of a database.
	startPatience = 2 * time.Minute
	// stopPatience bounds the time of an orderly stop.
	stopPatience = 20 * time.Second
	logTailBytes = 2000
)

// process is one run of a program that reports on standard output when it is ready.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // of Wait, set before exited is closed
}

// launch starts a program and waits for the first line of its output that ready accepts,
// or for nothing if ready is nil. The program's standard error is appended to the file log.
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
	if ready == nil {
		return p, nil
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

// begin starts the process on a thread that stays alive: the death signal of a child is
// bound to the thread that created it.
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
		parsed := ready == nil
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if !parsed && ready(lines.Text()) {
				parsed = true
				close(heard)
			}
		}
		_, _ = io.Copy(io.Discard, out) // the scanner stops at a line that is too long
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return <-started
}

// ending returns the reason why the process ended.
func (p *process) ending() error {
	if p.err == nil {
		return errors.New("exit code 0")
	}
	return p.err
}

// kill sends SIGKILL, which a process can neither catch nor delay, to the whole process
// group.
func (p *process) kill() {
	killGroup(p.cmd.Process)
	<-p.exited
}

// stop sends SIGTERM and, if the process does not end in time, SIGKILL.
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

// logTail returns the end of the process's standard error.
func (p *process) logTail() string {
	text, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(text[max(0, len(text)-logTailBytes):]))
}
