package kit

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Binary is the program under test.
var Binary string

// Scratch is a directory that is removed after the run.
var Scratch string

// Main is the TestMain of every package of the black box.
func Main(m *testing.M) {
	flag.Parse()
	allowWaiting()
	if *atFollower {
		Variants, clusters = Variants[:1], nil
	}
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
	Scratch = dir
	if Binary, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := max(m.Run(), checkSeenAnswers())
	for _, v := range begun.all {
		if err := v.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", v, err)
			code = 1
		}
	}
	return code
}

func build(dir string) (string, error) {
	if named := os.Getenv("PARLEY_BIN"); named != "" {
		return filepath.Abs(named)
	}
	return BuildIn(".", filepath.Join(dir, "parley"))
}

// BuildIn builds the program of which the source is in a directory.
func BuildIn(dir, out string, flags ...string) (string, error) {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-ldflags", "-s -w", "-o", out}, flags, []string{"parley/cmd/parley"})...)
	cmd.Env, cmd.Dir = append(os.Environ(), "CGO_ENABLED=0"), dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the binary does not build: %w\n%s", err, said)
	}
	return out, nil
}

// Variant is a server that most tests share. Each test registers its own organizations.
type Variant struct {
	Journals string
	flags    func() ([]string, error)
	// count is how many nodes serve the requests in turn, 0 for a server on its own.
	count  int
	once   sync.Once
	dir    string
	Server *Server
	nodes  *Nodes
	err    error
}

// Variants are the servers of Each.
var Variants = NewVariants(nil)

// NewVariants returns servers with one journal and with four, with further flags.
func NewVariants(flags func() ([]string, error)) []*Variant {
	return []*Variant{{Journals: "1", flags: flags}, {Journals: "4", flags: flags}}
}

// begun are the variants that a test used: they are stopped after all tests.
var begun struct {
	mu  sync.Mutex
	all []*Variant
}

// clusters are what only tests on a shared server use besides.
var clusters = []*Variant{{count: 3}}

// String names the variant in names of subtests.
func (v *Variant) String() string {
	if v.count > 0 {
		return fmt.Sprintf("%d nodes", v.count)
	}
	if *atFollower {
		return "follower"
	}
	return "journals=" + v.Journals
}

// Shared returns the server, which the first call starts.
func (v *Variant) Shared(t *testing.T) *Server {
	t.Helper()
	v.once.Do(func() {
		begun.mu.Lock()
		begun.all = append(begun.all, v)
		begun.mu.Unlock()
		if v.dir, v.err = os.MkdirTemp("", "parley-shared-"); v.err != nil {
			return
		}
		flags := []string{"--poll-limit", "0/0"}
		if v.count == 0 {
			flags = append(flags, "--journals", v.Journals)
		}
		if v.flags != nil {
			more, err := v.flags()
			if v.err = err; err != nil {
				return
			}
			flags = append(flags, more...)
		}
		if v.count > 0 {
			if v.nodes, v.err = OpenNodes(v.dir, v.count, flags...); v.err == nil {
				v.Server = v.nodes.Server()
			}
			return
		}
		if *atFollower {
			v.Server, v.nodes, v.err = openFollower(v.dir, flags...)
			return
		}
		v.Server, v.err = (&Server{Dir: v.dir, Flags: flags}).Launched("127.0.0.1:0")
	})
	if v.err != nil {
		t.Fatal(v.err)
	}
	return v.Server
}

// stop shuts the shared server down: after all tests it must still exit in order and must
// never have panicked.
func (v *Variant) stop() error {
	if v.Server == nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(v.dir) }()
	if v.nodes != nil {
		return v.nodes.Stop()
	}
	if err := errors.Join(v.Server.Drain(15*time.Second), v.Server.Log.Trouble()); err != nil {
		return fmt.Errorf("%w\n%s", err, v.Server.Log.Tail())
	}
	return nil
}

// Each runs a test on all shared servers, in parallel with others.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Parallel()
	RunOn(t, slices.Concat(Variants, clusters), test)
}

// RunOn runs a test on some shared servers, in parallel with others.
func RunOn(t *testing.T, on []*Variant, test func(t *testing.T, s *Server)) {
	t.Helper()
	if *atFollower {
		on = on[:1]
	}
	for _, v := range on {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v.Shared(t))
		})
	}
}

// OnOneNode is Each without clusters: what the test is about is kept by each node for itself.
func OnOneNode(t *testing.T, _ string, test func(t *testing.T, s *Server)) {
	t.Parallel()
	RunOn(t, Variants, test)
}

// Alone runs a test that loads the server, with no other test in parallel.
func Alone(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, v := range Variants {
		t.Run(v.String(), func(t *testing.T) { test(t, v.Shared(t)) })
	}
}

// Own runs a test that starts its own servers.
func Own(t *testing.T, test func(t *testing.T, journals string)) {
	t.Parallel()
	for _, v := range Variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v.Journals)
		})
	}
}

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
