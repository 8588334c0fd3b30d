package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestLogOfStartAndStop: the log states the version and addresses, unsafe settings, and
// the shutdown. With JSON, standard error has nothing else, even if the start fails.
func TestLogOfStartAndStop(t *testing.T) {
	kit.OneServerOnly(t, "it judges the whole log")
	s := kit.Start(t, "--log-format", "json", "--hints", "--base-url", "http://parley.example")
	if err := s.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	logged := jsonLines(t, s.Log.Text())
	started := logged["the server has started"]
	for _, name := range []string{"version", "data", "listen", "admin_listen", "quota_profile"} {
		if kit.Text(started, name) == "" {
			t.Errorf("the log of the start has no %s: %v", name, started)
		}
	}
	if started["data"] != s.Dir || started["listen"] != s.Addr || logged["the server is stopping"] == nil || logged["the server has stopped"] == nil {
		t.Errorf("the log: %v", logged)
	}
	flags := map[any]bool{}
	for _, line := range logged {
		if line["level"] == "WARN" {
			flags[line["flag"]] = true
		}
	}
	if len(flags) != 3 || !flags["--base-url"] || !flags["--dev"] || !flags["--quota-profile"] {
		t.Errorf("the warnings are %v", flags)
	}
	said := kit.Fails(t, s.Dir, "--log-format", "json", "--journals", "9")
	if ended := jsonLines(t, said)["the server ended"]; !strings.Contains(kit.Text(ended, "error"), "journals") || ended["exit"] != 1.0 {
		t.Errorf("a start that fails: %s", said)
	}
}

// jsonLines returns the lines of a log by message. The announcement is not among them,
// because it goes to standard output.
func jsonLines(t *testing.T, log string) map[string]obj {
	t.Helper()
	lines := map[string]obj{}
	for line := range strings.Lines(log) {
		var o obj
		if strings.HasPrefix(line, kit.Announcement) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Errorf("not JSON: %s", line)
		}
		lines[kit.Text(o, "msg")] = o
	}
	return lines
}
