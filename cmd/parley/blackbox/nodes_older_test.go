package blackbox

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
)

var (
	nodesOrders = flag.Int("nodes.orders", 3, "in how many orders TestOlderCopies starts nodes, one of them from an older copy")
	nodesSeed   = flag.Uint64("nodes.seed", 1, "the first seed of TestOlderCopies")
)

// fail ends all nodes at once, as a power failure does.
func (n *nodes) fail() {
	var ending sync.WaitGroup
	for _, s := range n.all {
		ending.Go(s.kill)
	}
	ending.Wait()
}

// recoverAll starts all nodes at once, and returns when each listens.
func (n *nodes) recoverAll() error {
	var starting sync.WaitGroup
	failed := make([]error, len(n.all))
	for i, s := range n.all {
		starting.Go(func() { failed[i] = s.again() })
	}
	starting.Wait()
	return errors.Join(failed...)
}

// TestAllReplaced replaces all nodes in turn, as docs/cluster.md says. Then the power of all
// fails, long before a store has flushed: the voters of the last flush are gone, and each node
// starts all the same.
func TestAllReplaced(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	one, other := pair(t, n.server())
	one.send(other)
	for i := range n.all {
		replaceLost(t, n, i)
		one.on(n.node((i + 1) % 3)).send(other)
	}
	n.ready(t)
	n.fail()
	must(t, n.recoverAll())
	n.ready(t)
	for i := range n.all {
		if rows := other.on(n.node(i)).everything(); len(rows) != 4 {
			t.Errorf("node %d shows %d of 4 messages", i, len(rows))
		}
	}
}

// image copies the directory of a node that runs, as a snapshot of a virtual machine does.
func (s *server) image(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "older")
	must(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	said, err := exec.Command("cp", "-a", s.dir, dir).CombinedOutput()
	must(t, errors.Join(err, s.cmd.Process.Signal(syscall.SIGCONT)))
	if err != nil {
		t.Fatalf("%s", said)
	}
	return dir
}

// putBack has a node that has ended start from an image. It returns the way back.
func (s *server) putBack(t *testing.T, image string) (undo func()) {
	t.Helper()
	newest := s.dir + ".newest"
	must(t, os.Rename(s.dir, newest))
	must(t, exec.Command("cp", "-a", image, s.dir).Run())
	return func() {
		must(t, os.RemoveAll(s.dir))
		must(t, os.Rename(newest, s.dir))
	}
}

