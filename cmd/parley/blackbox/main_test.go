package blackbox

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// binary is the program under test.
var binary string

// scratch is a directory that is removed after the run.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	allowWaiting()
	if *atFollower {
		variants, clusters = variants[:1], nil
	}
	os.Exit(run(m))
}

// allowWaiting lets more tests run at once than there are cores, because most of them
// wait for the server.
func allowWaiting() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "6")
	}
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-blackbox-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch = dir
	if binary, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := max(m.Run(), checkSeenAnswers())
	for _, v := range begun.all {
		if err := v.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", v, err)
			code = 1
		}
	}
	return code
}

func build(dir string) (string, error) {
	if named := os.Getenv("PARLEY_BIN"); named != "" {
		return filepath.Abs(named)
	}
	return buildIn(".", filepath.Join(dir, "parley"))
}

// buildIn builds the program of which the source is in a directory.
func buildIn(dir, out string, flags ...string) (string, error) {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-ldflags", "-s -w", "-o", out}, flags, []string{"parley/cmd/parley"})...)
	cmd.Env, cmd.Dir = append(os.Environ(), "CGO_ENABLED=0"), dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the binary does not build: %w\n%s", err, said)
	}
	return out, nil
}

// variant is a server that most tests share. Each test registers its own organizations.
type variant struct {
	journals string
	flags    func() ([]string, error)
	// count is how many nodes serve the requests in turn, 0 for a server on its own.
	count  int
	once   sync.Once
	dir    string
	server *server
	nodes  *nodes
	err    error
}

var variants = newVariants(nil)

// newVariants returns servers with one journal and with four, with further flags.
func newVariants(flags func() ([]string, error)) []*variant {
	return []*variant{{journals: "1", flags: flags}, {journals: "4", flags: flags}}
}

// begun are the variants that a test used: they are stopped after all tests.
var begun struct {
	mu  sync.Mutex
	all []*variant
}

// clusters are what only tests on a shared server use besides.
var clusters = []*variant{{count: 3}}

func (v *variant) String() string {
	if v.count > 0 {
		return fmt.Sprintf("%d nodes", v.count)
	}
	if *atFollower {
		return "follower"
	}
	return "journals=" + v.journals
}

func (v *variant) shared(t *testing.T) *server {
	t.Helper()
	v.once.Do(func() {
		begun.mu.Lock()
		begun.all = append(begun.all, v)
		begun.mu.Unlock()
		if v.dir, v.err = os.MkdirTemp("", "parley-shared-"); v.err != nil {
			return
		}
		flags := []string{"--poll-limit", "0/0"}
		if v.count == 0 {
			flags = append(flags, "--journals", v.journals)
		}
		if v.flags != nil {
			more, err := v.flags()
			if v.err = err; err != nil {
				return
			}
			flags = append(flags, more...)
		}
		if v.count > 0 {
			if v.nodes, v.err = openNodes(v.dir, v.count, flags...); v.err == nil {
				v.server = v.nodes.server()
			}
			return
		}
		if *atFollower {
			v.server, v.nodes, v.err = openFollower(v.dir, flags...)
			return
		}
		v.server, v.err = (&server{dir: v.dir, flags: flags}).launched("127.0.0.1:0")
	})
	if v.err != nil {
		t.Fatal(v.err)
	}
	return v.server
}

// stop shuts the shared server down: after all tests it must still exit in order and must
// never have panicked.
func (v *variant) stop() error {
	if v.server == nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(v.dir) }()
	if v.nodes != nil {
		return v.nodes.stop()
	}
	if err := errors.Join(v.server.drain(15*time.Second), v.server.log.trouble()); err != nil {
		return fmt.Errorf("%w\n%s", err, v.server.log.tail())
	}
	return nil
}

// each runs a test on all shared servers, in parallel with others.
func each(t *testing.T, test func(t *testing.T, s *server)) {
	t.Parallel()
	runOn(t, slices.Concat(variants, clusters), test)
}

// runOn runs a test on some shared servers, in parallel with others.
func runOn(t *testing.T, on []*variant, test func(t *testing.T, s *server)) {
	t.Helper()
	if *atFollower {
		on = on[:1]
	}
	for _, v := range on {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v.shared(t))
		})
	}
}

// onOneNode is each without clusters: what the test is about is kept by each node for itself.
func onOneNode(t *testing.T, _ string, test func(t *testing.T, s *server)) {
	t.Parallel()
	runOn(t, variants, test)
}

// alone runs a test that loads the server, with no other test in parallel.
func alone(t *testing.T, test func(t *testing.T, s *server)) {
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) { test(t, v.shared(t)) })
	}
}

// own runs a test that starts its own servers.
func own(t *testing.T, test func(t *testing.T, journals string)) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v.journals)
		})
	}
}
