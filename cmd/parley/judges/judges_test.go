// Package judges tests the real binary against independent implementations of the
// standards it supports, which its README lists, and its pages with axe-core in Chromium.
// Each judge is a script or program that prints what it checked.
package judges

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	buildWait   = 3 * time.Minute
	startWait   = 20 * time.Second
	judgeWait   = time.Minute
	installWait = 2 * time.Minute
	drainWait   = 10 * time.Second
)

// built is the binary under test.
var built func() (string, error)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "parley-judges-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = sync.OnceValues(func() (string, error) { return build(dir) })
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func TestJudges(t *testing.T) {
	needNode(t)
	base := serve(t)
	for _, judge := range []string{"jose", "oauth", "webhook", "openapi", "receipt", "mlspackages"} {
		t.Run(judge, func(t *testing.T) { t.Log(node(t, "", judge+".mjs", base)) })
	}
}

// TestStreamJudges: four major versions of the eventsource package, at once because they
// mostly wait before they connect again.
func TestStreamJudges(t *testing.T) {
	needNode(t)
	base := serve(t)
	for _, version := range []string{"2", "3", "4", "5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			t.Log(node(t, "", "stream.mjs", base, version))
		})
	}
}

// needNode makes sure that the locked packages are installed, the Node.js that runs the
// judges among them. Without npm, or on a system that this Node.js does not exist for, the
// test is skipped with a prominent notice; in CI it fails.
func needNode(t *testing.T) {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("npm"); err != nil {
		missing = "npm"
	} else if install(t, "."); !exists(nodePath(t)) {
		missing = "node@24.21.0 for " + runtime.GOOS + " on " + runtime.GOARCH
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI checks everything, and there is no %s", missing)
	}
	t.Skipf("!! NOT CHECKED: JOSE, OAuth, SSE, HPKE, webhooks, DIDs, WebFinger, A2A, OpenAPI and pages against npm packages: there is no %s here", missing)
}

// nodePath returns the path of the Node.js that npm installed: every judge runs on the
// version that package.json names, whatever the machine has. npm's package node only runs a
// script that installs this one; without scripts we name it ourselves, with its digest.
func nodePath(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	path, err := filepath.Abs("node_modules/node-" + runtime.GOOS + "-" + cmp.Or(arch, runtime.GOARCH) + "/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// install installs the locked packages of a directory.
func install(t *testing.T, dir string) {
	t.Helper()
	if installed(dir) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), installWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// installed reports whether a directory's packages were installed after its lock file
// last changed.
func installed(dir string) bool {
	locked, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return false
	}
	here, err := os.Stat(filepath.Join(dir, "node_modules/.package-lock.json"))
	return err == nil && !here.ModTime().Before(locked.ModTime())
}

// node runs a judge with stdin and returns its output. A judge that finds a fault exits
// with an error.
func node(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	return nodeWith(t, nil, stdin, args...)
}

// nodeWith is node with further environment variables.
func nodeWith(t *testing.T, environment []string, stdin string, args ...string) string {
	t.Helper()
	return nodeFor(t, judgeWait, environment, stdin, args...)
}

// nodeFor is nodeWith for a judge that may take so long.
func nodeFor(t *testing.T, wait time.Duration, environment []string, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, nodePath(t), args...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), append(os.Environ(), environment...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// serve starts a server with these flags as serveBinary does and returns its address.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	url, _ := serveBinary(t, flags...)
	return url
}

// build builds the binary into dir, unless PARLEY_BIN names a built one.
func build(dir string) (string, error) {
	if named := os.Getenv("PARLEY_BIN"); named != "" {
		return filepath.Abs(named)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildWait)
	defer cancel()
	out := filepath.Join(dir, "parley")
	if said, err := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", out, "parley/cmd/parley").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return out, nil
}

// serveBinary starts the binary on free ports with a fresh data directory and these
// flags, and returns its address and the binary. At the end of the test the server is
// stopped with SIGTERM and must exit without an error.
func serveBinary(t *testing.T, flags ...string) (url, binary string) {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")}
	cmd := exec.Command(binary, append(args, flags...)...)
	cmd.Env = withoutSettings(os.Environ())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "parley: listening on "); ok {
				address <- url
			}
		}
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited already: Wait reports how
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server exited with %v\n%s", err, stderr.String())
			}
		case <-time.After(drainWait):
			_ = cmd.Process.Kill()
			<-ended
			t.Errorf("the server had not exited %v after SIGTERM", drainWait)
		}
	})
	select {
	case url = <-address:
		return url, binary
	case err := <-ended:
		ended <- err
		t.Fatalf("the server exited at once: %v\n%s", err, stderr.String())
	case <-time.After(startWait):
		t.Fatalf("the server did not listen within %v", startWait)
	}
	return "", ""
}

// withoutSettings removes a developer's own settings from the server's environment.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "PARLEY_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
