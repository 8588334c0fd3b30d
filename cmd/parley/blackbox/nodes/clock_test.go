package nodes

import (
	endian "encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/cmd/parley/blackbox/kit/hooktest"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesClocks = flag.Int("nodes.clocks", 0, "how often TestClockJumps moves the clocks of nodes; it is left out without, because its binary takes minutes to build")

// wallClock moves the wall clock of a process.
type wallClock struct{ file string }

// set has the clock be ahead of the machine's by whole seconds.
func (c wallClock) set(ahead time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = f.WriteAt(endian.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0)
	return err
}

// through starts a process that has the clock.
func (c wallClock) through() []string { return []string{"env", "TEST_WALL_CLOCK=" + c.file} }

// buildWithWallClock builds the program with another package time, whose Now is ahead of the
// wall clock by what a file says. The program has no other way to change its clock, and
// libraries that replace the C library's are not used by a static Go binary.
func buildWithWallClock(t testing.TB) string {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	kit.Must(t, err)
	library := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	original, err := os.ReadFile(filepath.Join(library, "time.go"))
	kit.Must(t, err)
	const read = "sec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(original), read) != 1 {
		t.Fatalf("this version of Go reads the clock otherwise: time.go does not have %q once", read)
	}
	dir := t.TempDir()
	changed, added := filepath.Join(dir, "time.go"), filepath.Join("testdata", "wallclock", "ahead.go")
	kit.Must(t, os.WriteFile(changed, []byte(strings.Replace(string(original), read, read+"\tsec += secondsAhead()\n", 1)), 0o600))
	added, err = filepath.Abs(added)
	kit.Must(t, err)
	overlay, err := json.Marshal(obj{"Replace": obj{filepath.Join(library, "time.go"): changed, filepath.Join(library, "ahead.go"): added}})
	kit.Must(t, err)
	kit.Must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	began := time.Now()
	program, err := kit.BuildIn(".", filepath.Join(dir, "parley"), "-overlay", filepath.Join(dir, "overlay.json"))
	kit.Must(t, err)
	t.Logf("built in %v", time.Since(began).Round(time.Second))
	return program
}

// clockIn is the clock of a node, whose file is in a directory.
func clockIn(dir string, i int) wallClock { return wallClock{filepath.Join(dir, kit.NodeName(i))} }

// startWithClocks runs three nodes that have wall clocks of their own, whose files are in a
// directory.
func startWithClocks(t *testing.T, dir string, flags ...string) (n *kit.Nodes, clocks []wallClock) {
	program, local := buildWithWallClock(t), kit.LocalPlace(t.TempDir())
	n = kit.StartNodesAt(t, func(i int) (kit.Place, error) {
		at, err := local(i)
		clock := clockIn(dir, i)
		at.Binary, at.Through = program, clock.through()
		if err == nil && !kit.Exists(clock.file) {
			err = clock.set(0)
		}
		return at, err
	}, 3, flags...)
	for i := range 3 {
		clocks = append(clocks, clockIn(dir, i))
	}
	return n, clocks
}

// tokenSkew is by how much the clocks of nodes may differ for access tokens of one to be good
// on another.
const tokenSkew = 30 * time.Second

// jumpingNodes are three nodes whose wall clocks a test moves under load.
type jumpingNodes struct {
	*kit.Nodes
	t         *testing.T
	clocks    []wallClock
	w         *recorded.Server
	listeners []*recorded.Listener
	// from sends to to, whose webhook announces each message.
	from, to  *kit.Agent
	announced *hooktest.Hook
	sent      []obj
	// jumps is how often a clock was moved, breaks how often a term ended meanwhile, or an
	// outcome was unknown.
	jumps, breaks int
}

func startJumping(t *testing.T) *jumpingNodes {
	x := &jumpingNodes{t: t}
	flags, err := hooktest.TrustSink()
	kit.Must(t, err)
	x.Nodes, x.clocks = startWithClocks(t, t.TempDir(), flags...)
	x.w = recorded.NewServer(t, x.Server(), 2, 6)
	x.listeners = x.w.Listeners()
	x.from, x.to = kit.Pair(t, x.Server())
	x.announced = hooktest.Listening(x.to)
	return x
}

// jump has the wall clock of a node show several times in turn while clients work, and reports
// whether a term has ended meanwhile. The node gets no connections from clients if tokens are not
// good there.
func (x *jumpingNodes) jump(victim *kit.Server, ahead ...time.Duration) (ended bool) {
	x.t.Helper()
	unknown := len(x.w.Pending)
	clock, far := x.clocks[numberOf(x.Nodes, victim)], false
	for _, d := range ahead {
		far = far || d.Abs() > tokenSkew
	}
	x.Avoid(victim, far)
	kit.Client.CloseIdleConnections()
	before := x.term()
	clients := x.w.StartClients(x.listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3})
	for _, d := range ahead {
		time.Sleep(300 * time.Millisecond)
		kit.Must(x.t, clock.set(d))
		x.checkTokens(victim, d)
		if up, _ := victim.Call(x.t, "", "GET", "/health", nil).Want(200).At("uptime_s").(float64); up < 0 || up > 1800 {
			x.t.Errorf("a node whose clock is ahead by %v has been up for %v s", d, up)
		}
		x.sent = append(x.sent, x.from.Send(x.to))
	}
	time.Sleep(300 * time.Millisecond)
	x.w.Dying.Store(true)
	clients.Wait()
	x.w.Tally.Kills++
	unknown = len(x.w.Pending) - unknown
	firstSend(x.w) // a leader that is lost answers before there is another one
	ended = x.term() != before
	if x.jumps++; ended || unknown > 0 {
		x.breaks++
		x.t.Logf("%v: the outcome of %d requests is unknown, term %d ended: %v", ahead, unknown, before, ended)
	}
	return ended
}

