package nodes

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

var (
	nodesOrders = flag.Int("nodes.orders", 3, "in how many orders TestOlderCopies starts nodes, one of them from an older copy")
	nodesSeed   = flag.Uint64("nodes.seed", 1, "the first seed of TestOlderCopies")
)

// failAll ends all nodes at once, as a power failure does.
func failAll(n *kit.Nodes) {
	var ending sync.WaitGroup
	for _, s := range n.All {
		ending.Go(s.Kill)
	}
	ending.Wait()
}

// recoverAll starts all nodes at once, and returns when each listens.
func recoverAll(n *kit.Nodes) error {
	var starting sync.WaitGroup
	failed := make([]error, len(n.All))
	for i, s := range n.All {
		starting.Go(func() { failed[i] = s.Again() })
	}
	starting.Wait()
	return errors.Join(failed...)
}

// TestAllReplaced replaces all nodes in turn, as docs/cluster.md says. Then the power of all
// fails, long before a store has flushed: the voters of the last flush are gone, and each node
// starts all the same.
func TestAllReplaced(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	one, other := kit.Pair(t, n.Server())
	one.Send(other)
	for i := range n.All {
		replaceLost(t, n, i)
		one.On(n.Node((i + 1) % 3)).Send(other)
	}
	n.Ready(t)
	failAll(n)
	kit.Must(t, recoverAll(n))
	n.Ready(t)
	for i := range n.All {
		if rows := other.On(n.Node(i)).Everything(); len(rows) != 4 {
			t.Errorf("node %d shows %d of 4 messages", i, len(rows))
		}
	}
}

// imageOf copies the directory of a node that runs, as a snapshot of a virtual machine does.
func imageOf(t *testing.T, s *kit.Server) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "older")
	kit.Must(t, s.Cmd.Process.Signal(syscall.SIGSTOP))
	said, err := exec.Command("cp", "-a", s.Dir, dir).CombinedOutput()
	kit.Must(t, errors.Join(err, s.Cmd.Process.Signal(syscall.SIGCONT)))
	if err != nil {
		t.Fatalf("%s", said)
	}
	return dir
}

// putBackImage has a node that has ended start from an image. It returns the way back.
func putBackImage(t *testing.T, s *kit.Server, image string) (undo func()) {
	t.Helper()
	newest := s.Dir + ".newest"
	kit.Must(t, os.Rename(s.Dir, newest))
	kit.Must(t, exec.Command("cp", "-a", image, s.Dir).Run())
	return func() {
		kit.Must(t, os.RemoveAll(s.Dir))
		kit.Must(t, os.Rename(newest, s.Dir))
	}
}

// settles waits until a node that was begun either listens or has ended, which it reports.
func settles(t *testing.T, s *kit.Server, within time.Duration) (ended bool) {
	t.Helper()
	select {
	case addr := <-s.Log.Announced:
		s.Addr, s.Base = addr, "http://"+addr
		return false
	case <-s.Exited:
		return true
	case <-time.After(within):
		return false // it waits
	}
}

// olderCopy is one order of TestOlderCopies: which node starts from an older copy, which one stays
// down meanwhile (-1 is none), in which order they start, whether the others run all the time, and
// how many messages old the copy is.
type olderCopy struct {
	victim, down int
	order        []int
	run          bool
	age          int
}

func newOlderCopy(number int, rng *rand.Rand) olderCopy {
	o := olderCopy{victim: number % 3, order: rng.Perm(3), run: rng.IntN(3) == 0, age: 10 + rng.IntN(291)}
	o.down = []int{-1, (o.victim + 1) % 3, (o.victim + 2) % 3}[rng.IntN(3)]
	return o
}

// TestOlderCopies starts one of three nodes from an older copy of its directory, while another one
// may be down. Nobody was away when the messages were acknowledged, so each other node knows: no
// message is lost, whether the copy is refused or not.
func TestOlderCopies(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	one, other := kit.Pair(t, n.Server())
	sent, refused := 0, 0
	for number := range *nodesOrders {
		rng := rand.New(rand.NewPCG(*nodesSeed+uint64(number), 1))
		o := newOlderCopy(number, rng)
		n.Ready(t)
		victim := n.All[o.victim]
		if rng.IntN(2) == 0 {
			_, _ = victim.Operate("cluster", "balance", victim.Flag("--node-name"))
		}
		image := imageOf(t, victim)
		n.Ready(t)
		for range o.age {
			one.Send(other)
		}
		sent += o.age
		was := o.start(t, n, image, rng)
		t.Logf("order %d: %+v refused %v", number, o, was)
		if was {
			refused++
		}
		n.Ready(t)
		for i := range n.All {
			if rows := other.On(n.Node(i)).Everything(); len(rows) != sent {
				t.Fatalf("order %d, %+v: node %d shows %d of %d messages", number, o, i, len(rows), sent)
			}
		}
	}
	t.Logf("%d of %d older copies were refused, %d messages", refused, *nodesOrders, sent)
}

