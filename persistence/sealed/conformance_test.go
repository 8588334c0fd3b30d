package sealed

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/journaltest"
	"parley/persistence/seal/sealtest"
)

var testStart = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// testOrg owns what tests of the suite append, which know no owners.
var testOrg = parley.NewID[parley.OrgID](3, testStart, [10]byte{1})

// layered is a layer as the suite uses it. It gives owners to everything
// that has none.
type layered struct {
	journal.Journal
	owner journal.Owners
}

func (l *layered) Append(e *journal.Entry) {
	l.own(&e.Owners)
	for i := range e.Hosted {
		l.own(&e.Hosted[i].Owners)
	}
	for i := range e.Rows {
		l.own(&e.Rows[i].Owners)
	}
	for i := range e.Records {
		l.own(&e.Records[i].Owners)
	}
	for i, w := range e.Effects {
		switch w := w.(type) {
		case journal.CreateStream:
			l.own(&w.Owners)
			e.Effects[i] = w
		case journal.PutRow:
			l.own(&w.Owners)
			e.Effects[i] = w
		}
	}
	l.Journal.Append(e)
}

func (l *layered) own(o *journal.Owners) {
	if o.Zero() {
		*o = l.owner
	}
}

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
		disk, sealer := vfs.NewCrashableMem(), sealtest.Sealer()
		var ahead atomic.Int64
		var store *persistence.Store
		clock := func() time.Time { return testStart.Add(time.Duration(ahead.Load())) }
		open := func() journaltest.Journal {
			t.Helper()
			var err error
			store, err = persistence.Open("journal", persistence.Options{
				FS: disk, Journals: journals, Clock: clock, Logger: slog.New(slog.DiscardHandler),
				CacheBytes: 1 << 20, MemTableBytes: 256 << 10,
			})
			if err != nil {
				t.Fatal(err)
			}
			layer := &layered{New(store.Journal, sealer), journal.OwnedBy(testOrg)}
			return journaltest.Journal{Journal: journal.Of(layer), Close: store.Close}
		}
		closeStore := func(s *persistence.Store) {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		t.Cleanup(func() { closeStore(store) })
		return journaltest.Harness{
			Journal: open(),
			Reopen:  func() journaltest.Journal { closeStore(store); return open() },
			Crash: func() journaltest.Journal {
				before := store
				disk = disk.CrashClone(vfs.CrashCloneCfg{})
				j := open()
				closeStore(before)
				return j
			},
			Clock:   clock,
			Advance: func(d time.Duration) { ahead.Add(int64(d)) },
		}
	})
}
