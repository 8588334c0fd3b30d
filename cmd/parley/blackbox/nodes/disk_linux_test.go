package nodes

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// onDisks has nodes run beside each other, each on a disk of its own.
func onDisks(dir func(i int) string) func(i int) (kit.Place, error) {
	local := kit.LocalPlace("")
	return func(i int) (kit.Place, error) {
		at, err := local(i)
		at.Dir = filepath.Join(dir(i), "data")
		return at, err
	}
}

// startOnSmallDisks runs three nodes, each on a disk that a test can fill.
func startOnSmallDisks(t *testing.T) (*kit.Nodes, []*kit.SmallDisk) {
	t.Helper()
	var disks []*kit.SmallDisk
	for range 3 {
		disks = append(disks, kit.MountDisk(t, 256))
	}
	n := kit.StartNodesAt(t, onDisks(func(i int) string { return disks[i].Dir }), 3)
	n.Heed(t)
	return n, disks
}

// TestLeaderDiskFull fills the disk of the leader under load: another node leads, and messages
// go on. The node is ready again when there is room.
func TestLeaderDiskFull(t *testing.T) {
	n, disks := startOnSmallDisks(t)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	victim := n.Leader()
	disk, gone := disks[numberOf(n, victim)], victim.Org(t).Agent("gone")
	var erased sync.WaitGroup
	w.RunThrough(nil, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 2}, 300*time.Millisecond, func() {
		disk.Ballast("ballast", -1)
		began := time.Now()
		erased.Go(func() { gone.Delete("/orgs/" + gone.Org.ID) }) // what applies it waits for room
		kit.Eventually(t, "another node leads", func() bool { l := n.Leader(); return l != nil && l != victim })
		t.Logf("another node leads %v after the disk is full; first 201 after %v more", time.Since(began).Round(time.Millisecond), firstSend(w).Round(time.Millisecond))
		time.Sleep(time.Second)
		disk.Drop("ballast")
	})
	erased.Wait()
	n.Ready(t)
	w.RepeatUnanswered()
	w.ReadAll(nil, true)
	w.Check()
	t.Log(&w.Tally)
}

// TestFollowerDiskFull fills the disk of a node that does not lead: it reports that it is not
// ready, the others go on under the same leader, and it catches up when there is room.
func TestFollowerDiskFull(t *testing.T) {
	n, disks := startOnSmallDisks(t)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	leader, victim := n.Leader(), n.Follower()
	disk := disks[numberOf(n, victim)]
	w.RunThrough(listeners, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 2}, 300*time.Millisecond, func() {
		disk.Ballast("ballast", -1)
		took := <-unready(victim)
		t.Logf("the follower is not ready %v after its disk is full; first 201 after %v more", took.Round(time.Millisecond), firstSend(w).Round(time.Millisecond))
		before := w.Tally.Acked.Load()
		time.Sleep(3 * time.Second)
		acked := w.Tally.Acked.Load() - before
		t.Logf("%d messages acknowledged in the 3 s after", acked)
		if acked == 0 {
			t.Error("the service stands still while the disk of a follower is full")
		}
		if resp, err := kit.Client.Get(victim.Base + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Error("a node whose disk is full is ready")
			}
		}
		if n.Leader() != leader {
			t.Error("the leader has changed")
		}
		disk.Drop("ballast")
		began := time.Now()
		n.Ready(t)
		t.Logf("the follower is ready %v after there is room", time.Since(began).Round(time.Millisecond))
	})
	w.RepeatUnanswered()
	w.ReadAll(listeners, true)
	w.Check()
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// TestStopOnFullDisk stops a node, by SIGTERM, whose log waits for room: it ends, and has all
// messages when it is started again with room.
func TestStopOnFullDisk(t *testing.T) {
	n, disks := startOnSmallDisks(t)
	leader, victim := n.Leader(), n.Follower()
	one, other := kit.Pair(t, leader)
	disk := disks[numberOf(n, victim)]
	disk.Ballast("ballast", -1)
	sent := 0
	kit.Eventually(t, "the log waits for room", func() bool {
		one.Send(other, obj{"encrypted_payload": strings.Repeat("QUJD", 10<<10)})
		sent++
		return strings.Contains(victim.Log.Tail(), "waits for space")
	})
	began := time.Now()
	_ = victim.Drain(30 * time.Second)                    // it may say that the disk is full
	if took := time.Since(began); took >= 8*time.Second { // 10 s if it waits for room
		t.Errorf("the node stopped after %v\n%s", took.Round(time.Millisecond), victim.Log.Tail())
	}
	disk.Drop("ballast")
	if err := victim.Again(); err != nil {
		t.Fatal(err)
	}
	n.Ready(t)
	if rows := other.On(victim).Everything(); len(rows) != sent {
		t.Errorf("the node has %d of %d messages", len(rows), sent)
	}
}

