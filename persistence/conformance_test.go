package persistence

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/journaltest"
)

// conformanceStore is the store, disk and clock of one journal under test.
type conformanceStore struct {
	t        *testing.T
	journals int
	dir      string
	fs       vfs.FS
	ahead    atomic.Int64
	store    *Store
	// shown wraps the store for the suite; nil if it is not wrapped.
	shown func(*Store) journaltest.Journal
}

func (s *conformanceStore) now() time.Time { return testStart.Add(time.Duration(s.ahead.Load())) }

func (s *conformanceStore) open() journaltest.Journal {
	s.t.Helper()
	opts := testOptions(s.fs, s.journals)
	opts.Clock, opts.MemTableBytes = s.now, 256<<10
	store, err := Open(s.dir, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.store = store; s.shown != nil {
		return s.shown(store)
	}
	return journaltest.Journal{Journal: store.Journal, Close: store.Close}
}

func (s *conformanceStore) close() {
	if err := s.store.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

func (s *conformanceStore) harness(crash func()) journaltest.Harness {
	s.t.Cleanup(func() { s.close() })
	return journaltest.Harness{
		Journal: s.open(),
		Reopen:  func() journaltest.Journal { s.close(); return s.open() },
		Crash: func() journaltest.Journal {
			before := s.store
			crash()
			journal := s.open()
			if err := before.Close(); err != nil {
				s.t.Errorf("close the abandoned store: %v", err)
			}
			return journal
		},
		Clock:   s.now,
		Advance: func(d time.Duration) { s.ahead.Add(int64(d)) },
	}
}

func TestConformanceInMemory(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
		disk := vfs.NewCrashableMem()
		s := &conformanceStore{t: t, journals: journals, dir: "journal", fs: disk}
		return s.harness(func() {
			disk = disk.CrashClone(vfs.CrashCloneCfg{})
			s.fs = disk
		})
	})
}

func TestConformanceOnDisk(t *testing.T) {
	unraced(t)
	journaltest.Run(t, func(t *testing.T, journals int) journaltest.Harness {
		s := &conformanceStore{t: t, journals: journals, dir: filepath.Join(t.TempDir(), "journal")}
		return s.harness(func() { s.dir = copyDirectory(t, s.dir) })
	})
}

// copyDirectory copies a directory as a killed process would leave it: everything
// written, synced or not, except the lock. The store is still open, so it repeats the
// copy until no file changes meanwhile.
func copyDirectory(t *testing.T, from string) string {
	t.Helper()
	var err error
	for range 100 {
		to := filepath.Join(t.TempDir(), "journal")
		before := listing(from)
		if err = copyFiles(from, to); err == nil && listing(from) == before {
			return to
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the directory keeps changing (%v)", err)
	return ""
}

// listing lists a directory with sizes and modification times.
func listing(dir string) string {
	var text strings.Builder
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintln(&text, path, info.Size(), info.ModTime())
		}
		return nil
	})
	return text.String()
}

func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil || entry.Name() == "LOCK" {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}
