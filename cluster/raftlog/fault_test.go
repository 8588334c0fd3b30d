package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

// TestFailedDisk fails one operation on a segment: everything fails from then on, although
// the disk works again, and what was acknowledged before is there.
func TestFailedDisk(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWriteAt, errorfs.OpFileSyncData, errorfs.OpOpen} {
		var armed atomic.Bool
		mem := vfs.NewCrashableMem()
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind && strings.HasSuffix(op.Path, segmentSuffix) && armed.CompareAndSwap(true, false) {
				return syscall.ENOSPC
			}
			return nil
		}))
		l := mustOpen(t, testOptions(fs))
		acknowledged := 0
		var failure error
		for i := uint64(1); failure == nil && i < 100; i++ {
			if i == 20 {
				armed.Store(true)
			}
			turn, err := l.Append(Record{Entries: entriesOf(i, 1, 300)})
			must(t, err)
			if failure = l.Sync(turn); failure == nil {
				acknowledged++
			}
		}
		if !disk.NoSpace(failure) || acknowledged < 19 {
			t.Fatalf("kind %v: %v after %d syncs", kind, failure, acknowledged)
		}
		_, err := l.Append(Record{Entries: entriesOf(1, 1, 1)})
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(l.Sync(1), syscall.ENOSPC) || !errors.Is(l.Close(), syscall.ENOSPC) || !errors.Is(l.Close(), syscall.ENOSPC) {
			t.Errorf("kind %v: the log goes on: %v", kind, err)
		}
		l = mustOpen(t, testOptions(mem.CrashClone(vfs.CrashCloneCfg{})))
		if last, _ := l.LastIndex(); last < uint64(acknowledged) {
			t.Errorf("kind %v: %d entries, %d are acknowledged", kind, last, acknowledged)
		}
		must(t, l.Close())
	}
}

// TestRefusals checks the errors that leave the log as it was.
func TestRefusals(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.New = false
	if _, err := Open(o); !errors.Is(err, ErrNone) {
		t.Errorf("no log: %v", err)
	}
	o.New = true
	l := mustOpen(t, o)
	_, err := l.Append(Record{Entries: entriesOf(1, 3, 10)})
	must(t, err)
	for what, r := range map[string]Record{
		"a gap":                    {Entries: entriesOf(5, 1, 1)},
		"a gap inside":             {Entries: append(entriesOf(4, 1, 1), entriesOf(6, 1, 1)...)},
		"a lower term":             {Entries: []*raftpb.Entry{entry(4, 0, 1)}},
		"a cut of unknown term":    {Cut: Position{Index: 9}},
		"a record that is too big": {Entries: entriesOf(4, 1, 2<<20)},
	} {
		if _, err := l.Append(r); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if last, _ := l.LastIndex(); last != 3 {
		t.Errorf("the last index is %d", last)
	}
	must(t, l.Close())
	if _, err := l.Append(Record{}); !errors.Is(err, ErrClosed) || !errors.Is(l.Close(), ErrClosed) {
		t.Errorf("a closed log: %v", err)
	}
	o.ID, o.New = 8, false
	if _, err := Open(o); !errors.Is(err, disk.ErrDamaged) {
		t.Errorf("another replica opens the log: %v", err)
	}
}

// TestInFlight checks that four syncs run at the same time, and that the callers beyond
// them share one.
func TestInFlight(t *testing.T) {
	var held atomic.Bool
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, segmentSuffix) && held.Load() {
			arrived <- struct{}{}
			<-release
		}
		return nil
	}))
	l := mustOpen(t, testOptions(fs))
	held.Store(true)
	var syncs sync.WaitGroup
	for i := range uint64(12) {
		turn, err := l.Append(Record{Entries: entriesOf(i+1, 1, 10)})
		must(t, err)
		syncs.Go(func() { must(t, l.Sync(turn)) })
		if i < syncsMax {
			<-arrived
		}
	}
	close(release)
	syncs.Wait()
	if n := l.Stats().Syncs; n < syncsMax+1 || n > syncsMax+8 {
		t.Errorf("%d syncs", n)
	}
	held.Store(false)
	// A commit index alone waits for nothing.
	before := l.Stats().Syncs
	turn, err := l.Append(Record{HardState: &raftpb.HardState{Commit: new(uint64(9))}})
	must(t, err)
	must(t, l.Sync(turn))
	if now := l.Stats().Syncs; now != before {
		t.Errorf("a commit index was synced")
	}
	must(t, l.Close())
	l = mustOpen(t, testOptions(fs))
	if hard, _, _ := l.InitialState(); hard.GetCommit() != 9 {
		t.Errorf("hard state %v after closing", hard)
	}
	must(t, l.Close())
}

// TestConcurrent appends, syncs, cuts and reads at the same time.
func TestConcurrent(t *testing.T) {
	l := mustOpen(t, testOptions(vfs.NewMem()))
	var work sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				first, _ := l.FirstIndex()
				last, _ := l.LastIndex()
				entries, err := l.Entries(first, last+1, 20000)
				if err != nil && !strings.Contains(err.Error(), "unavailable") {
					t.Error(err)
				}
				for i, e := range entries {
					if want := entry(first+uint64(i), 1, 200); e.String() != want.String() {
						t.Errorf("entry %v, want %v", e, want)
					}
				}
			}
		})
	}
	var syncs sync.WaitGroup
	for i := range uint64(2000) {
		r := Record{Entries: entriesOf(i+1, 1, 200)}
		if i%100 == 99 {
			r.Cut.Index = i - 50
		}
		turn, err := l.Append(r)
		must(t, err)
		syncs.Go(func() { must(t, l.Sync(turn)) })
		if i%16 == 0 {
			syncs.Wait()
		}
	}
	syncs.Wait()
	close(stop)
	work.Wait()
	if s := l.Stats(); s.Segments > 10 || s.CachedBytes > 3000 {
		t.Errorf("%+v", s)
	}
	must(t, l.Close())
}

// TestSpace measures what files take beyond the entries.
func TestSpace(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.SegmentBytes = 4 << 20
	l := mustOpen(t, o)
	payload, files := 0, int64(0)
	for i := uint64(1); payload < 30<<20; i += 64 {
		turn, err := l.Append(Record{Entries: entriesOf(i, 64, 1740), HardState: &raftpb.HardState{Term: new(uint64(1)), Commit: new(i - 1)}})
		must(t, err)
		must(t, l.Sync(turn))
		payload += 64 * 1740
	}
	names, err := mem.List(testDir)
	must(t, err)
	for _, name := range names {
		info, err := mem.Stat(mem.PathJoin(testDir, name))
		must(t, err)
		files += info.Size()
	}
	s := l.Stats()
	must(t, l.Close())
	report := fmt.Sprintf("%d bytes of entries, %d in files (%.4f), %d in records (%.4f), %d syncs for %d turns",
		payload, files, float64(files)/float64(payload), s.Bytes, float64(s.Bytes)/float64(payload), s.Syncs, s.Turns)
	t.Log(report)
	if float64(files) > 1.02*float64(payload) {
		t.Error(report)
	}
}