// TestKeysWaitForRoom erases an organization, and registers others, while the disk of a
// follower is full, so that it can store neither list of erasures nor keyring: it waits for
// room, and goes on when there is some. Stopped by SIGTERM meanwhile, it ends, and has the keys
// when it is started again with room.
func TestKeysWaitForRoom(t *testing.T) {
	n, disks := startOnSmallDisks(t)
	leader, victim := n.Leader(), n.Follower()
	disk, gone := disks[numberOf(n, victim)], leader.Org(t).Agent("gone")
	waits := func(what string) func() bool {
		return func() bool {
			return strings.Contains(victim.Log.Tail(), `the journal waits for space file="`+what)
		}
	}
	disk.Ballast("ballast", -1)
	gone.Delete("/orgs/" + gone.Org.ID).Want(200)
	kit.Eventually(t, "the list of erasures waits for room", waits("the list of erasures"))
	disk.Drop("ballast")
	n.Ready(t)
	gone.On(victim).Get("/org").Refused(401, "not_authenticated")
	if list, err := os.ReadFile(filepath.Join(victim.Dir, "erasures.jsonl")); err != nil || !strings.Contains(string(list), gone.Org.ID) {
		t.Errorf("the list of erasures has %q, %v", list, err)
	}
	disk.Ballast("ballast", -1)
	one, other := kit.Pair(t, leader)
	one.Send(other, obj{"encrypted_payload": "QUJD"})
	kit.Eventually(t, "the keyring waits for room", waits("the keyring"))
	began := time.Now()
	_ = victim.Drain(30 * time.Second)                    // it may say that the disk is full
	if took := time.Since(began); took >= 8*time.Second { // 10 s if it waits for room
		t.Errorf("the node stopped after %v\n%s", took.Round(time.Millisecond), victim.Log.Tail())
	}
	disk.Drop("ballast")
	if err := victim.Again(); err != nil {
		t.Fatal(err)
	}
	n.Ready(t)
	if rows := other.On(victim).Everything(); len(rows) != 1 {
		t.Errorf("the node shows %d messages, want 1", len(rows))
	}
}

// TestReadsOnFullDisks: nodes whose disks take no writes are ready for reads, and behind the load
// balancer of the examples reads go on. It passes the answer on that says why writes do not.
func TestReadsOnFullDisks(t *testing.T) {
	n, disks := startOnSmallDisks(t)
	n.Ready(t)
	one, other := kit.Pair(t, n.Server())
	sent := one.Send(other)
	front := n.Server()
	front.Addr = exampleBalancer(t, n)
	front.Base = "http://" + front.Addr
	for _, disk := range disks {
		var fs syscall.Statfs_t
		kit.Must(t, syscall.Statfs(disk.Dir, &fs))
		disk.Ballast("ballast", int64(fs.Bavail)*fs.Bsize-16<<20) // an eighth is the reserve
	}
	for _, s := range n.All {
		kit.Eventually(t, "the node is ready for reads", func() bool {
			return s.Call(t, "", "GET", "/readyz?for=reads", nil).Status == 200
		})
		kit.Eventually(t, "the node is not ready for writes", func() bool { return s.Call(t, "", "GET", "/readyz", nil).Status == 503 })
		s.Call(t, "", "GET", "/readyz?for=writes", nil).Want(503)
		if state := clusterStatusOf(t, n.Node(0)).state(s.Flag("--node-name")); state != "unready" {
			t.Errorf("a node with a full disk is %s", state)
		}
	}
	time.Sleep(5 * time.Second) // longer than haproxy takes to leave out a node that is not ready
	for range 50 {
		other.On(front).Get("/messages/"+kit.Text(sent, "id"), "X-Svc-Agent", other.ID).Want(200)
		one.On(front).TrySend(other, obj{}).Refused(503, "overloaded")
	}
}
