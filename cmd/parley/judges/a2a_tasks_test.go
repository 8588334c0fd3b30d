package judges

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const echoWait = 20 * time.Second

// TestA2ATaskJudges: independent clients of A2A call an agent that `parley a2a echo`
// serves.
func TestA2ATaskJudges(t *testing.T) {
	needNode(t)
	base, binary := serveBinary(t)
	handle := echo(t, base, binary)
	token := ""
	for _, sdk := range []string{"@a2a-js/sdk", "a2a-sdk-first"} {
		t.Run(filepath.Base(sdk), func(t *testing.T) {
			told, caller, found := strings.Cut(node(t, "", "a2a/tasks.mjs", base, handle, sdk), "\ntoken ")
			if !found {
				t.Fatalf("no token: %s", told)
			}
			token = strings.TrimSpace(caller)
			t.Log(told)
			t.Log(node(t, "", "a2a/push.mjs", base, handle, sdk))
		})
	}
	t.Run("go", func(t *testing.T) { t.Log(goClient(t, "-tasks", token, base+"/a2a/"+handle)) })
}

// echo has `parley a2a echo` answer for an agent of a new organization, until the test
// ends, and returns the agent's handle.
func echo(t *testing.T, base, binary string) (handle string) {
	t.Helper()
	environment := append(withoutSettings(os.Environ()), "PARLEY_PROFILE="+filepath.Join(t.TempDir(), "profile"), "PARLEY_URL="+base)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Env = environment
		return cmd
	}
	for _, args := range [][]string{{"register", "echoes", "--email", "ops@echoes.example"}, {"agent", "create", "echo"}} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("parley %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cmd := command("a2a", "echo")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "answering the tasks of "); ok {
				handle, _, _ := strings.Cut(text, " ")
				told <- handle
			} else {
				t.Logf("a2a echo: %s", lines.Text())
			}
		}
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited already: Wait reports how
		if err := <-ended; err != nil {
			t.Errorf("a2a echo exited with %v", err)
		}
	})
	select {
	case handle = <-told:
	case err := <-ended:
		ended <- err
		t.Fatalf("a2a echo exited at once: %v", err)
	case <-time.After(echoWait):
		t.Fatalf("a2a echo did not connect within %v", echoWait)
	}
	return handle
}
