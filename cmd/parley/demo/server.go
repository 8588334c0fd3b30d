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
	cmd    *exec.Cmd
	exited chan struct{}
}

// childStart is the longest time that a start may take, replay included.
const childStart = 15 * time.Second

// startChild starts a server on listen with its data under dir and returns when it
// accepts connections. The command line alone configures it, not the PARLEY_ variables of
// this process.
func startChild(ctx context.Context, dir, listen string) *child {
	c := &child{exited: make(chan struct{})}
	path := filepath.Join(dir, "server.log")
	log := must(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer func() { _ = log.Close() }()
	c.cmd = exec.CommandContext(ctx, must(os.Executable()), "serve", "--dev", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	c.cmd.Stderr = log
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PARLEY_") })
	out := must(c.cmd.StdoutPipe())
	must(0, c.cmd.Start())
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "parley: listening on "); ok {
				address <- url
			}
		}
		_ = c.cmd.Wait() // the reason is in the log
		close(c.exited)
	}()
	var err error
	select {
	case c.url = <-address:
		return c
	case <-c.exited:
		err = errors.New("the server exited before it accepted connections")
	case <-time.After(childStart):
		err = fmt.Errorf("the server did not accept connections within %v", childStart)
	}
	c.kill()
	const tail = 2000
	text, _ := os.ReadFile(path)
	panic(fmt.Errorf("%w; its log:\n%s", err, text[max(0, len(text)-tail):]))
}

// kill ends the process with SIGKILL, which it can neither catch nor delay.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}
