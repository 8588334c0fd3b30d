package durability

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// fillers send messages until stopped. They repeat a refused send, or one with an unknown
// outcome, with the same key.
type fillers struct {
	t        testing.TB
	from, to *kit.Agent
	body     string
	stop     atomic.Bool
	stored   atomic.Int64
	refused  atomic.Int64 // overloaded: the server did nothing
	unknown  atomic.Int64
	slowest  atomic.Int64 // longest wait for an answer, in nanoseconds
	running  sync.WaitGroup

	mu    sync.Mutex
	acked map[string]bool
}

const fillerCount = 8

func fill(t testing.TB, from, to *kit.Agent) *fillers {
	f := &fillers{t: t, from: from, to: to, body: kit.B64([]byte(kit.RandomHex(24 << 10))), acked: map[string]bool{}}
	for i := range fillerCount {
		f.running.Go(func() {
			for n := 0; !f.stop.Load(); n++ {
				f.send(fmt.Sprintf("%d-%d-%s", i, n, kit.RandomHex(4)))
			}
		})
	}
	return f
}

// send sends one message and repeats it until it is stored or the fillers stop.
func (f *fillers) send(key string) {
	for !f.stop.Load() {
		a := f.from.TrySend(f.to, obj{"encrypted_payload": f.body}, "Idempotency-Key", key)
		f.slowest.Store(max(f.slowest.Load(), int64(a.Took)))
		switch {
		case a.Err == nil && (a.Status == 201 || a.Status == 200):
			f.stored.Add(1)
			f.mu.Lock()
			f.acked[kit.Text(a.Body, "id")] = true
			f.mu.Unlock()
			return
		case a.Err == nil && a.Status == 503:
			if code := a.Body["code"]; code == "outcome_unknown" {
				f.unknown.Add(1)
			} else if code != "overloaded" {
				a.Errorf("a full disk is neither overloaded nor outcome_unknown")
			}
			if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || s < 1 {
				a.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
			}
			f.refused.Add(1)
			time.Sleep(20 * time.Millisecond)
		case f.stop.Load(): // the control kills the server
		default:
			a.Errorf("on a full disk the answer is neither 201 nor 503")
			f.stop.Store(true)
		}
	}
}

// waitUntilFull waits until the server has stored nothing for a while.
func (f *fillers) waitUntilFull(within time.Duration) {
	f.t.Helper()
	quiet, stored := time.Now(), int64(-1)
	for began := time.Now(); time.Since(quiet) < 700*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if n := f.stored.Load(); n != stored {
			quiet, stored = time.Now(), n
		}
		if time.Since(began) > within {
			f.t.Fatalf("after %v the disk is not full: %d stored", within, stored)
		}
	}
}

// resumes waits until the server stores messages again.
func (f *fillers) resumes(within time.Duration) time.Duration {
	f.t.Helper()
	began, stored := time.Now(), f.stored.Load()
	for f.stored.Load() == stored {
		if time.Since(began) > within {
			f.t.Fatalf("space was freed, but %v later nothing is stored", within)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

func (f *fillers) end() {
	f.stop.Store(true)
	f.running.Wait()
}

// waitUntilSick waits until /health is 503 and names a reason.
func waitUntilSick(t testing.TB, s *kit.Server, within time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		a := s.Call(t, "", "GET", "/health", nil)
		if a.Err == nil && a.Status == 503 && strings.Contains(string(a.Raw), "disk") {
			return
		}
		if time.Since(began) > within {
			a.Fatalf("the disk is full, but %v later /health does not report it", within)
		}
	}
}

func waitUntilHealthy(t testing.TB, s *kit.Server, within time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		a := s.Call(t, "", "GET", "/health", nil)
		if a.Err == nil && a.Status == 200 {
			return
		}
		if time.Since(began) > within {
			a.Fatalf("space was freed, but %v later /health does not report it", within)
		}
	}
}

// TestFullDisk fills real disks of several sizes, by client traffic and by other files.
// The server sheds load, recovers when space is freed, and loses nothing acknowledged.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mebibytes int
		journals  string
		long      bool
	}{{8, "1", false}, {64, "4", false}, {256, "1", true}} {
		t.Run(fmt.Sprintf("%d MiB, journals=%s", c.mebibytes, c.journals), func(t *testing.T) {
			if c.long && *soakFor == 0 {
				t.Skip("a disk of this size takes long to fill: run with -soak")
			}
			t.Parallel()
			disk := kit.MountDisk(t, c.mebibytes)
			disk.Ballast("ballast", int64(c.mebibytes)<<20/4)
			s, err := kit.Launch("127.0.0.1:0", filepath.Join(disk.Dir, "data"), "--journals", c.journals)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				s.Kill()
				if t.Failed() {
					t.Log(s.Log.Tail())
				}
			})
			fullDisk(t, s, disk)
		})
	}
}

