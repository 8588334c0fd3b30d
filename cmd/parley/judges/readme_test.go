package judges

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var exchange = regexp.MustCompile("(?s)<!-- exchange:begin -->\n```bash\n(.*?)```\n<!-- exchange:end -->")

// TestReadmeExchange types what the README tells a newcomer to type. What it
// types with is no part of the project, so it may be missing even in CI.
func TestReadmeExchange(t *testing.T) {
	for _, program := range []string{"bash", "curl", "openssl", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("!! NOT CHECKED: the exchange in the README: there is no %s here", program)
		}
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script := exchange.FindSubmatch(readme)
	if script == nil {
		t.Fatal("the README has no exchange between its marks")
	}
	ctx, cancel := context.WithTimeout(t.Context(), judgeWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-uo", "pipefail", "-c", string(script[1]))
	cmd.Env = append(withoutSettings(os.Environ()), "PARLEY_URL="+serve(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"event: message", "event: status", `"status":"open"`, "sent again: 200", "SGVsbG8sIEJvYiE", "SGVsbG8sIEFsaWNlIQ"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the exchange does not show %q", want)
		}
	}
	t.Logf("%s", out)
}
