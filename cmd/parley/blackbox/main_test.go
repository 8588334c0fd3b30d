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
	for _, v := range slices.Concat(variants, hooked) {
		if err := v.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "journals=%s: %v\n", v.journals, err)
			code = 1
		}
	}
	return code
}

func build(dir string) (string, error) {
	if named := os.Getenv("PARLEY_BIN"); named != "" {
		return filepath.Abs(named)
	}
	out := filepath.Join(dir, "parley")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, "parley/cmd/parley")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the binary does not build: %w\n%s", err, said)
	}
	return out, nil
}

// variant is a server that most tests share. Each test registers its own organizations.
type variant struct {
	journals string
	flags    func() ([]string, error)
	once     sync.Once
	dir      string
	server   *server
	err      error
}

var variants = []*variant{{journals: "1"}, {journals: "4"}}

func (v *variant) shared(t *testing.T) *server {
	t.Helper()
	v.once.Do(func() {
		if v.dir, v.err = os.MkdirTemp("", "parley-shared-"); v.err != nil {
			return
		}
		flags := []string{"--journals", v.journals, "--poll-limit", "0/0"}
		if v.flags != nil {
			more, err := v.flags()
			if v.err = err; err != nil {
				return
			}
			flags = append(flags, more...)
		}
		v.server, v.err = launch("127.0.0.1:0", v.dir, flags...)
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
	if err := errors.Join(v.server.drain(15*time.Second), v.server.log.trouble()); err != nil {
		return fmt.Errorf("%w\n%s", err, v.server.log.tail())
	}
	return nil
}

// each runs a test on both shared servers, in parallel with others.
func each(t *testing.T, test func(t *testing.T, s *server)) {
	t.Parallel()
	for _, v := range variants {
		t.Run("journals="+v.journals, func(t *testing.T) {
			t.Parallel()
			test(t, v.shared(t))
		})
	}
}

// alone runs a test that loads the server, with no other test in parallel.
func alone(t *testing.T, test func(t *testing.T, s *server)) {
	for _, v := range variants {
		t.Run("journals="+v.journals, func(t *testing.T) { test(t, v.shared(t)) })
	}
}

// own runs a test that starts its own servers.
func own(t *testing.T, test func(t *testing.T, journals string)) {
	t.Parallel()
	for _, v := range variants {
		t.Run("journals="+v.journals, func(t *testing.T) {
			t.Parallel()
			test(t, v.journals)
		})
	}
}
