package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/bench/target"
)

// built is the folder with parley and parley-bench, as users have them.
var built string

func TestMain(m *testing.M) {
	code, err := withBuilt(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func withBuilt(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "parley-bench-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built = dir
	modules := map[string]string{"../../..": "./cmd/parley", "../..": "./cmd/parley-bench"}
	if named := os.Getenv("PARLEY_BIN"); named != "" { // it is already built; a copy finds parley-bench beside itself
		text, err := os.ReadFile(named)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "parley"), text, 0o755)
		}
		if err != nil {
			return 1, err
		}
		delete(modules, "../../..")
	}
	for module, pkg := range modules {
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, pkg)
		build.Dir = module
		if said, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w\n%s", pkg, err, said)
		}
	}
	return m.Run(), nil
}

// parley runs parley with the arguments. It finds parley-bench beside itself.
func parley(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(built, "parley"), args...)
	cmd.Env = childEnvironment()
	return cmd
}

// TestUsage runs the scripts of testdata.
func TestUsage(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", built+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and requires its exit code: `exits 2 parley bench nonsense`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("%q exits %d, want %s", args[1:], got, args[0])
	}
}

// running starts a server that the bench did not start.
func running(t *testing.T) *target.Server {
	t.Helper()
	s := &target.Server{Label: "parley", Binary: filepath.Join(built, "parley"), Dir: t.TempDir(), Env: childEnvironment()}
	t.Cleanup(func() { _ = s.Kill() })
	return s
}

// measured runs the bench and returns the saved results and their path.
func measured(t *testing.T, args ...string) (benchReport, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	began := time.Now()
	said, err := parley(slices.Concat([]string{"bench"}, args, []string{"--out", out, "--dir", t.TempDir()})...).CombinedOutput()
	if err != nil {
		t.Fatalf("parley bench %v: %v\n%s", args, err, said)
	}
	t.Logf("took %v", time.Since(began))
	var report benchReport
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatalf("results.json: %v", err)
	}
	for _, name := range []string{"results.md", "results.txt"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	return report, out
}

// TestAloneItNamesWhatItNeeds runs parley-bench without parley, and parley without
// parley-bench.
func TestAloneItNamesWhatItNeeds(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"parley-bench": "--server", "parley": "make build"} {
		dir := t.TempDir()
		text, err := os.ReadFile(filepath.Join(built, program))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, program), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"send"}
		if program == "parley" {
			args = []string{"bench", "send"}
		}
		cmd := exec.Command(filepath.Join(dir, program), args...)
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "empty"), "HOME=" + dir}
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(said), want) {
			t.Errorf("%s: %v\n%s", program, err, said)
		}
	}
}
