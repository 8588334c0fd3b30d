package judges

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// goWait bounds the build of the Go client, downloads included.
const goWait = 3 * time.Minute

// TestA2AJudges: independent clients accept the A2A cards of agents.
func TestA2AJudges(t *testing.T) {
	needNode(t)
	base := serve(t)
	out := node(t, "", "a2a/card.mjs", base)
	told, handles, found := strings.Cut(out, "\nagents ")
	if !found {
		t.Fatalf("no agents: %s", out)
	}
	t.Log(told)
	t.Run("go", func(t *testing.T) { t.Log(goClient(t, append([]string{base}, strings.Fields(handles)...)...)) })
}

// goClient runs the client in a2a/testdata/client and returns its output. If its modules
// can be neither found nor downloaded, the test is skipped with a prominent notice; in CI
// it fails.
func goClient(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), goWait)
	defer cancel()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = "a2a/testdata/client"
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("mod", "download"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI checks everything, and the modules of the A2A client cannot be downloaded: %v\n%s", err, out)
		}
		t.Skipf("!! NOT CHECKED: A2A against the Go SDK of the A2A project: its modules cannot be downloaded: %v\n%s", err, out)
	}
	out, err := run(append([]string{"run", "."}, args...)...)
	if err != nil {
		t.Fatalf("the A2A client: %v\n%s", err, out)
	}
	return out
}
