package persistence_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/journaltest"
	"parley/persistence/replicatest"
)

// replicas are the stores of one group. They are used as one journal: the leader takes
// entries, and a follower serves reads.
type replicas struct {
	t        *testing.T
	journals int
	group    *replicatest.Group
	disks    []*vfs.MemFS
	members  []*replicatest.Member
	ahead    atomic.Int64
	open     *oneJournal
}

func (s *replicas) now() time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(s.ahead.Load()))
}

// oneJournal is a group as its users see it.
type oneJournal struct {
	*persistence.Store // of a follower
	leader             *persistence.Store
	group              *replicas
	stores             []*persistence.Store
	released           chan func()
	releasing          sync.WaitGroup
	closed             sync.Once
	over               chan struct{}
}

// isOver reports whether the stores are closed. An entry may still wait for its effects
// in other journals then.
func (j *oneJournal) isOver() bool {
	select {
	case <-j.over:
		return true
	default:
		return false
	}
}

// then runs fn after everything that was given before.
func (j *oneJournal) then(fn func()) {
	select {
	case j.released <- fn:
	case <-j.over:
		fn()
	}
}

func (s *replicas) openAll() *oneJournal {
	s.t.Helper()
	j := &oneJournal{group: s, released: make(chan func()), over: make(chan struct{})}
	for n, fs := range s.disks {
		store, err := persistence.Open("journal", persistence.Options{
			FS: fs, Journals: s.journals, Clock: s.now, Logger: slog.New(slog.DiscardHandler), MemTableBytes: 256 << 10, CacheBytes: 1 << 20, StallPatience: time.Minute,
			Sequencer: s.members[n],
			Fatal:     func(err error) { s.t.Errorf("fatal: %v", err) },
		})
		if err != nil {
			s.t.Fatal(err)
		}
		j.stores = append(j.stores, store)
	}
	j.leader, j.Store = j.stores[0], j.stores[len(j.stores)-1]
	s.open = j
	j.releasing.Go(func() {
		for {
			select {
			case release := <-j.released:
				release()
			case <-j.over:
				return
			}
		}
	})
	return j
}

// tested is the journal as the suite uses it.
func (j *oneJournal) tested() journaltest.Journal {
	return journaltest.Journal{Journal: journal.Of(j), Close: j.Close}
}

// Start implements journal.Writer.
func (j *oneJournal) Start(onQueue func(journal.Stream), onTimer func(journal.Stream, time.Time)) error {
	for n, store := range j.stores {
		if err := store.Start(onQueue, onTimer); err != nil {
			return err
		}
		r, err := store.Replica()
		if err != nil {
			return err
		}
		j.group.members[n].Attach(r)
	}
	if err := j.group.group.Lead(j.group.members[0]); err != nil {
		return err
	}
	return j.Store.Fence(context.Background())
}

// Append gives the entry to the leader. It is released when the follower shows it.
func (j *oneJournal) Append(e *journal.Entry) {
	given := *e
	given.Release = func(err error) {
		j.then(func() {
			if fence := j.Store.Fence(context.Background()); fence != nil && !j.isOver() {
				j.group.t.Errorf("fence: %v", fence)
			}
			if e.Release != nil {
				e.Release(err)
			}
		})
	}
	if e.Applied != nil {
		given.Applied = func() { j.then(e.Applied) }
	}
	j.leader.Append(&given)
}

func (j *oneJournal) Admit(slot parley.Slot, size int) (func(), error) {
	return j.leader.Admit(slot, size)
}

func (j *oneJournal) NextActivation() uint64 { return j.leader.NextActivation() }

func (j *oneJournal) Overloaded() *parley.Refusal { return j.leader.Overloaded() }

func (j *oneJournal) Settle(ctx context.Context) error {
	if err := j.leader.Settle(ctx); err != nil {
		return err
	}
	return j.Store.Fence(ctx)
}

func (j *oneJournal) Close() (err error) {
	j.closed.Do(func() {
		_ = j.leader.Settle(context.Background()) // an orderly end
		for n := range j.stores {
			j.group.members[n].Detach()
		}
		for _, store := range j.stores {
			if failed := store.Close(); failed != nil {
				err = failed
			}
		}
		close(j.over)
		j.releasing.Wait()
	})
	return err
}

func (s *replicas) closeAll() {
	if err := s.open.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// TestConformanceOfReplicas: a leader and a follower are one journal. A power failure
// takes back what neither has flushed, and the order brings it again.
func TestConformanceOfReplicas(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
		s := &replicas{t: t, journals: journals}
		s.group = replicatest.NewGroup(time.Now, nil, func(err error) { t.Errorf("a replica cannot apply: %v", err) })
		for range 2 {
			s.disks, s.members = append(s.disks, vfs.NewCrashableMem()), append(s.members, s.group.Join())
		}
		t.Cleanup(s.closeAll)
		return journaltest.Harness{
			Journal: s.openAll().tested(),
			Reopen:  func() journaltest.Journal { s.closeAll(); return s.openAll().tested() },
			Crash: func() journaltest.Journal {
				before := s.open
				for n := range s.disks {
					s.members[n].Detach() // before the image: the group outlives the crash
					s.disks[n] = s.disks[n].CrashClone(vfs.CrashCloneCfg{})
				}
				after := s.openAll()
				if err := before.Close(); err != nil {
					t.Errorf("close the abandoned stores: %v", err)
				}
				return after.tested()
			},
			Clock:    s.now,
			Advance:  func(d time.Duration) { s.ahead.Add(int64(d)) },
			Follower: true,
		}
	})
}