// settles waits until a node that was begun either listens or has ended, which it reports.
func (s *server) settles(t *testing.T, within time.Duration) (ended bool) {
	t.Helper()
	select {
	case addr := <-s.log.announced:
		s.addr, s.base = addr, "http://"+addr
		return false
	case <-s.exited:
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
	n := startNodes(t, 3)
	one, other := pair(t, n.server())
	sent, refused := 0, 0
	for number := range *nodesOrders {
		rng := rand.New(rand.NewPCG(*nodesSeed+uint64(number), 1))
		o := newOlderCopy(number, rng)
		n.ready(t)
		victim := n.all[o.victim]
		if rng.IntN(2) == 0 {
			_, _ = victim.operate("cluster", "balance", victim.flag("--node-name"))
		}
		image := victim.image(t)
		n.ready(t)
		for range o.age {
			one.send(other)
		}
		sent += o.age
		was := o.start(t, n, image, rng)
		t.Logf("order %d: %+v refused %v", number, o, was)
		if was {
			refused++
		}
		n.ready(t)
		for i := range n.all {
			if rows := other.on(n.node(i)).everything(); len(rows) != sent {
				t.Fatalf("order %d, %+v: node %d shows %d of %d messages", number, o, i, len(rows), sent)
			}
		}
	}
	t.Logf("%d of %d older copies were refused, %d messages", refused, *nodesOrders, sent)
}

// start ends nodes, starts the victim from its image and the others as the order says, and
// reports whether the victim refused to run. Then it gets its own directory again.
func (o olderCopy) start(t *testing.T, n *nodes, image string, rng *rand.Rand) (refused bool) {
	t.Helper()
	victim := n.all[o.victim]
	for i, s := range n.all {
		if !o.run || i == o.victim || i == o.down {
			s.kill()
		}
	}
	undo := victim.putBack(t, image)
	for _, i := range o.order {
		if i != o.down && (!o.run || i == o.victim) {
			must(t, n.all[i].begin(n.all[i].addr))
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		}
	}
	refused = victim.settles(t, 6*time.Second)
	if o.down >= 0 {
		must(t, n.all[o.down].begin(n.all[o.down].addr))
	}
	if refused = refused || victim.settles(t, 2*time.Second); refused {
		if said := victim.log.text(); !strings.Contains(said, "older copy") {
			t.Errorf("%+v: it does not say why it ends:\n%s", o, said)
		}
		undo()
		must(t, victim.begin(victim.addr))
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
			n := startNodes(t, 3)
			one, other := pair(t, n.server())
			n.ready(t)
			leader := n.leader()
			rest := slices.DeleteFunc(slices.Clone(n.all), func(s *server) bool { return s == leader })
			away, holder := rest[0], rest[1]
			one, other = one.on(leader), other.on(leader)
			one.send(other)
			image := leader.image(t)
			away.kill()
			var lost []string
			for range 40 {
				lost = append(lost, text(one.send(other), "id"))
			}
			if frozen {
				must(t, holder.cmd.Process.Signal(syscall.SIGSTOP))
			} else {
				holder.kill()
			}
			leader.kill()
			_ = leader.putBack(t, image)
			for _, s := range []*server{leader, away} {
				must(t, s.begin(s.addr))
			}
			for _, s := range []*server{leader, away} {
				if s.settles(t, 10*time.Second) {
					t.Fatalf("%s ends\n%s", s.flag("--node-name"), s.log.tail())
				}
			}
			eventually(t, "messages are taken again", func() bool { return one.on(away).trySend(other, nil).status == 201 })
			if rows := other.on(away).everything(); len(rows) < 2 || len(rows) > 30 {
				t.Fatalf("%d messages: the test proves nothing", len(rows))
			}
			switch when {
			case "it was replaced":
				endsNobody(t, n, holder)
				return
			case "it was frozen":
				must(t, holder.cmd.Process.Signal(syscall.SIGCONT))
			default:
				must(t, holder.begin(holder.addr))
			}
			before := time.Now()
			select {
			case <-holder.exited:
				t.Logf("it ends after %v", time.Since(before).Round(time.Millisecond))
			case <-time.After(10 * time.Second):
				t.Fatalf("it goes on\n%s", holder.log.tail())
			}
			keepsDiverged(t, n, holder, lost)
		})
	}
}

// endsNobody replaces a node that has diverged, before anybody knows that, and starts it again:
// the members go on.
func endsNobody(t *testing.T, n *nodes, holder *server) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	must(t, exec.Command("cp", "-a", holder.dir, kept).Run())
	at, err := unusedAddress()
	must(t, err)
	former := &server{dir: kept, flags: slices.Clone(holder.flags)}
	former.flags[slices.Index(former.flags, "--cluster-listen")+1] = at
	replaceLost(t, n, slices.Index(n.all, holder))
	must(t, former.begin("127.0.0.1:0"))
	t.Cleanup(former.kill)
	former.settles(t, 5*time.Second)
	t.Logf("the former node says:\n%s", former.log.tail())
	for _, s := range n.all {
		select {
		case <-s.exited:
			t.Errorf("%s ends, because one that is no member has diverged\n%s", s.flag("--node-name"), s.log.tail())
		default:
		}
	}
	n.ready(t)
	for _, s := range n.all[:2] { // a majority has to start, and one of them first
		s.kill()
	}
	must(t, n.all[0].begin(n.all[0].addr))
	if n.all[0].settles(t, 5*time.Second) {
		t.Errorf("%s does not start, because one that is no member has diverged\n%s", n.all[0].flag("--node-name"), n.all[0].log.tail())
	}
	must(t, n.all[1].begin(n.all[1].addr))
	n.ready(t)
}

