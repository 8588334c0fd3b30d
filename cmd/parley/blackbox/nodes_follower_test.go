package blackbox

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var atFollower = flag.Bool("at.follower", false, "start three nodes instead of one server, and make each request at one that does not lead")

// RunAtFollower runs stories of one server again, on three nodes, with each request at a node
// that does not lead: what a node remembers beside the journal must be right there too.
func RunAtFollower(t *testing.T, stories ...string) {
	t.Helper()
	OneServerOnly(t, "it runs them itself")
	t.Parallel()
	self, err := os.Executable()
	Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-at.follower", "-test.v", "-test.timeout", "10m", "-test.parallel", "4", "-test.run", "^("+strings.Join(stories, "|")+")$")
	cmd.Env = append(os.Environ(), "PARLEY_BIN="+Binary)
	said, err := cmd.CombinedOutput()
	if passed := strings.Count(string(said), "\n--- PASS"); err != nil || passed < len(stories) || strings.Contains(string(said), "--- SKIP") {
		t.Errorf("%d stories passed: %v\n%s", passed, err, said)
	}
}

// OneServerOnly skips a test with -at.follower.
func OneServerOnly(t testing.TB, why string) {
	t.Helper()
	if *atFollower {
		t.Skip("not at a follower: " + why)
	}
}

// openFollower starts three nodes with the flags of a server, and returns the second one. Its
// address is their base address, so that a test uses it as a server on its own.
func openFollower(dir string, flags ...string) (*Server, *Nodes, error) {
	address, err := UnusedAddress()
	if err != nil {
		return nil, nil, err
	}
	flags, admin := cut(flags, "--admin-listen")
	flags, _ = cut(flags, "--journals") // nodes have one
	n, err := openNodesAt(func(i int) (Place, error) {
		at, err := LocalPlace(dir)(i)
		if i == 1 {
			at.Listen, at.Admin = address, cmp.Or(admin, at.Admin)
		}
		return at, err
	}, 3, append([]string{"--base-url", "http://" + address}, flags...)...)
	if err != nil {
		return nil, nil, err
	}
	s := n.Node(1)
	for range 20 { // on a busy machine it may lead
		if n.Leader() != s {
			return s, n, nil
		}
		_, err = s.Operate("cluster", "balance", "--to", NodeName(0))
	}
	return nil, nil, errors.Join(errors.New("the second node goes on leading"), err)
}

// cut removes a flag, and returns its value.
func cut(flags []string, name string) (rest []string, value string) {
	i := slices.Index(flags, name)
	if i < 0 {
		return flags, ""
	}
	return slices.Concat(flags[:i], flags[i+2:]), flags[i+1]
}

// startFollower runs three nodes for one test, and returns one that does not lead.
func startFollower(t testing.TB, flags ...string) *Server {
	t.Helper()
	s, n, err := openFollower(t.TempDir(), flags...)
	Must(t, err)
	t.Cleanup(func() {
		for _, node := range n.All {
			node.End(t)
		}
		_ = n.proxy.Close()
	})
	return s
}
