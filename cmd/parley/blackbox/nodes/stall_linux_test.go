package nodes

import (
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesStalls = flag.Int("nodes.stalls", 2, "how often TestLeaderDiskStalls stalls a disk")

// stallingDisk is a file system that can be frozen: processes that write to it wait.
type stallingDisk struct {
	t   testing.TB
	dir string
	// held ends the freeze when it is closed.
	held io.Closer
	over *exec.Cmd
}

// mountStallingDisk mounts an ext4 file system in a file. Without the permission to mount, it
// prints a prominent notice; in CI it fails.
func mountStallingDisk(t testing.TB, mebibytes int) *stallingDisk {
	t.Helper()
	d := &stallingDisk{t: t, dir: t.TempDir()}
	image := filepath.Join(t.TempDir(), "image")
	kit.Must(t, os.WriteFile(image, nil, 0o600))
	kit.Must(t, os.Truncate(image, int64(mebibytes)<<20))
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, d.dir}} {
		said, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err == nil {
			continue
		}
		const left = "!! NOT CHECKED: a disk that stalls: it needs root, loop devices and mkfs.ext4"
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v: %v\n%s", left, command, err, said)
		}
		t.Skipf("%s: %v: %v\n%s", left, command, err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "--lazy", d.dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	})
	return d
}

// freeze stalls all writes and syncs. They go on with thaw, at the end of the test, or when the
// test process ends in any way: a process that waits for a frozen disk cannot be killed.
func (d *stallingDisk) freeze() {
	d.t.Helper()
	d.over = exec.Command("sh", "-c", `fsfreeze --freeze "$1" && echo && { read -r _; fsfreeze --unfreeze "$1"; }`, "sh", d.dir)
	d.over.Stderr = os.Stderr
	held, err := d.over.StdinPipe()
	kit.Must(d.t, err)
	said, err := d.over.StdoutPipe()
	kit.Must(d.t, err)
	kit.Must(d.t, d.over.Start())
	d.held = held
	d.t.Cleanup(d.thaw)
	_, err = said.Read(make([]byte, 1))
	kit.Must(d.t, err)
}

// thaw has the disk work again.
func (d *stallingDisk) thaw() {
	if d.held == nil {
		return
	}
	_ = d.held.Close()
	d.held = nil
	if err := d.over.Wait(); err != nil {
		d.t.Errorf("the disk stays frozen: %v", err)
	}
}

// stallGoal is when messages go on elsewhere at the latest after the leader's disk stalled. The
// goal on a quiet machine is 1.5 s.
const stallGoal = 5 * time.Second

// TestLeaderDiskStalls freezes the disk of the leader under load: the process lives, its
// connections stay open, and what it writes waits. Messages go on at the other nodes. When the
// disk works again, the node takes part as before, and nothing is lost.
func TestLeaderDiskStalls(t *testing.T) {
	var disks []*stallingDisk
	for range 3 {
		disks = append(disks, mountStallingDisk(t, 512))
	}
	n := kit.StartNodesAt(t, onDisks(func(i int) string { return disks[i].dir }), 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	for i := range *nodesStalls {
		victim := n.Leader()
		disk := disks[numberOf(n, victim)]
		w.RunThrough(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() {
			disk.freeze()
			n.Avoid(victim, true) // its health check fails
			unready := unready(victim)
			took := firstSend(w)
			t.Logf("first 201 after the leader's disk stalled: %v; it is not ready after %v", took.Round(time.Millisecond), (<-unready).Round(time.Millisecond))
			if took > stallGoal {
				t.Errorf("the first message after the leader's disk stalled took %v", took)
			}
			time.Sleep(time.Duration(1+i%3) * time.Second)
			if leader := n.Leader(); leader == victim {
				t.Error("the node whose disk stalls leads")
			}
			disk.thaw()
			n.Avoid(victim, false)
		})
		n.Ready(t)
		w.RepeatUnanswered()
		w.ReadAll(listeners, i == *nodesStalls-1)
		w.Check()
	}
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// unready says when the node reports that it is not ready.
func unready(s *kit.Server) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	go func() {
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			resp, err := kit.Client.Get(s.Base + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusOK || time.Since(began) > 20*time.Second {
				took <- time.Since(began)
				return
			}
		}
	}()
	return took
}
