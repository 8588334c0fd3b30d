package persistence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/journal"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// faultPlaces chooses, from the n operations of one kind, those that fail: the first, the
// last and one in between, or more.
func faultPlaces(n int64) []int64 {
	places := []int64{1, n / 2, n}
	switch {
	case raceDetector:
		places = places[1:2]
	case *exhaustive:
		places = []int64{1, 2, 3, n / 8, n / 4, n * 3 / 8, n / 2, n * 5 / 8, n * 3 / 4, n * 7 / 8, n - 1, n}
	}
	slices.Sort(places)
	places = slices.Compact(places)
	return slices.DeleteFunc(places, func(k int64) bool { return k < 1 || k > n })
}

// faultRuns are runs over copies of one directory.
type faultRuns struct {
	journals int
	base     *vfs.MemFS
	streams  []journal.Stream
	acked    map[journal.Stream]uint64
}

func newFaultRuns(t testing.TB, journals int) *faultRuns {
	x := &faultRuns{journals: journals}
	x.base, x.streams, x.acked = faultBase(t, journals)
	return x
}

// run tries one fault. It returns the outcome, and how often the disk failed.
func (x *faultRuns) run(t testing.TB, f fault, counted map[string]int64, change func(*Options)) (outcome string, hits int64) {
	o := &faultRun{
		t: t, mem: x.base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: seeded(1)}),
		disk: &faulty{fault: f, counts: counted}, streams: x.streams, acked: maps.Clone(x.acked),
		ended: make(chan struct{}), change: change,
	}
	outcome = o.run(x.journals)
	if o.files != nil && !raceDetector { // no goroutines meet in it
		o.checkSurvivors(x.journals)
	}
	return outcome, o.disk.hit.Load()
}

// TestDiskFaults makes the disk fail at many operations of every kind on every kind of
// file, once and permanently. In every case clients get correct answers, none waits
// forever, and the store either ends with the reason or rejects writes until the cause is
// gone.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	errs := []error{errIO, errNoSpace}
	if raceDetector {
		errs = errs[:1]
	}
	for _, journals := range []int{1, 4} {
		if raceDetector && journals == 1 {
			continue
		}
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			t.Parallel()
			x := newFaultRuns(t, journals)
			counts := map[string]int64{}
			if outcome, _ := x.run(t, fault{err: errIO}, counts, nil); outcome != faultHarmless {
				t.Fatalf("without a fault: %s", outcome)
			}
			var faults []fault
			for what, n := range counts {
				for _, at := range faultPlaces(n) {
					for _, err := range errs {
						faults = append(faults, fault{what, at, true, err})
						if !raceDetector {
							faults = append(faults, fault{what, at, false, err})
						}
					}
				}
			}
			tally := x.all(t, faults)
			logTally(t, tally)
			if raceDetector {
				return // of each kind one operation fails, and a slow run may not reach it
			}
			for _, what := range []string{"create", "write", "sync"} {
				for _, kind := range []string{"table", "blob"} {
					outcomes := tally[fmt.Sprintf("%s of %s, %v", what, kind, errIO)]
					if len(outcomes) == 0 || len(outcomes) == 1 && outcomes["not reached"] > 0 {
						t.Errorf("no %s of a %s failed: %v", what, kind, outcomes)
					}
				}
			}
		})
	}
}

// all tries faults, several at a time, and counts the outcomes of each kind.
func (x *faultRuns) all(t *testing.T, faults []fault) map[string]map[string]int {
	tally := map[string]map[string]int{}
	var mu sync.Mutex
	var running sync.WaitGroup
	free := make(chan struct{}, 8)
	for _, f := range faults {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			outcome, hits := x.run(t, f, nil, nil)
			if hits == 0 {
				outcome = "not reached"
			}
			mu.Lock()
			defer mu.Unlock()
			key := fmt.Sprintf("%s, %v", f.what, f.err)
			if tally[key] == nil {
				tally[key] = map[string]int{}
			}
			tally[key][outcome]++
		})
	}
	running.Wait()
	return tally
}

