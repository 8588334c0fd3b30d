package kit

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

// Announcement precedes the address in the output of a server.
const Announcement = "parley: listening on http://"

// Server is one running process of the binary.
type Server struct {
	Base  string // http://ADDR
	Addr  string
	Dir   string
	Flags []string
	// Binary is the program; "" is the one under test.
	Binary string
	// Nodes, if set, serve in turn at the address: the process is the first of them.
	Nodes *Nodes
	// Joins are flags that only the first start gets.
	Joins []string
	// Through, if not empty, is a program that starts the binary, with the arguments that
	// precede it.
	Through []string
	// Enter, if set, calls a function in the thread that is to start the process.
	Enter func(func() error) error
	Log   *Output
	// patience is how long the process may take until it listens; 0 is 20 s.
	patience time.Duration

	Cmd    *exec.Cmd
	Exited chan struct{}
	Err    error // the result of Wait, set before exited is closed
}

// Output collects the output of a process and signals when it announces its address.
type Output struct {
	mu        sync.Mutex
	written   bytes.Buffer
	Announced chan string
	once      sync.Once
}

// Write adds what the process wrote to its standard output.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written.Write(b)
	for line := range strings.Lines(o.written.String()) {
		addr, ok := strings.CutPrefix(line, Announcement)
		if ok && strings.HasSuffix(addr, "\n") {
			o.once.Do(func() { o.Announced <- strings.TrimSpace(addr) })
		}
	}
	return len(b), nil
}

// stderr is the standard error of the process, which has no announcement.
type stderr struct{ to *Output }

func (e stderr) Write(b []byte) (int, error) {
	e.to.mu.Lock()
	defer e.to.mu.Unlock()
	return e.to.written.Write(b)
}

// Text returns the output so far.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.String()
}

// Trouble returns an error if the output reports a defect, whatever the server answered.
func (o *Output) Trouble() error {
	said := o.Text()
	for _, word := range []string{"panic", "fatal error", "goroutine 1 [", "DATA RACE"} {
		if strings.Contains(said, word) {
			return fmt.Errorf("the log contains: %s", word)
		}
	}
	return nil
}

// Tail returns the end of the output for a failure message.
func (o *Output) Tail() string {
	said := o.Text()
	if len(said) > 4000 {
		said = "…" + said[len(said)-4000:]
	}
	return "--- the server said:\n" + said
}

// Launch starts `parley serve --dev` and waits until it listens.
func Launch(listen, dir string, flags ...string) (*Server, error) {
	return (&Server{Dir: dir, Flags: flags}).Launched(listen)
}

// Launched starts the process and waits until it listens.
func (s *Server) Launched(listen string) (*Server, error) {
	if err := s.Begin(listen); err != nil {
		return nil, err
	}
	select {
	case addr := <-s.Log.Announced:
		s.Addr, s.Base = addr, "http://"+addr
		return s, nil
	case <-s.Exited:
		return nil, fmt.Errorf("the server ended before it listened: %w\n%s", s.Err, s.Log.Tail())
	case <-time.After(cmp.Or(s.patience, 20*time.Second)):
		s.Kill()
		return nil, fmt.Errorf("the server did not announce itself\n%s", s.Log.Tail())
	}
}

// Begin starts the process without waiting.
func (s *Server) Begin(listen string) error {
	args := append([]string{"serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data", s.Dir, "--dev"}, slices.Concat(s.Joins, s.Flags)...)
	s.Joins = nil
	whole := slices.Concat(s.Through, []string{cmp.Or(s.Binary, Binary)}, args)
	cmd := exec.Command(whole[0], whole[1:]...)
	cmd.Env = CleanEnvironment()
	cmd.SysProcAttr = DieWithParent()
	s.Log = &Output{Announced: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = s.Log, stderr{s.Log}
	s.Cmd, s.Exited = cmd, make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that made the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := cmd.Start
		if s.Enter != nil {
			start = func() error { return s.Enter(cmd.Start) }
		}
		err := start()
		started <- err
		if err == nil {
			s.Err = cmd.Wait()
			close(s.Exited)
		}
	}()
	return <-started
}

// CleanEnvironment is the environment without settings of a server.
func CleanEnvironment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PARLEY_") {
			env = append(env, e)
		}
	}
	return env
}

// Start runs a server for one test, or with -at.follower three nodes, and returns one that does
// not lead.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	if *atFollower {
		return startFollower(t, flags...)
	}
	return StartThrough(t, nil, flags...)
}

// StartThrough runs a server that another program starts.
func StartThrough(t testing.TB, through []string, flags ...string) *Server {
	t.Helper()
	OneServerOnly(t, "another program starts it")
	s, err := (&Server{Dir: t.TempDir(), Flags: flags, Through: through}).Launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.End(t) })
	return s
}

// End kills the process, which must have reported no defect.
func (s *Server) End(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.Log.Trouble(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(s.Log.Tail())
	}
}

// AdminToken returns the token for the admin address.
func (s *Server) AdminToken(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Kill sends SIGKILL: the process cannot clean up.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill()
	<-s.Exited
}

// Restart runs the binary again on the same data and at the same address, so that tokens,
// whose issuer is the base address, stay valid.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Again(); err != nil {
		t.Fatal(err)
	}
}

// Again starts a process that has ended, at its former address.
func (s *Server) Again() error {
	_, err := s.Launched(s.Addr)
	Client.CloseIdleConnections()
	return err
}

// Drain sends SIGTERM; the process must exit with code 0.
func (s *Server) Drain(within time.Duration) error {
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(errors.New("the server was already gone"), err)
	}
	select {
	case <-s.Exited:
		return s.Err
	case <-time.After(within):
		s.Kill()
		return fmt.Errorf("no exit within %v after SIGTERM", within)
	}
}

// Fails starts a process that must refuse to run, and returns its output.
func Fails(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	s := &Server{Dir: dir, Flags: flags}
	if err := s.Begin("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Exited:
	case <-time.After(10 * time.Second):
		s.Kill()
		t.Fatalf("the process did not exit\n%s", s.Log.Tail())
	}
	if s.Err == nil {
		t.Fatalf("the process exited with code 0\n%s", s.Log.Tail())
	}
	return s.Log.Text()
}
