package persistence

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/crashtest"
)

// crashDir has two missing parents, as a data directory may have.
const crashDir = "data/journal"

// crashResult summarizes the checks of many images.
type crashResult struct {
	tally                crashtest.Tally
	operations, promises int
	// broken counts images with faults; faults are the first few.
	broken int
	faults []string
}

func (v *crashResult) add(i crashtest.Image, faults []string) {
	if len(faults) == 0 {
		return
	}
	v.broken++
	for _, f := range faults[:min(len(faults), 5)] {
		if len(v.faults) < 20 {
			v.faults = append(v.faults, fmt.Sprintf("before %s, %d%% of the unsynced kept: %s", i.Op, i.Kept, f))
		}
	}
}

// copyMissing reports whether some agent never got a copy of a broadcast.
func (v *crashResult) copyMissing() bool {
	return strings.Contains(strings.Join(v.faults, "\n"), "is there 0 times, near false, settled true")
}

// lost reports whether something that a client was promised is missing.
func (v *crashResult) lost() bool { return strings.Contains(strings.Join(v.faults, "\n"), "lost:") }

// crashRun is one run of the workload. Unsynced, trusting and forgetful each break
// a guarantee on purpose.
type crashRun struct {
	journals, rounds   int
	seed               uint64
	unsynced, trusting bool
	// forgetful stores do not resume the outboxes of journals to themselves.
	forgetful bool
}

// run runs the workload and checks each image that is recorded meanwhile.
func (x crashRun) run(t *testing.T, v *crashResult) {
	t.Helper()
	w := newWorkload(t)
	disk := crashtest.NewDisk(vfs.NewCrashableMem(), crashDir, x.seed, w.promised)
	var mu sync.Mutex
	var inspectors sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspectors.Go(func() {
			for i := range disk.Images() {
				faults := checkReopened(w, x, i)
				mu.Lock()
				v.add(i, faults)
				mu.Unlock()
			}
		})
	}
	opts := testOptions(disk.FS(), x.journals)
	opts.Unsynced = x.unsynced
	s, err := Open(crashDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.trusting = s, x.trusting
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	w.run(x.rounds, x.seed)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	v.tally.Add(disk.Stop())
	inspectors.Wait()
	v.operations, v.promises = v.operations+len(w.issued()), v.promises+w.promised()
}

// crashImages is how many distinct images are checked, for each number of journals.
func crashImages() int {
	switch {
	case raceDetector:
		return 30
	case *exhaustive:
		return 3000
	case testing.Short():
		return 150
	}
	return 500
}

// TestCrash simulates a power failure at every write, sync, rename and creation of mixed
// workloads. Nothing that a client was promised may be missing, no entry may exist in
// part, and pending effects must arrive exactly once.
func TestCrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			v := &crashResult{}
			for seed := uint64(0); v.tally.Distinct() < crashImages(); seed++ {
				rounds := 8 + int(seed%4)*8
				if raceDetector {
					rounds = 4
				}
				crashRun{journals: journals, rounds: rounds, seed: seed}.run(t, v)
			}
			t.Logf("%v; %d operations, %d promises", v.tally, v.operations, v.promises)
			if v.broken > 0 {
				t.Errorf("%d of %d images are broken:\n%s", v.broken, v.tally.Distinct(), strings.Join(v.faults, "\n"))
			}
			for _, kind := range []string{"log", "sst", "blob", "MANIFEST"} {
				if v.tally.Before[kind] == 0 && !raceDetector {
					t.Errorf("no image was taken at a change of a file of the kind %s", kind)
				}
			}
		})
	}
}

// TestCrashControls breaks one guarantee at a time: the checks must notice.
func TestCrashControls(t *testing.T) {
	unraced(t)
	for name, x := range map[string]crashRun{
		"commits are not synced":           {journals: 1, rounds: 15, unsynced: true},
		"commits are not synced, outboxes": {journals: 4, rounds: 15, unsynced: true},
		"readers do not wait for Durable":  {journals: 1, rounds: 25, trusting: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &crashResult{}
			for x.seed = 0; x.seed < 10 && !v.lost(); x.seed++ {
				x.run(t, v)
			}
			if !v.lost() {
				t.Errorf("%v, %d of them broken, and no loss was found", v.tally, v.broken)
			}
		})
	}
}

// TestCrashControlOfResuming does not resume outboxes of journals to themselves:
// some agent must never get its copy.
func TestCrashControlOfResuming(t *testing.T) {
	unraced(t)
	for _, journals := range []int{1, 4} {
		v := &crashResult{}
		for seed := uint64(0); seed < 10 && !v.copyMissing(); seed++ {
			crashRun{journals: journals, rounds: 15, seed: seed, forgetful: true}.run(t, v)
		}
		if !v.copyMissing() {
			t.Errorf("%d journals: %v, %d of them broken, and no missing copy was found", journals, v.tally, v.broken)
		}
	}
}
