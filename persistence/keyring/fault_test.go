package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// faulty fails operations of the disk from one on, all of them or only that one.
type faulty struct {
	at      int64 // from 1; 0 fails none
	forever bool
	err     error
	seen    atomic.Int64
	mended  atomic.Bool
	// before is called before the first operation that fails.
	before func()
}

func (d *faulty) String() string {
	return fmt.Sprintf("%v at operation %d, for ever %v", d.err, d.at, d.forever)
}

func (d *faulty) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpGetDiskUsage || d.mended.Load() {
		return nil
	}
	n := d.seen.Add(1)
	if n == d.at && d.before != nil {
		d.before()
	}
	if d.at > 0 && (n == d.at || n > d.at && d.forever) {
		return d.err
	}
	return nil
}

// powerLosses are the percentages of unsynced data that a test tries.
var powerLosses = []int{0, 50, 100}

// afterPowerLoss returns what a power failure leaves.
func afterPowerLoss(mem *vfs.MemFS, kept int) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(uint64(kept), 3))})
}

// faultRun makes changes on a faulty disk. Every caller gets a true answer, and may
// repeat what failed once the disk is mended.
func faultRun(t *testing.T, files map[string][]byte, h *history, d *faulty) (refused int) {
	t.Helper()
	mem := fsWith(t, files)
	k := mustOpen(t, errorfs.Wrap(mem, works(d)), testDir)
	d.mended.Store(false)
	orgs := crashOrgs()
	failed := map[int]func() error{}
	for i := range 8 {
		step := func() error { return h.create(k, orgs[12+i]) }
		if i%2 == 1 {
			step = func() error { return h.destroy(k, orgs[i]) }
		}
		before := k.State()
		if err := step(); err != nil {
			if !errors.Is(err, d.err) || !strings.Contains(err.Error(), "shard ") {
				t.Errorf("%v: the reason is %v", d, err)
			}
			failed[i] = step
			if k.State() != before {
				t.Errorf("%v: what failed is shown", d)
			}
		}
	}
	for _, kept := range powerLosses {
		for _, f := range h.check(t, afterPowerLoss(mem, kept), h.known()) {
			t.Errorf("%v, %d%% of the unsynced kept: %s", d, kept, f)
		}
	}
	d.mended.Store(true)
	for i, step := range failed {
		if err := step(); err != nil {
			t.Errorf("%v: step %d, when the disk is mended: %v", d, i, err)
		}
	}
	for _, f := range h.check(t, afterPowerLoss(mem, 0), h.known()) {
		t.Errorf("%v: at the end: %s", d, f)
	}
	return len(failed)
}

// works returns a disk that works until it is not mended any more.
func works(d *faulty) *faulty {
	d.mended.Store(true)
	return d
}

// TestDiskFaults has the disk fail at every operation of some changes, once and for ever.
func TestDiskFaults(t *testing.T) {
	unraced(t)
	t.Parallel()
	base := newHistory()
	files := crashBase(t, base)
	count := &faulty{}
	if faultRun(t, files, base.clone(), count) != 0 {
		t.Fatal("changes fail on a disk that works")
	}
	step, runs, refused := int64(5), 0, 0
	if *exhaustive {
		step = 1
	}
	for at := int64(1); at <= count.seen.Load(); at += step {
		for i, forever := range []bool{false, true} {
			err := []error{syscall.EIO, syscall.ENOSPC}[(int(at)+i)%2]
			refused += faultRun(t, files, base.clone(), &faulty{at: at, forever: forever, err: err})
			runs++
		}
	}
	t.Logf("%d faults, %d changes failed", runs, refused)
	if refused < runs {
		t.Error("faults were not noticed")
	}
}

// clone copies a history, for another run from the same files.
func (h *history) clone() *history {
	promises, keys, erasing := h.promised(h.known())
	return &history{promises: promises, keys: keys, erasing: erasing}
}