// start ends nodes, starts the victim from its image and the others as the order says, and
// reports whether the victim refused to run. Then it gets its own directory again.
func (o olderCopy) start(t *testing.T, n *kit.Nodes, image string, rng *rand.Rand) (refused bool) {
	t.Helper()
	victim := n.All[o.victim]
	for i, s := range n.All {
		if !o.run || i == o.victim || i == o.down {
			s.Kill()
		}
	}
	undo := putBackImage(t, victim, image)
	for _, i := range o.order {
		if i != o.down && (!o.run || i == o.victim) {
			kit.Must(t, n.All[i].Begin(n.All[i].Addr))
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		}
	}
	refused = settles(t, victim, 6*time.Second)
	if o.down >= 0 {
		kit.Must(t, n.All[o.down].Begin(n.All[o.down].Addr))
	}
	if refused = refused || settles(t, victim, 2*time.Second); refused {
		if said := victim.Log.Text(); !strings.Contains(said, "older copy") {
			t.Errorf("%+v: it does not say why it ends:\n%s", o, said)
		}
		undo()
		kit.Must(t, victim.Begin(victim.Addr))
	}
	return refused
}

// TestDivergedNode: the only node that acknowledged messages with the leader is away when the
// leader comes back from an older copy. Nobody can know, so the other two go on without these
// messages. The node that has them ends within a second when it comes back, keeps them, and is
// shown as diverged until it is replaced.
func TestDivergedNode(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"it starts", "it was frozen", "it was replaced"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			frozen := when == "it was frozen"
			n := kit.StartNodes(t, 3)
			one, other := kit.Pair(t, n.Server())
			n.Ready(t)
			leader := n.Leader()
			rest := slices.DeleteFunc(slices.Clone(n.All), func(s *kit.Server) bool { return s == leader })
			away, holder := rest[0], rest[1]
			one, other = one.On(leader), other.On(leader)
			one.Send(other)
			image := imageOf(t, leader)
			away.Kill()
			var lost []string
			for range 40 {
				lost = append(lost, kit.Text(one.Send(other), "id"))
			}
			if frozen {
				kit.Must(t, holder.Cmd.Process.Signal(syscall.SIGSTOP))
			} else {
				holder.Kill()
			}
			leader.Kill()
			_ = putBackImage(t, leader, image)
			for _, s := range []*kit.Server{leader, away} {
				kit.Must(t, s.Begin(s.Addr))
			}
			for _, s := range []*kit.Server{leader, away} {
				if settles(t, s, 10*time.Second) {
					t.Fatalf("%s ends\n%s", s.Flag("--node-name"), s.Log.Tail())
				}
			}
			kit.Eventually(t, "messages are taken again", func() bool { return one.On(away).TrySend(other, nil).Status == 201 })
			if rows := other.On(away).Everything(); len(rows) < 2 || len(rows) > 30 {
				t.Fatalf("%d messages: the test proves nothing", len(rows))
			}
			switch when {
			case "it was replaced":
				endsNobody(t, n, holder)
				return
			case "it was frozen":
				kit.Must(t, holder.Cmd.Process.Signal(syscall.SIGCONT))
			default:
				kit.Must(t, holder.Begin(holder.Addr))
			}
			before := time.Now()
			select {
			case <-holder.Exited:
				t.Logf("it ends after %v", time.Since(before).Round(time.Millisecond))
			case <-time.After(10 * time.Second):
				t.Fatalf("it goes on\n%s", holder.Log.Tail())
			}
			keepsDiverged(t, n, holder, lost)
		})
	}
}

// endsNobody replaces a node that has diverged, before anybody knows that, and starts it again:
// the members go on.
func endsNobody(t *testing.T, n *kit.Nodes, holder *kit.Server) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	kit.Must(t, exec.Command("cp", "-a", holder.Dir, kept).Run())
	at, err := kit.UnusedAddress()
	kit.Must(t, err)
	former := &kit.Server{Dir: kept, Flags: slices.Clone(holder.Flags)}
	former.Flags[slices.Index(former.Flags, "--cluster-listen")+1] = at
	replaceLost(t, n, slices.Index(n.All, holder))
	kit.Must(t, former.Begin("127.0.0.1:0"))
	t.Cleanup(former.Kill)
	settles(t, former, 5*time.Second)
	t.Logf("the former node says:\n%s", former.Log.Tail())
	for _, s := range n.All {
		select {
		case <-s.Exited:
			t.Errorf("%s ends, because one that is no member has diverged\n%s", s.Flag("--node-name"), s.Log.Tail())
		default:
		}
	}
	n.Ready(t)
	for _, s := range n.All[:2] { // a majority has to start, and one of them first
		s.Kill()
	}
	kit.Must(t, n.All[0].Begin(n.All[0].Addr))
	if settles(t, n.All[0], 5*time.Second) {
		t.Errorf("%s does not start, because one that is no member has diverged\n%s", n.All[0].Flag("--node-name"), n.All[0].Log.Tail())
	}
	kit.Must(t, n.All[1].Begin(n.All[1].Addr))
	n.Ready(t)
}