// TestFullDiskControl turns the free-space floor off: clients fill the disk to the last
// byte, and pending writes have to wait.
func TestFullDiskControl(t *testing.T) {
	t.Parallel()
	disk := kit.MountDisk(t, 8)
	s, err := kit.Launch("127.0.0.1:0", filepath.Join(disk.Dir, "data"), "--disk-reserve", "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	a, b := kit.Pair(t, s)
	f := fill(t, a, b)
	f.waitUntilFull(30 * time.Second)
	kit.Eventually(t, "without a floor less is left than half of what it keeps", func() bool { return disk.Free() <= 8<<20/16 })
	t.Logf("%d stored, %d KiB free", f.stored.Load(), disk.Free()>>10)
	f.stop.Store(true)
	s.Kill()
	f.running.Wait()
}

// fullDisk runs the sequence: clients fill the disk, space is freed, other files fill it,
// space is freed, and the disk is full when the server starts.
func fullDisk(t *testing.T, s *kit.Server, disk *kit.SmallDisk) {
	a, b := kit.Pair(t, s)
	f := fill(t, a, b)
	f.waitUntilFull(30 * time.Second)
	waitUntilSick(t, s, time.Second)
	t.Logf("clients filled it: %d stored, %d refused, %d unknown, slowest %v, %d KiB free",
		f.stored.Load(), f.refused.Load(), f.unknown.Load(), time.Duration(f.slowest.Load()), disk.Free()>>10)
	if n := f.unknown.Load(); n > 0 {
		t.Errorf("clients alone filled the disk: %d outcomes are unknown", n)
	}
	b.Get(b.Path("/messages?limit=5")).Want(200)

	disk.Drop("ballast")
	t.Logf("resumed %v after space was freed", f.resumes(5*time.Second))
	waitUntilHealthy(t, s, 2*time.Second)

	disk.Ballast("outside", -1)
	waitUntilSick(t, s, time.Second)
	time.Sleep(500 * time.Millisecond)
	disk.Ballast("more", -1)
	disk.Drop("more")
	disk.Drop("outside")
	t.Logf("filled by other files, resumed %v after space was freed", f.resumes(15*time.Second))

	disk.Ballast("outside", -1)
	waitUntilSick(t, s, time.Second)
	f.end()
	s.Kill()
	startFull(t, s, b)
	disk.Drop("outside")
	s.Restart(t)
	missing := len(f.acked)
	for _, id := range kit.IDs(b.Everything()) {
		if f.acked[id] {
			missing--
		}
	}
	if missing != 0 {
		t.Errorf("%d of %d acknowledged messages are missing", missing, len(f.acked))
	}
	if err := s.Drain(10 * time.Second); err != nil {
		t.Error(err)
	}
	if said, err := exec.Command(kit.Binary, "verify", "--data", s.Dir).CombinedOutput(); err != nil {
		t.Errorf("parley verify: %v\n%s", err, said)
	}
	t.Logf("%d acknowledged in all, slowest answer %v, %d unknown", len(f.acked), time.Duration(f.slowest.Load()), f.unknown.Load())
}

// startFull starts the server on a full disk. It must exit with a clear reason or serve
// reads.
func startFull(t *testing.T, s *kit.Server, b *kit.Agent) {
	again := &kit.Server{Dir: s.Dir, Flags: s.Flags}
	if err := again.Begin(s.Addr); err != nil {
		t.Fatal(err)
	}
	select {
	case <-again.Exited:
		if said := again.Log.Text(); again.Err == nil || !strings.Contains(said, "no space left") || again.Log.Trouble() != nil {
			t.Errorf("a start on a full disk ended with %v\n%s", again.Err, said)
		}
	case addr := <-again.Log.Announced:
		again.Addr, again.Base = addr, "http://"+addr
		again.Call(t, b.Token, "GET", b.Path("/messages?limit=5"), nil).Want(200)
		again.Kill()
	case <-time.After(10 * time.Second):
		again.Kill()
		t.Errorf("a start on a full disk hangs\n%s", again.Log.Tail())
	}
}
