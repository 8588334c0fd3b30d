package persistence

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashDir lies two levels below what exists, as a data directory may.
const crashDir = "data/journal"

// image is a disk as a loss of power would leave it, and what clients had been
// told before it was taken.
type image struct {
	op    string
	kept  int
	fs    *vfs.MemFS
	known []claim
}

// camera takes images at every change of the disk and has them inspected.
type camera struct {
	disk  *vfs.MemFS
	world atomic.Pointer[world]
	rng   *rand.Rand
	mu    sync.Mutex
	taken int
	films chan image
}

func (c *camera) MaybeError(op errorfs.Op) error {
	w := c.world.Load()
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || w == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kept := range []int{0, 30, 50, 90} {
		i := image{op: fmt.Sprintf("%d of %s", op.Kind, op.Path), kept: kept, known: w.known()}
		i.fs = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: c.rng})
		c.taken++
		c.films <- i
	}
	return nil
}

func (c *camera) String() string { return "camera" }

// reusing is the disk in memory but for one call: its own ReuseForWrite takes
// the lock that keeps clones out twice, and stands still for ever when a clone
// asks for it in between.
type reusing struct{ *vfs.MemFS }

func (d reusing) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, category)
}

// verdict is what came of workloads under the camera.
type verdict struct {
	images, deeds, claims int
	// broken images, and what was wrong with the first few.
	broken int
	faults []string
}

func (v *verdict) add(i image, faults []string) {
	if len(faults) == 0 {
		return
	}
	v.broken++
	for _, f := range faults[:min(len(faults), 5)] {
		if len(v.faults) < 20 {
			v.faults = append(v.faults, fmt.Sprintf("before %s, %d%% of the unsynced kept: %s", i.op, i.kept, f))
		}
	}
}

// lost reports whether something that a client had been told was missing.
func (v *verdict) lost() bool { return strings.Contains(strings.Join(v.faults, "\n"), "lost:") }

// trial is one workload. Unsynced and trusting break a promise on purpose.
type trial struct {
	journals, rounds   int
	seed               uint64
	unsynced, trusting bool
}

// crash runs a workload, takes images all along, and inspects each.
func (x trial) crash(t *testing.T, v *verdict) {
	t.Helper()
	c := &camera{disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(x.seed, 1)), films: make(chan image, 8)}
	var mu sync.Mutex
	var inspectors sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspectors.Go(func() {
			for i := range c.films {
				faults := reopened(c.world.Load(), i)
				mu.Lock()
				v.add(i, faults)
				mu.Unlock()
			}
		})
	}
	opts := testOptions(errorfs.Wrap(reusing{c.disk}, c), x.journals)
	opts.Unsynced = x.unsynced
	s, err := Open(crashDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s)
	w.trusting = x.trusting
	c.world.Store(w)
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	w.run(x.rounds, x.seed)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(c.films)
	inspectors.Wait()
	v.images, v.deeds, v.claims = v.images+c.taken, v.deeds+len(w.issued()), v.claims+len(w.known())
}

// crashImages is how many images each number of journals must survive.
func crashImages() int {
	if testing.Short() || raceDetector {
		return 150
	}
	return 1000
}

// TestCrash takes the disk away at every write, sync, rename and creation of
// mixed workloads: nothing that anybody was told may be missing, nothing half
// there, and what was on its way must arrive once.
func TestCrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			v := &verdict{}
			for seed := uint64(0); v.images < crashImages(); seed++ {
				trial{journals: journals, rounds: 8 + int(seed%4)*8, seed: seed}.crash(t, v)
			}
			t.Logf("%d images, %d deeds, %d claims", v.images, v.deeds, v.claims)
			if v.broken > 0 {
				t.Errorf("%d of %d images are broken:\n%s", v.broken, v.images, strings.Join(v.faults, "\n"))
			}
		})
	}
}

// TestCrashControls breaks one promise at a time: the checker must see it.
func TestCrashControls(t *testing.T) {
	for name, x := range map[string]trial{
		"commits are not synced":          {journals: 1, rounds: 15, unsynced: true},
		"commits are not synced, lanes":   {journals: 4, rounds: 15, unsynced: true},
		"readers do not wait for Durable": {journals: 1, rounds: 25, trusting: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verdict{}
			for x.seed = 0; x.seed < 10 && !v.lost(); x.seed++ {
				x.crash(t, v)
			}
			if !v.lost() {
				t.Errorf("%d images, %d of them broken, and no loss was seen", v.images, v.broken)
			}
		})
	}
}
