package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// child is a server that the demonstration started: this binary, run as another
// process so that it can be killed.
type child struct {
	url    string
	log    string // path of the file with everything it logged
	cmd    *exec.Cmd
	exited chan struct{}
}

// childStart is the longest time that a start may take, replay included.
const childStart = 15 * time.Second

// startChild starts a server on listen with its data under dir and returns
// when it accepts connections. It ignores the PARLEY_ variables of this process.
func startChild(ctx context.Context, dir, listen string) (*child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{log: filepath.Join(dir, "server.log"), exited: make(chan struct{})}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c.cmd = exec.CommandContext(ctx, binary, "serve", "--dev", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	c.cmd.Stderr = log
	c.cmd.Env = childEnvironment()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "parley: listening on "); ok {
				address <- url
			}
		}
		_ = c.cmd.Wait() // the reason is in the log
		close(c.exited)
	}()
	select {
	case c.url = <-address:
		return c, nil
	case <-c.exited:
		err = errors.New("the server exited before it accepted connections")
	case <-time.After(childStart):
		err = fmt.Errorf("the server did not accept connections within %v", childStart)
	}
	c.kill()
	return nil, fmt.Errorf("%w; its log:\n%s", err, c.logTail())
}

// kill ends the process with SIGKILL, which it can neither catch nor delay.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// logTail returns the last 2,000 bytes of the server's log.
func (c *child) logTail() string {
	const tail = 2000
	text, _ := os.ReadFile(c.log)
	return string(text[max(0, len(text)-tail):])
}

// childEnvironment returns this process's environment without the variables that
// configure a server: the command line alone configures the child.
func childEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PARLEY_") })
}
