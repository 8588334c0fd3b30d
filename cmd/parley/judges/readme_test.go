package judges

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExchangeInCurl runs the script of docs/api.md. The programs that it calls are not
// part of the project, so they may be missing even in CI.
func TestExchangeInCurl(t *testing.T) {
	for _, program := range []string{"bash", "curl", "openssl", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("!! NOT CHECKED: the exchange in docs/api.md: there is no %s here", program)
		}
	}
	out := runScript(t, scriptOf(t, "docs/api.md", "exchange"), t.TempDir(), "PARLEY_URL="+serve(t))
	wantIn(t, out, "event: message", "event: status", `"status":"open"`, "sent again: 200", "SGVsbG8sIEJvYiE", "SGVsbG8sIEFsaWNlIQ")
}

// TestReadmeCommands runs the commands of the README as written, except that it
// fills in the ids which the reader copies from the output before.
func TestReadmeCommands(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("!! NOT CHECKED: the commands in the README: there is no bash here")
	}
	url, binary := serveBinary(t)
	home := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(home, "parley")); err != nil {
		t.Fatal(err)
	}
	firstID := func(command string) string {
		return `$(./parley ` + command + ` --json | grep -o '"id":"[^"]*"' | head -n 1 | cut -d '"' -f 4)`
	}
	ids := strings.NewReplacer("MESSAGE_ID", firstID("inbox"),
		"GROUP_ID", firstID("group list --profile ~/.parley/acme"), "REQUEST_ID", firstID("group requests board -a alice"))
	script := "set -e\ntrap 'kill $(jobs -p)' EXIT\n" + ids.Replace(scriptOf(t, "README.md", "talk")+scriptOf(t, "README.md", "group"))
	out := runScript(t, script, home, "PARLEY_URL="+url, "HOME="+home)
	wantIn(t, out, "Hello, Bob!", "Hello, Alice!", "verified", "the request is approved", "Welcome, Bob.")
}

// scriptOf returns the bash block of a page, given from the root of the repository,
// between the comments that name it.
func scriptOf(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- " + name + ":begin -->\n```bash\n(.*?)```\n<!-- " + name + ":end -->").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no block %q", page, name)
	}
	return string(block[1])
}

// runScript runs a bash script in dir and returns its output. The test fails if the
// script does.
func runScript(t *testing.T, script, dir string, settings ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), judgeWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-uo", "pipefail", "-c", script)
	cmd.Dir, cmd.WaitDelay = dir, drainWait // a background program may keep the output open
	cmd.Env = append(withoutSettings(os.Environ()), settings...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return string(out)
}

func wantIn(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not show %q", want)
		}
	}
}