// keepsDiverged checks what becomes of a node that holds messages which the others do not have:
// it says what to do, lists the messages, and is shown by the others until it is replaced.
func keepsDiverged(t *testing.T, n *nodes, holder *server, lost []string) {
	t.Helper()
	if said := holder.log.text(); !strings.Contains(said, "verify --diverged") || !strings.Contains(said, "cluster replace") {
		t.Errorf("it does not say what to do:\n%s", said)
	}
	fails(t, holder.dir, holder.flags...) // again, and at once
	rest := slices.DeleteFunc(slices.Clone(n.all), func(s *server) bool { return s == holder })
	shown := func(want float64) func() bool {
		return func() bool {
			return !slices.ContainsFunc(rest, func(s *server) bool { return s.metrics(t).of("diverged") != want })
		}
	}
	eventually(t, "the other nodes show that it has diverged", shown(1))
	if status, err := rest[0].operate("cluster", "status", "--json"); err != nil || !strings.Contains(status, "verify --diverged") {
		t.Errorf("the status does not say so: %v\n%s", err, status)
	}
	must(t, rest[0].drain(15*time.Second))
	must(t, rest[0].again())
	eventually(t, "they still do after a restart", shown(1))
	said, err := (&server{}).execute("verify", "--diverged", "--data", holder.dir)
	must(t, err)
	if listed := strings.Fields(said); !slices.Equal(listed, lost) {
		t.Errorf("verify --diverged lists %d messages, want %d:\n%s", len(listed), len(lost), said)
	}
	for data, want := range map[string]string{holder.dir: `"diverged":true`, t.TempDir(): ""} {
		said, err := (&server{}).execute("verify", "--diverged", "--json", "--data", data)
		if want == "" && err == nil || want != "" && !strings.Contains(strings.ReplaceAll(said, " ", ""), want) {
			t.Errorf("verify --diverged --json: %s, %v", said, err)
		}
	}
	if said, err := (&server{}).execute("verify", "--diverged", "--data", rest[0].dir); err == nil || !strings.Contains(said, "in use") {
		t.Errorf("verify --diverged reads the log of a node that runs: %s, %v", said, err)
	}
	replaceLost(t, n, slices.Index(n.all, holder))
	eventually(t, "no node has diverged", shown(0))
	n.ready(t)
}

// TestOlderCopyOfAClusterOfOne starts the first node from a copy of the time when it was alone, so
// that it knows of no other member. It does not take part while another one is there; and when it
// was alone at first, it ends as soon as the others come.
func TestOlderCopyOfAClusterOfOne(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 1)
	first := n.node(0)
	one, other := pair(t, n.server())
	one.send(other)
	image := first.image(t)
	must(t, n.add(1))
	must(t, n.add(2))
	first.eventuallyStatus(t, "three voters", func(c clusterStatus) bool { return c.voters() == 3 })
	for range 50 {
		one.send(other)
	}
	for _, alone := range []bool{false, true} {
		first.kill()
		if alone {
			n.fail()
		}
		undo := first.putBack(t, image)
		must(t, first.begin(first.addr))
		if alone {
			if first.settles(t, 10*time.Second) {
				t.Fatalf("it does not serve alone\n%s", first.log.tail())
			}
			for _, s := range n.all[1:] {
				must(t, s.begin(s.addr))
			}
		}
		select {
		case <-first.exited:
		case <-time.After(10 * time.Second):
			t.Fatalf("alone at first %v: it goes on\n%s", alone, first.log.tail())
		}
		if said := first.log.text(); !strings.Contains(said, "older copy") {
			t.Errorf("alone at first %v: it does not say why it ends\n%s", alone, said)
		}
		undo()
		must(t, first.begin(first.addr))
		for _, s := range n.all {
			if s.settles(t, 10*time.Second) {
				t.Fatalf("alone at first %v: node %s ends\n%s", alone, s.flag("--node-name"), s.log.tail())
			}
		}
		n.ready(t)
		for i := range n.all {
			if rows := other.on(n.node(i)).everything(); len(rows) != 51 {
				t.Errorf("alone at first %v: node %d shows %d of 51 messages", alone, i, len(rows))
			}
		}
	}
}