// TestDiskFaultsOfOpening has the disk fail at every operation of an opening that repairs
// several shards: it fails with the reason, or succeeds, and loses nothing.
func TestDiskFaultsOfOpening(t *testing.T) {
	unraced(t)
	t.Parallel()
	h := newHistory()
	files := crashBase(t, h)
	files["05.a"], files["0a.b"], files["0f.b.tmp"] = files["05.a"][:9], flipped(files["0a.b"], 70), files["0f.b"]
	delete(files, "00.b")
	count := &faulty{}
	mustOpen(t, errorfs.Wrap(fsWith(t, files), count), testDir)
	all := count.seen.Load()
	refused, tried := 0, 0
	for at := int64(1); at <= all; at++ {
		if at < all-60 && (at%31 != 0 || !*exhaustive && at%155 != 0) {
			continue // reading one file is like reading another
		}
		for i, forever := range []bool{false, true} {
			err := []error{syscall.EIO, syscall.EMFILE}[(int(at)+i)%2]
			mem, d := fsWith(t, files), &faulty{at: at, forever: forever, err: err}
			_, said := Open(errorfs.Wrap(mem, d), testDir, testWrapping, Options{})
			tried++
			if said != nil {
				refused++
				if !strings.Contains(said.Error(), err.Error()) && !strings.Contains(said.Error(), "keyring") {
					t.Errorf("%v: the reason is %v", d, said)
				}
			}
			for _, kept := range powerLosses[:2] {
				for _, f := range h.check(t, afterPowerLoss(mem, kept), h.known()) {
					t.Errorf("%v, %d%% of the unsynced kept: %s", d, kept, f)
				}
			}
		}
	}
	t.Logf("%d faults of %d operations, %d openings refused", tried, all, refused)
	if refused == 0 || refused == tried {
		t.Error("the faults have no effect, or all of them prevent an opening")
	}
}

// TestMakeIsAtomic has the disk fail, and the power after it, while a keyring is made:
// there is a complete one, or none and another can be made.
func TestMakeIsAtomic(t *testing.T) {
	unraced(t)
	count := &faulty{}
	mem := vfs.NewCrashableMem()
	mustMake(t, errorfs.Wrap(mem, count), testDir)
	all, complete, none := count.seen.Load(), 0, 0
	for at := int64(1); at <= all; at++ {
		if at > 8 && at < all-12 && at%101 != 0 {
			continue
		}
		mem := vfs.NewCrashableMem()
		d := &faulty{at: at, forever: true, err: syscall.EIO}
		if err := Make(errorfs.Wrap(mem, d), testDir, testWrapping, nil); !errors.Is(err, syscall.EIO) && at < all-1 {
			t.Errorf("%v: %v", d, err)
		}
		for _, kept := range powerLosses {
			left := afterPowerLoss(mem, kept)
			if _, err := left.Stat(testDir); errors.Is(err, fs.ErrNotExist) {
				none++
				mustMake(t, left, testDir)
			} else {
				complete++
			}
			mustOpen(t, left, testDir)
			if _, err := left.Stat(testDir + unfinished); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: an unfinished directory stays (%v)", d, err)
			}
		}
	}
	if complete == 0 || none == 0 {
		t.Errorf("%d complete, %d without", complete, none)
	}
	mustOpen(t, afterPowerLoss(mem, 0), testDir)
}

// TestTwoFaults has a rewrite of a shard fail at every operation, and the next one, with
// other content, at every operation too, where the power fails. What the first one stored
// must not be taken for the second, nor the other way round.
func TestTwoFaults(t *testing.T) {
	unraced(t)
	t.Parallel()
	const operations = 12 // of a rewrite
	base := newHistory()
	files := crashBase(t, base)
	step := int64(3)
	if *exhaustive {
		step = 1
	}
	shard := byte(5)
	for first := int64(1); first <= operations; first++ {
		for second := 1 + first%step; second <= operations+1; second += step {
			mem, h, d := fsWith(t, files), base.clone(), &faulty{at: first, err: syscall.EIO}
			k := mustOpen(t, errorfs.Wrap(mem, works(d)), testDir)
			d.mended.Store(false)
			one := h.destroy(k, crashOrgs()[1])
			if shardOf(crashOrgs()[1]) != shard || one == nil {
				t.Fatalf("%v: the first rewrite succeeds", d)
			}
			d.seen.Store(0)
			d.at, d.forever = second, true
			two := h.create(k, orgIn(shard, 2000))
			if (two == nil) != (second > operations) {
				t.Errorf("operations %d, then %d: %v", first, second, two)
			}
			if _, state := k.Key(crashOrgs()[1]); (state == Erased) != (two == nil) {
				t.Errorf("operations %d, then %d: a destruction that failed leaves state %d", first, second, state)
			}
			for _, kept := range powerLosses {
				for _, f := range h.check(t, afterPowerLoss(mem, kept), h.known()) {
					t.Errorf("operations %d, then %d, %d%% of the unsynced kept: %s", first, second, kept, f)
				}
			}
		}
	}
}
