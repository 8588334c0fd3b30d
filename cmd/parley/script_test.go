package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": main})
}

// TestScripts runs the scripts: those in alone need no server, those in server start one
// themselves.
func TestScripts(t *testing.T) {
	for _, dir := range []string{"alone", "server"} {
		t.Run(dir, func(t *testing.T) {
			testscript.Run(t, testscript.Params{Dir: "testdata/" + dir, RequireExplicitExec: true, Cmds: scriptCommands})
		})
	}
}

// scriptCommands are the commands that scripts use in addition to those of testscript.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":   exits,
	"capture": capture,
	"mls":     mlsCommand,
	"server":  serverCommand,
	"svid":    svidCommand,
	"until":   until,
}

// exits runs a program and checks its exit code: `exits 2 parley nonsense`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	if got != want {
		ts.Fatalf("%q exits %d, want %d", args[1:], got, want)
	}
}

// capture stores what the group of a regular expression matches in standard output:
// `capture ID 'message ([0-9a-f-]+)'`.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture variable expression")
	}
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("capture: %q finds nothing in standard output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// until repeats a program until its standard output matches, for effects that take a
// while: `until '"status":"read"' parley conversation transcript`.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until expression program args...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("until: standard output never matched %q", args[0])
		}
	}
}

// background is the server of a script.
type background struct {
	cmd    *exec.Cmd
	exited chan error
}

// servers maps working directories to the server of the script.
var servers sync.Map

// serverCommand controls the server of a script: `server start [flags]` sets PARLEY_URL
// and ADMIN when it listens, `server kill` sends SIGKILL, `server stop` sends SIGTERM and
// requires exit code 0 within ten seconds.
func serverCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server start|kill|stop")
	}
	work := ts.Getenv("WORK")
	running, _ := servers.Load(work)
	server, _ := running.(*background)
	if server == nil && args[0] != "start" {
		ts.Fatalf("no server was started")
	}
	switch args[0] {
	case "start":
		startServer(ts, work, args[1:])
	case "kill":
		_ = server.cmd.Process.Kill()
		<-server.exited
	case "stop":
		ts.Check(server.cmd.Process.Signal(syscall.SIGTERM))
		select {
		case err := <-server.exited:
			ts.Check(err)
		case <-time.After(10 * time.Second):
			ts.Fatalf("the server did not drain within ten seconds")
		}
	default:
		ts.Fatalf("unknown: server %s", args[0])
	}
}

func startServer(ts *testscript.TestScript, work string, flags []string) {
	listen := "127.0.0.1:0"
	if before := ts.Getenv("PARLEY_URL"); before != "" { // a restart keeps its address
		listen = strings.TrimPrefix(before, "http://")
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("ADMIN", "http://"+admin.Addr().String())
	ts.Setenv("PARLEY_DATA", "data")
	_ = admin.Close() // freed for the server
	args := append([]string{"serve", "--dev", "--listen", listen, "--admin-listen", admin.Addr().String(), "--data", ts.MkAbs("data")}, flags...)
	binary, err := exec.LookPath("parley")
	ts.Check(err)
	server := &background{cmd: exec.Command(binary, args...), exited: make(chan error, 1)}
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	server.cmd.Stderr = log
	out, err := server.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(server.cmd.Start())
	ts.Check(log.Close())
	ts.Defer(func() { _ = server.cmd.Process.Kill() })
	servers.Store(work, server)
	listening := make(chan string, 8)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			listening <- lines.Text()
		}
		close(listening)
		server.exited <- server.cmd.Wait()
	}()
	select {
	case line := <-listening:
		url, ok := strings.CutPrefix(line, "parley: listening on ")
		if !ok {
			ts.Fatalf("the server said %q; its log:\n%s", line, ts.ReadFile("server.log"))
		}
		ts.Setenv("PARLEY_URL", url)
	case <-time.After(15 * time.Second):
		ts.Fatalf("the server does not listen; its log:\n%s", ts.ReadFile("server.log"))
	}
}
