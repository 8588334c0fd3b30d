package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/disk"
)

// checkpointPrefix begins the names of checkpoints in the store's own directory,
// where links cost nothing. Open removes what a crash left.
const checkpointPrefix = "checkpoint."

// checkpoints numbers checkpoints, so that two backups of a store at the same time
// use different directories.
var checkpoints atomic.Uint64

// checkpointing makes the checkpoints of a store.
type checkpointing struct{ *Store }

func (s checkpointing) lastCommit() disk.Head {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.head
}

// FS is the file system below the engine's, without retries: a caller that finds no
// space fails at once, and the store goes on.
func (s *Store) FS() vfs.FS { return s.plain }

// Now is the instant of the store's clock.
func (s *Store) Now() time.Time { return s.opts.Clock() }

// Checkpoint makes a directory of links to the tables and blob files that hold
// everything committed before the call, and perhaps later commits, without gaps. The store
// continues to serve. The caller removes the checkpoint; after an error there is
// none.
func (s *Store) Checkpoint(ctx context.Context) (*disk.Checkpoint, error) {
	dir := s.plain.PathJoin(s.dir, fmt.Sprint(checkpointPrefix, checkpoints.Add(1)))
	c := &disk.Checkpoint{FS: s.plain, Dir: dir, Commits: checkpointing{s}.lastCommit().Number}
	if err := (checkpointing{s}).makeCheckpoint(ctx, dir); err != nil {
		_ = c.Remove()
		return nil, err
	}
	return c, nil
}

// makeCheckpoint makes the directory. It leaves the log out: the content of the log is
// flushed to tables first, and a copy taken while the log is written may have a
// hole that looks like damage.
func (s checkpointing) makeCheckpoint(ctx context.Context, aside string) error {
	if !s.enter() {
		return journal.ErrClosed
	}
	defer s.readers.Add(-1)
	if err := s.requireSpace(); err != nil {
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

// requireSpace refuses a checkpoint if the store's disk is too full: the engine copies
// its log and manifest.
func (s checkpointing) requireSpace() error {
	fsys := s.plain
	names, err := fsys.List(s.dir)
	if err != nil {
		return err
	}
	need := int64(0)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-") {
			if info, err := fsys.Stat(fsys.PathJoin(s.dir, name)); err == nil {
				need += 2 * info.Size() // the log is also flushed to a table
			}
		}
	}
	return disk.NeedSpace(fsys, s.dir, need)
}

// removeLeft removes the checkpoints of interrupted backups, and snapshots that were
// received.
func removeLeft(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, checkpointPrefix) || strings.HasPrefix(name, receivedPrefix) {
			err = errors.Join(err, fsys.RemoveAll(fsys.PathJoin(dir, name)))
		}
	}
	return err
}
