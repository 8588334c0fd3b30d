package persistence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
)

// TestLatestIsDurableAfterItsReads: unlike a view, Latest shows what was written after it
// was opened; like a view, it is durable only when that is synced.
func TestLatestIsDurableAfterItsReads(t *testing.T) {
	s, disk := openWithSyncControl(t, 1, nil)
	view, latest := s.View(), s.Latest()
	open := disk.hold()
	released := appended(s, &journal.Entry{Rows: []journal.Row{{Table: journal.SlugTable, Key: []byte("acme"), Value: []byte("1")}}})
	sees := func(v journal.View) bool {
		_, found, err := v.Row(0, journal.SlugTable, []byte("acme"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for !sees(latest) {
		time.Sleep(time.Millisecond)
	}
	if sees(view) {
		t.Error("a view showed data written after it was opened")
	}
	if err := view.Durable(t.Context()); err != nil {
		t.Errorf("a view that showed nothing new waits: %v", err)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := latest.Durable(hurried); !errors.Is(err, parley.ErrOverloaded) {
		t.Errorf("unsynced data was shown, and Durable returned %v", err)
	}
	open()
	if err := errors.Join(latest.Durable(t.Context()), <-released); err != nil {
		t.Error(err)
	}
	view.Close()
	latest.Close()
	if n := s.readers.Load(); n != 0 {
		t.Errorf("%d readers are left", n)
	}
	mustClose(t, s)
	if _, _, err := s.Latest().State(newStream(1)); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// latestStore is a journal that uses Latest for all views.
type latestStore struct{ *Store }

func (n latestStore) View() journal.View { return n.Store.Latest() }

// TestLatestConforms: for a caller that makes one read at a time, Latest behaves like a
// view.
func TestLatestConforms(t *testing.T) {
	unraced(t)
	journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
		disk := vfs.NewCrashableMem()
		s := &conformanceStore{t: t, journals: journals, dir: "journal", fs: disk, shown: func(s *Store) journaltest.Journal {
			return journaltest.Journal{Journal: journal.Of(latestStore{s}), Close: s.Close}
		}}
		return s.harness(func() {
			disk = disk.CrashClone(vfs.CrashCloneCfg{})
			s.fs = disk
		})
	})
}
