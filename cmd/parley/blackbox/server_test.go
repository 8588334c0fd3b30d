package blackbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const announcement = "parley: listening on http://"

// server is one running process of the binary.
type server struct {
	base  string // http://ADDR
	addr  string
	dir   string
	flags []string
	// binary is the program; "" is the one under test.
	binary string
	// nodes, if set, serve in turn at the address: the process is the first of them.
	nodes *nodes
	// joins are flags that only the first start gets.
	joins []string
	// through, if not empty, is a program that starts the binary, with the arguments that
	// precede it.
	through []string
	// enter, if set, calls a function in the thread that is to start the process.
	enter func(func() error) error
	log   *output
	// patience is how long the process may take until it listens; 0 is 20 s.
	patience time.Duration

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // the result of Wait, set before exited is closed
}

// output collects the output of a process and signals when it announces its address.
type output struct {
	mu        sync.Mutex
	said      bytes.Buffer
	announced chan string
	once      sync.Once
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said.Write(b)
	for line := range strings.Lines(o.said.String()) {
		addr, ok := strings.CutPrefix(line, announcement)
		if ok && strings.HasSuffix(addr, "\n") {
			o.once.Do(func() { o.announced <- strings.TrimSpace(addr) })
		}
	}
	return len(b), nil
}

// stderr is the standard error of the process, which has no announcement.
type stderr struct{ to *output }

func (e stderr) Write(b []byte) (int, error) {
	e.to.mu.Lock()
	defer e.to.mu.Unlock()
	return e.to.said.Write(b)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}

// trouble returns an error if the output reports a defect, whatever the server answered.
func (o *output) trouble() error {
	said := o.text()
	for _, word := range []string{"panic", "fatal error", "goroutine 1 [", "DATA RACE"} {
		if strings.Contains(said, word) {
			return fmt.Errorf("the log contains: %s", word)
		}
	}
	return nil
}

func (o *output) tail() string {
	said := o.text()
	if len(said) > 4000 {
		said = "…" + said[len(said)-4000:]
	}
	return "--- the server said:\n" + said
}

// launch starts `parley serve --dev` and waits until it listens.
func launch(listen, dir string, flags ...string) (*server, error) {
	return (&server{dir: dir, flags: flags}).launched(listen)
}

// launched starts the process and waits until it listens.
func (s *server) launched(listen string) (*server, error) {
	if err := s.begin(listen); err != nil {
		return nil, err
	}
	select {
	case addr := <-s.log.announced:
		s.addr, s.base = addr, "http://"+addr
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("the server ended before it listened: %w\n%s", s.err, s.log.tail())
	case <-time.After(cmp.Or(s.patience, 20*time.Second)):
		s.kill()
		return nil, fmt.Errorf("the server did not announce itself\n%s", s.log.tail())
	}
}

// begin starts the process without waiting.
func (s *server) begin(listen string) error {
	args := append([]string{"serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data", s.dir, "--dev"}, slices.Concat(s.joins, s.flags)...)
	s.joins = nil
	whole := slices.Concat(s.through, []string{cmp.Or(s.binary, binary)}, args)
	cmd := exec.Command(whole[0], whole[1:]...)
	cmd.Env = cleanEnvironment()
	cmd.SysProcAttr = dieWithParent()
	s.log = &output{announced: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = s.log, stderr{s.log}
	s.cmd, s.exited = cmd, make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that made the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := cmd.Start
		if s.enter != nil {
			start = func() error { return s.enter(cmd.Start) }
		}
		err := start()
		started <- err
		if err == nil {
			s.err = cmd.Wait()
			close(s.exited)
		}
	}()
	return <-started
}

func cleanEnvironment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PARLEY_") {
			env = append(env, e)
		}
	}
	return env
}

// start runs a server for one test, or with -at.follower three nodes, and returns one that does
// not lead.
func start(t testing.TB, flags ...string) *server {
	t.Helper()
	if *atFollower {
		return startFollower(t, flags...)
	}
	return startThrough(t, nil, flags...)
}

// startThrough runs a server that another program starts.
func startThrough(t testing.TB, through []string, flags ...string) *server {
	t.Helper()
	oneServerOnly(t, "another program starts it")
	s, err := (&server{dir: t.TempDir(), flags: flags, through: through}).launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(t) })
	return s
}

// end kills the process, which must have reported no defect.
func (s *server) end(t testing.TB) {
	t.Helper()
	s.kill()
	if err := s.log.trouble(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(s.log.tail())
	}
}

// adminToken returns the token for the admin address.
func (s *server) adminToken(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// kill sends SIGKILL: the process cannot clean up.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// restart runs the binary again on the same data and at the same address, so that tokens,
// whose issuer is the base address, stay valid.
func (s *server) restart(t testing.TB) {
	t.Helper()
	if err := s.again(); err != nil {
		t.Fatal(err)
	}
}

// again starts a process that has ended, at its former address.
func (s *server) again() error {
	_, err := s.launched(s.addr)
	client.CloseIdleConnections()
	return err
}

// drain sends SIGTERM; the process must exit with code 0.
func (s *server) drain(within time.Duration) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(errors.New("the server was already gone"), err)
	}
	select {
	case <-s.exited:
		return s.err
	case <-time.After(within):
		s.kill()
		return fmt.Errorf("no exit within %v after SIGTERM", within)
	}
}

// fails starts a process that must refuse to run, and returns its output.
func fails(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	s := &server{dir: dir, flags: flags}
	if err := s.begin("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(10 * time.Second):
		s.kill()
		t.Fatalf("the process did not exit\n%s", s.log.tail())
	}
	if s.err == nil {
		t.Fatalf("the process exited with code 0\n%s", s.log.tail())
	}
	return s.log.text()
}
