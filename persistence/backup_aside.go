package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// checkpointPrefix begins the names of what Backup lays aside in the store's
// own directory, where links cost nothing. Open removes what a crash left.
const checkpointPrefix = "checkpoint."

// checkpoints numbers what is laid aside, so that two backups of a store at a
// time do not meet.
var checkpoints atomic.Uint64

func (s *Store) lastCommit() disk.Head {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.head
}

// layAside makes a directory of links to the tables that hold everything
// committed so far. The log is left out: what it held is flushed first, and a
// copy taken while it is written may have a hole that looks like rot.
func (s *Store) layAside(ctx context.Context, aside string) error {
	if !s.enter() {
		return journal.ErrClosed
	}
	defer s.readers.Add(-1)
	if err := s.roomAside(); err != nil {
		return err
	}
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-s.closing:
		return journal.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.db.Checkpoint(aside); err != nil {
		return err
	}
	fsys := s.plain
	names, err := fsys.List(aside)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			err = errors.Join(err, fsys.Remove(fsys.PathJoin(aside, name)))
		}
	}
	return err
}

// roomAside refuses a backup for which the store's own disk is too full: laying
// aside copies the log and what the engine notes of its tables.
func (s *Store) roomAside() error {
	fsys := s.plain
	names, err := fsys.List(s.dir)
	if err != nil {
		return err
	}
	need := int64(0)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-") {
			if info, err := fsys.Stat(fsys.PathJoin(s.dir, name)); err == nil {
				need += 2 * info.Size() // the log is flushed to a table besides
			}
		}
	}
	return room(fsys, s.dir, need)
}

// room refuses what would not fit. Where the file system does not tell, the
// write that fails will.
func room(fsys vfs.FS, dir string, need int64) error {
	usage, err := fsys.GetDiskUsage(dir)
	if err != nil || uint64(need) <= usage.AvailBytes {
		return nil
	}
	return fmt.Errorf("%s: %d bytes are needed and %d are free", dir, need, usage.AvailBytes)
}

// headIn opens what was laid aside or restored, for reading only, and gives its
// last commit and how many journals it has.
func headIn(fsys vfs.FS, dir string) (last disk.Head, journals int, err error) {
	db, err := pebble.Open(dir, &pebble.Options{
		FS: fsys, ReadOnly: true, Merger: layout.Merger, FormatMajorVersion: pebble.FormatNewest,
		CacheSize: 1 << 20, Logger: silent{}, EventListener: &pebble.EventListener{},
	})
	if err != nil {
		return disk.Head{}, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	quiet := &Store{db: db}
	if journals, _, err = quiet.readFormat(); err == nil {
		last, _, _, err = layout.LastHead(db, 0)
	}
	return last, journals, err
}

// silent is a logger for an engine that is opened to be looked at: what it meets
// comes back as an error.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// removeCheckpoints removes what backups that were cut short laid aside.
func removeCheckpoints(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, checkpointPrefix) {
			err = errors.Join(err, fsys.RemoveAll(fsys.PathJoin(dir, name)))
		}
	}
	return err
}
