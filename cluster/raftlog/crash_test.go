package raftlog

import (
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/crashtest"
)

var crashLives = flag.Int("crash.lives", 20, "how many lives of a log TestCrash runs")

var fingerprintSeed = maphash.MakeSeed()

// fingerprint hashes all that a log holds.
func fingerprint(t testing.TB, s noted) uint64 {
	t.Helper()
	h := maphash.Hash{}
	h.SetSeed(fingerprintSeed)
	hard, _, err := s.InitialState()
	must(t, err)
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	before, err := s.Term(first - 1)
	must(t, err)
	_, _ = fmt.Fprintln(&h, hard.GetTerm(), hard.GetVote(), hard.GetCommit(), first, last, before, string(s.Note()))
	if last < first {
		return h.Sum64()
	}
	entries, err := s.Entries(first, last+1, 1<<40)
	must(t, err)
	for _, e := range entries {
		_, _ = fmt.Fprintln(&h, e.GetIndex(), e.GetTerm(), string(e.Data))
	}
	return h.Sum64()
}

// history is what was appended to a log over several lives.
type history struct {
	mu sync.Mutex
	// records are those that became turns; prints[n] is the log after the first n of them.
	records  []Record
	prints   []uint64
	promised int // how many of them a Sync has returned for
}

func (h *history) known() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.promised
}

// find returns the longest history that leads to a log, -1 if there is none.
func (h *history) find(print uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := len(h.prints) - 1; n >= 0; n-- {
		if h.prints[n] == print {
			return n
		}
	}
	return -1
}

// crashRun is a log that loses power again and again. The file system of each life is that
// of wrap.
type crashRun struct {
	seed  uint64
	lives int
	wrap  func(vfs.FS) vfs.FS
}

func crashOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.SegmentBytes, o.PendingBytes = 40<<10, 30<<10
	return o
}

// check opens an image and returns what is wrong with it.
func (h *history) check(t *testing.T, i crashtest.Image) (fault string) {
	l, err := Open(crashOptions(i.FS))
	if err != nil {
		return fmt.Sprintf("before %s: %v", i.Op, err)
	}
	was := fingerprint(t, l)
	switch n := h.find(was); {
	case n < 0:
		fault = fmt.Sprintf("before %s: the log was never like this", i.Op)
	case n < i.Known:
		fault = fmt.Sprintf("before %s: %d turns, %d are acknowledged", i.Op, n, i.Known)
	}
	// What a former crash left must not come back.
	again := i.FS
	if i.Number%2 == 0 {
		must(t, l.Close())
	} else {
		again = i.FS.CrashClone(vfs.CrashCloneCfg{})
		_ = l.Close()
	}
	if l, err = Open(crashOptions(again)); err != nil {
		return fmt.Sprintf("before %s: cannot be opened again: %v", i.Op, err)
	}
	if fingerprint(t, l) != was {
		fault = fmt.Sprintf("before %s: another log when it is opened again", i.Op)
	}
	must(t, l.Close())
	return fault
}

// live runs one life of the log and returns its faults.
func (x crashRun) live(t *testing.T, h *history, mem *vfs.MemFS, life uint64) (next *vfs.MemFS, faults []string, tally crashtest.Tally) {
	t.Helper()
	disk := crashtest.NewDisk(mem, testDir, x.seed*100+life, h.known)
	var mu sync.Mutex
	var inspectors, syncs sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspectors.Go(func() {
			for i := range disk.Images() {
				if fault := h.check(t, i); fault != "" {
					mu.Lock()
					faults = append(faults, fault)
					mu.Unlock()
				}
			}
		})
	}
	o := crashOptions(x.wrap(disk.FS()))
	l, m := mustOpen(t, o), newModel()
	for _, r := range h.records {
		m.append(t, r)
	}
	g := newGenerator(x.seed*100 + life)
	g.sizeMax, g.term = 3000, 1+life*1000
	before := len(h.records)
	for range 25 {
		r := g.record(m)
		m.append(t, r)
		h.mu.Lock()
		h.records = append(h.records, r)
		h.prints = append(h.prints, fingerprint(t, m))
		h.mu.Unlock()
		turn, err := l.Append(r)
		must(t, err)
		if l.Stats().Turns+uint64(before) < uint64(len(h.records)) { // an empty record is none
			h.mu.Lock()
			h.records, h.prints = h.records[:len(h.records)-1], h.prints[:len(h.prints)-1]
			h.mu.Unlock()
		}
		if g.rng.IntN(3) > 0 {
			syncs.Go(func() {
				must(t, l.Sync(turn))
				h.mu.Lock()
				h.promised = max(h.promised, before+int(turn))
				h.mu.Unlock()
			})
		}
		if g.rng.IntN(4) == 0 {
			syncs.Wait()
		}
	}
	syncs.Wait()
	next = disk.Lose([]int{0, 50, 90}[g.rng.IntN(3)])
	promised := h.known()
	must(t, l.Close())
	tally = disk.Stop()
	inspectors.Wait()
	h.promised = promised
	return next, faults, tally
}

// run returns the faults of all lives.
func (x crashRun) run(t *testing.T) (faults []string, tally crashtest.Tally) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	h := &history{prints: []uint64{fingerprint(t, newModel())}}
	for life := range uint64(x.lives) {
		next, wrong, taken := x.live(t, h, mem, life)
		tally.Add(taken)
		if faults = append(faults, wrong...); len(faults) > 0 {
			return faults, tally
		}
		l, err := Open(crashOptions(next))
		if err != nil {
			return append(faults, err.Error()), tally
		}
		n := h.find(fingerprint(t, l))
		if n < h.promised {
			return append(faults, fmt.Sprintf("after life %d: %d turns, %d are acknowledged", life, n, h.promised)), tally
		}
		// The log goes on from what survived.
		h.records, h.prints, h.promised = h.records[:n], h.prints[:n+1], n
		mem = next.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(x.seed, life))})
		_ = l.Close()
	}
	return faults, tally
}

// TestCrash opens what a power failure would leave at every write and sync of random runs,
// and goes on with some of that.
func TestCrash(t *testing.T) {
	var tally crashtest.Tally
	for seed := range uint64(*crashLives / 5) {
		faults, taken := crashRun{seed: seed, lives: 5, wrap: func(fs vfs.FS) vfs.FS { return fs }}.run(t)
		tally.Add(taken)
		if len(faults) > 0 {
			t.Fatalf("seed %d: %d faults: %q", seed, len(faults), faults[:min(len(faults), 3)])
		}
	}
	t.Log(tally)
	for _, kind := range []string{"raftlog", "witness"} {
		if tally.Before[kind] == 0 {
			t.Errorf("no image was taken at a change of a file of the kind %s", kind)
		}
	}
}

// unsyncedFS is a disk whose files are never synced.
type unsyncedFS struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) SyncData() error { return nil }

func (u unsyncedFS) OpenReadWrite(path string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := u.FS.OpenReadWrite(path, category, opts...)
	if _, ok := isSegment(u.PathBase(path)); err != nil || !ok {
		return f, err
	}
	return unsyncedFile{f}, nil
}

// TestCrashControl does not sync segments: a loss must be found.
func TestCrashControl(t *testing.T) {
	for seed := range uint64(5) {
		if faults, _ := (crashRun{seed: seed, lives: 2, wrap: func(fs vfs.FS) vfs.FS { return unsyncedFS{fs} }}).run(t); len(faults) > 0 {
			t.Logf("seed %d: %d faults, such as %s", seed, len(faults), faults[0])
			return
		}
	}
	t.Error("no loss was found in a log that is never synced")
}