func logTally(t *testing.T, tally map[string]map[string]int) {
	var lines []string
	total := 0
	for what, outcomes := range tally {
		lines = append(lines, fmt.Sprintf("%-55s %v", what, outcomes))
		for outcome, n := range outcomes {
			total += count(outcome != "not reached") * n
		}
	}
	sort.Strings(lines)
	t.Logf("%d faults\n%s", total, strings.Join(lines, "\n"))
}

// recordedErrors collects the errors of a control instead of failing.
type recordedErrors struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (c *recordedErrors) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// TestDiskFaultsControl: a store that answers before the sync is noticed.
func TestDiskFaultsControl(t *testing.T) {
	unraced(t)
	t.Parallel()
	x := newFaultRuns(t, 1)
	var told []string
	for _, at := range []int64{6, 7, 8, 9} { // whether an answer precedes the failed sync is chance
		c := &recordedErrors{TB: t}
		outcome, hits := x.run(c, fault{"write of log", at, true, errIO}, nil, func(o *Options) { o.Unsynced = true })
		if outcome == faultEnded && hits > 0 && strings.Contains(strings.Join(c.said, " "), "lost:") {
			return
		}
		told = append(told, fmt.Sprintf("write %d: %s, %d hits: %v", at, outcome, hits, c.said))
	}
	t.Errorf("no loss was found: %v", told)
}

// TestPatienceControl: without retries the engine ends the process where it could wait
// for space or for a file descriptor, and retries a table thousands of times.
func TestPatienceControl(t *testing.T) {
	unraced(t)
	t.Parallel()
	x := newFaultRuns(t, 1)
	for _, c := range []struct {
		fault
		hasty bool
		want  string
	}{
		{fault{"write of log", 6, false, errNoSpace}, true, faultEnded},
		{fault{"write of log", 6, false, errNoSpace}, false, faultHarmless},
		// Without retries the engine ends the whole process, this one too.
		{fault{"create of log", 2, false, syscall.EMFILE}, false, faultHarmless},
	} {
		outcome, hits := x.run(t, c.fault, nil, func(o *Options) { o.noRetries = c.hasty })
		if outcome == faultRecovered {
			outcome = faultHarmless // trouble was seen while it waited
		}
		if outcome != c.want || hits != 1 {
			t.Errorf("%v, without retries %v: %s, want %s", c.fault, c.hasty, outcome, c.want)
		}
	}
	f := fault{"create of table", 3, true, errIO}
	_, patient := x.run(t, f, nil, nil)
	_, hasty := x.run(t, f, nil, func(o *Options) { o.noRetries = true })
	t.Logf("a table that cannot be written is tried %d times until trouble is reported, without the retrying file system %d times", patient, hasty)
	if patient > 40 || hasty < 10*patient {
		t.Error("the retries do not slow the engine down, or need not")
	}
}

// TestWitnessCannotBeWritten: while the witness cannot be written, nothing is
// admitted.
func TestWitnessCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &faulty{fault: fault{"sync of witness", 1, true, errIO}}
		disk.mended.Store(true)
		opts := testOptions(errorfs.Wrap(vfs.NewMem(), disk), 1)
		opts.Clock = time.Now
		s := mustOpen(t, "d", opts)
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		disk.mended.Store(false)
		if err := <-appended(s, &journal.Entry{Rows: []journal.Row{{Table: 1, Key: []byte("k")}}}); err != nil {
			t.Error(err)
		}
		if s.Trouble() != nil {
			t.Error("trouble was reported at once")
		}
		time.Sleep(time.Second)
		if s.Trouble() == nil {
			t.Error("the witness could not be written for a second, but entries are admitted")
		}
		disk.mended.Store(true)
		time.Sleep(time.Second)
		if s.Trouble() != nil {
			t.Error("the witness can be written again, but the store still reports trouble")
		}
		waitForWitness(t, s)
		mustClose(t, s)
	})
}