// term is the newest term that any node knows.
func (x *jumpingNodes) term() (term uint64) {
	for i := range x.clocks {
		term = max(term, clusterStatusOf(x.t, x.Node(i)).Groups[0].Term)
	}
	return term
}

// checkTokens checks that tokens of a node with a wrong clock are good on another node, and
// those of another node on it, if the clocks differ by little.
func (x *jumpingNodes) checkTokens(victim *kit.Server, ahead time.Duration) {
	x.t.Helper()
	other := x.Node((numberOf(x.Nodes, victim) + 1) % 3)
	for _, between := range [][2]*kit.Server{{victim, other}, {other, victim}} {
		o := *x.from.Org.On(between[1])
		o.Token = between[0].Grant(x.t, o.Client, o.Secret).Want(200).Str("access_token")
		status := 200
		if ahead.Abs() > tokenSkew {
			status = 401
		}
		o.Get("/org").As("a token of node %s on node %s, whose clocks differ by %v", between[0].Flag("--node-name"), between[1].Flag("--node-name"), ahead).Want(status)
	}
}

// settle reads and checks everything, on all nodes, when their clocks are right again.
func (x *jumpingNodes) settle() {
	x.t.Helper()
	for i := range x.clocks {
		x.Avoid(x.Node(i), false)
	}
	kit.Client.CloseIdleConnections()
	x.w.RepeatUnanswered()
	x.w.ReadAll(x.listeners, true)
	x.w.Check()
	for _, p := range append(x.w.Parties(), &recorded.Participant{Agent: x.to}) {
		rows := fmt.Sprint(p.On(x.Node(0)).Everything())
		for i := 1; i < 3; i++ {
			if fmt.Sprint(p.On(x.Node(i)).Everything()) != rows {
				x.t.Errorf("node %s shows %s another inbox than node a", kit.NodeName(i), p.Name)
			}
		}
	}
	kit.Eventually(x.t, "all messages are announced", func() bool {
		times := x.announced.Announced()
		for _, m := range x.sent {
			if times[kit.Text(m, "id")] == 0 {
				return false
			}
		}
		return true
	})
	x.announced.To.CheckNoMore(x.t, len(x.sent))
}

// statusOf is the status of a request to join as a node shows it.
func (x *jumpingNodes) statusOf(r *grouptest.Group, request string, node int) string {
	return kit.Text(r.Request(x.from.On(x.Node(node)), request), "status")
}

// TestClockJumps moves the wall clocks of nodes under load: that of the leader and of a follower
// forward and back by an hour, by so little that tokens stay good, and that of a node which
// begins to lead meanwhile. A jump ends no term. Nothing is lost, doubled or out of order, and
// what has expired remains so.
func TestClockJumps(t *testing.T) {
	if *nodesClocks == 0 {
		t.Skip("runs only with -nodes.clocks")
	}
	x := startJumping(t)
	for range *nodesClocks {
		r := grouptest.New(x.from, obj{"enrollment_policy": "majority", "visibility": "private", "vote_duration_hours": 1})
		vote := kit.Text(r.Applied(x.to), "id")
		leader, follower := x.Roles(t)
		x.jump(leader, 20*time.Second, -20*time.Second, 0)
		ended := x.jump(follower, time.Hour, -time.Hour, 0)
		if status := kit.Text(r.Request(x.from, vote), "status"); status != "pending" && !ended {
			t.Errorf("a vote of an hour is %s", status)
		}
		x.jump(leader, time.Hour, -time.Hour, 0)
		x.settle()
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			x.Ready(t) // a node whose clock was wrong for long is not at once
			_, next := x.Roles(t)
			kit.Must(t, x.clocks[numberOf(x.Nodes, next)].set(ahead))
			said, err := x.Node(0).Operate("cluster", "balance", "--to", next.Flag("--node-name"))
			if err != nil {
				t.Fatal(said, err)
			}
			if ahead > 0 {
				kit.Eventually(t, "a vote of an hour is over by the leader's clock", func() bool {
					return x.statusOf(r, vote, (numberOf(x.Nodes, next)+1)%3) == "expired"
				})
				time.Sleep(2 * time.Second) // within one, a timer stores what is shown
			}
			x.jump(next, ahead, 0)
			x.settle()
		}
		for i := range 3 {
			if status := x.statusOf(r, vote, i); status != "expired" {
				t.Errorf("a vote that was over is %s on node %s", status, kit.NodeName(i))
			}
		}
	}
	if 3*x.breaks > x.jumps { // on a busy machine some happen without any jump
		t.Errorf("in %d of %d jumps a term ended, or an outcome was unknown", x.breaks, x.jumps)
	}
	x.w.CheckDetectsLosses()
	t.Logf("%v; %d of %d jumps with a term that ended or an unknown outcome", &x.w.Tally, x.breaks, x.jumps)
}
