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
	// off stops the taking of images.
	off atomic.Bool
}

func (c *camera) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || c.off.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.world.Load()
	for _, kept := range []int{0, 30, 50, 90} {
		i := image{op: fmt.Sprintf("%d of %s", op.Kind, op.Path), kept: kept}
		if w != nil {
			i.known = w.known()
		}
		i.fs = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: c.rng})
		c.taken++
		c.films <- i
	}
	return nil
}

func (c *camera) String() string { return "camera" }

// verdict is what came of one workload under the camera.
type verdict struct {
	images, deeds, claims int
	// broken images, and what was wrong with the first few.
	broken int
	faults []string
}

func (v verdict) lost() bool { return strings.Contains(strings.Join(v.faults, "\n"), "lost:") }

// crash runs a workload, takes images all along, and inspects each.
func crash(t *testing.T, journals, rounds int, seed uint64, unsynced, trusting bool) verdict {
	t.Helper()
	c := &camera{disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 1)), films: make(chan image, 8)}
	opts := testOptions(errorfs.Wrap(c.disk, c), journals)
	opts.Unsynced = unsynced
	var v verdict
	var mu sync.Mutex
	var inspectors sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspectors.Go(func() {
			for i := range c.films {
				faults := reopened(c.world.Load(), i)
				mu.Lock()
				if len(faults) > 0 {
					v.broken++
				}
				for _, f := range faults[:min(len(faults), 5)] {
					if len(v.faults) < 20 {
						v.faults = append(v.faults, fmt.Sprintf("before %s, %d%% of the unsynced kept: %s", i.op, i.kept, f))
					}
				}
				mu.Unlock()
			}
		})
	}
	c.off.Store(true)
	s, err := Open(crashDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s)
	w.trusting = trusting
	c.world.Store(w)
	if err := s.Start(ignoreTray, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	c.off.Store(false)
	w.run(rounds, seed)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(c.films)
	inspectors.Wait()
	v.images, v.deeds, v.claims = c.taken, len(w.issued()), len(w.known())
	return v
}

func TestCrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			v := crash(t, journals, 40, 1, false, false)
			t.Logf("%d images, %d deeds, %d claims", v.images, v.deeds, v.claims)
			if v.broken > 0 {
				t.Errorf("%d of %d images are broken:\n%s", v.broken, v.images, strings.Join(v.faults, "\n"))
			}
		})
	}
}
