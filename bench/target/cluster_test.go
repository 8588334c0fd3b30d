package target

import (
	"strings"
	"testing"
)

// TestLeaderIn: the leader is found by the letter that is its name, with its term.
func TestLeaderIn(t *testing.T) {
	groups := `,"groups":[{"group":0,"term":7}]}`
	for status, want := range map[string]int{
		`{"nodes":[{"name":"a","leads":[]},{"name":"c","leads":[0]}]` + groups:     2,
		`{"nodes":[{"name":"a"},{"name":"b"}]` + groups:                            -1,
		`{"nodes":[{"name":"a node of others","leads":[0]},{"name":"b"}]` + groups: -1,
		`{"nodes":[{"name":"a","leads":[0]}],"groups":[]}`:                         -1,
		"": -1,
	} {
		got, term := leaderIn(status)
		if got != want || got >= 0 && term != 7 {
			t.Errorf("%s: %d in term %d, want %d", status, got, term, want)
		}
	}
}

// TestConfigurationNamesEveryNode: haproxy asks all of them, and at least as often for another
// one as there are nodes.
func TestConfigurationNamesEveryNode(t *testing.T) {
	b := &balancer{address: "127.0.0.1:1"}
	text := string(b.configuration([]string{"127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"}))
	for _, want := range []string{"bind 127.0.0.1:1\n", "server a 127.0.0.1:2\n", "server c 127.0.0.1:4\n", "retries 3\n", "GET /readyz\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "leads") {
		t.Errorf("it asks who leads:\n%s", text)
	}
	b.leaderFirst = true
	text = string(b.configuration([]string{"127.0.0.1:2", "127.0.0.1:3"}))
	for _, want := range []string{"use-server b if { srv_is_up(leads/b) }\n", "GET /readyz?leads=true\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