// keepsDiverged checks what becomes of a node that holds messages which the others do not have:
// it says what to do, lists the messages, and is shown by the others until it is replaced.
func keepsDiverged(t *testing.T, n *kit.Nodes, holder *kit.Server, lost []string) {
	t.Helper()
	if said := holder.Log.Text(); !strings.Contains(said, "verify --diverged") || !strings.Contains(said, "cluster replace") {
		t.Errorf("it does not say what to do:\n%s", said)
	}
	kit.Fails(t, holder.Dir, holder.Flags...) // again, and at once
	rest := slices.DeleteFunc(slices.Clone(n.All), func(s *kit.Server) bool { return s == holder })
	shown := func(want float64) func() bool {
		return func() bool {
			return !slices.ContainsFunc(rest, func(s *kit.Server) bool { return metricsOf(t, s).of("diverged") != want })
		}
	}
	kit.Eventually(t, "the other nodes show that it has diverged", shown(1))
	if status, err := rest[0].Operate("cluster", "status", "--json"); err != nil || !strings.Contains(status, "verify --diverged") {
		t.Errorf("the status does not say so: %v\n%s", err, status)
	}
	kit.Must(t, rest[0].Drain(15*time.Second))
	kit.Must(t, rest[0].Again())
	kit.Eventually(t, "they still do after a restart", shown(1))
	said, err := (&kit.Server{}).Execute("verify", "--diverged", "--data", holder.Dir)
	kit.Must(t, err)
	if listed := strings.Fields(said); !slices.Equal(listed, lost) {
		t.Errorf("verify --diverged lists %d messages, want %d:\n%s", len(listed), len(lost), said)
	}
	for data, want := range map[string]string{holder.Dir: `"diverged":true`, t.TempDir(): ""} {
		said, err := (&kit.Server{}).Execute("verify", "--diverged", "--json", "--data", data)
		if want == "" && err == nil || want != "" && !strings.Contains(strings.ReplaceAll(said, " ", ""), want) {
			t.Errorf("verify --diverged --json: %s, %v", said, err)
		}
	}
	if said, err := (&kit.Server{}).Execute("verify", "--diverged", "--data", rest[0].Dir); err == nil || !strings.Contains(said, "in use") {
		t.Errorf("verify --diverged reads the log of a node that runs: %s, %v", said, err)
	}
	replaceLost(t, n, slices.Index(n.All, holder))
	kit.Eventually(t, "no node has diverged", shown(0))
	n.Ready(t)
}

// TestOlderCopyOfAClusterOfOne starts the first node from a copy of the time when it was alone, so
// that it knows of no other member. It does not take part while another one is there; and when it
// was alone at first, it ends as soon as the others come.
func TestOlderCopyOfAClusterOfOne(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 1)
	first := n.Node(0)
	one, other := kit.Pair(t, n.Server())
	one.Send(other)
	image := imageOf(t, first)
	kit.Must(t, n.Add(1))
	kit.Must(t, n.Add(2))
	eventuallyStatus(t, first, "three voters", func(c clusterStatus) bool { return c.voters() == 3 })
	for range 50 {
		one.Send(other)
	}
	for _, alone := range []bool{false, true} {
		first.Kill()
		if alone {
			failAll(n)
		}
		undo := putBackImage(t, first, image)
		kit.Must(t, first.Begin(first.Addr))
		if alone {
			if settles(t, first, 10*time.Second) {
				t.Fatalf("it does not serve alone\n%s", first.Log.Tail())
			}
			for _, s := range n.All[1:] {
				kit.Must(t, s.Begin(s.Addr))
			}
		}
		select {
		case <-first.Exited:
		case <-time.After(10 * time.Second):
			t.Fatalf("alone at first %v: it goes on\n%s", alone, first.Log.Tail())
		}
		if said := first.Log.Text(); !strings.Contains(said, "older copy") {
			t.Errorf("alone at first %v: it does not say why it ends\n%s", alone, said)
		}
		undo()
		kit.Must(t, first.Begin(first.Addr))
		for _, s := range n.All {
			if settles(t, s, 10*time.Second) {
				t.Fatalf("alone at first %v: node %s ends\n%s", alone, s.Flag("--node-name"), s.Log.Tail())
			}
		}
		n.Ready(t)
		for i := range n.All {
			if rows := other.On(n.Node(i)).Everything(); len(rows) != 51 {
				t.Errorf("alone at first %v: node %d shows %d of 51 messages", alone, i, len(rows))
			}
		}
	}
}
