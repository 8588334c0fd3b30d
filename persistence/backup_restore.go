package persistence

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// restoring is what the journals' directory is called until all of it is there.
const restoring = "journal" + unfinished

// RestoreOptions say what goes where.
type RestoreOptions struct {
	// FS is where both directories lie; nil is the operating system's.
	FS vfs.FS
	// From is the backup directory; Snapshot one of its snapshots, the newest if
	// empty.
	From, Snapshot string
	// To is the data directory to make. There must be nothing in it.
	To string
	// Progress, if set, is told how far the restore is.
	Progress func(BackupProgress)
}

// Restore makes a data directory of a snapshot: its journals in the folder
// journal, ready to be opened, what travelled beside them next to it. Every
// file's hash is checked; what is damaged or missing is named, and then nothing
// is left behind.
func Restore(ctx context.Context, o RestoreOptions) (*Snapshot, error) {
	disk := orDefault(o.FS)
	s, err := chooseSnapshot(disk, o.From, o.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := empty(disk, o.To); err != nil {
		return nil, err
	}
	made := missingDirectories(disk, o.To)
	err = makeDirectory(disk, o.To)
	if err == nil {
		err = room(disk, o.To, s.Bytes())
	}
	if err == nil {
		err = restore(ctx, disk, s, o)
	}
	if err == nil {
		return s, nil
	}
	_ = disk.RemoveAll(disk.PathJoin(o.To, restoring))
	for _, f := range s.Files {
		if !strings.HasPrefix(f.Name, journalPrefix) {
			_ = disk.Remove(disk.PathJoin(o.To, f.Name))
		}
	}
	for _, dir := range made {
		_ = disk.Remove(dir) // one that others have put something into stays
	}
	return nil, err
}

// missingDirectories are dir and what it lies in as far as it is not there, the
// innermost first.
func missingDirectories(disk vfs.FS, dir string) (missing []string) {
	for dir = disk.PathJoin(dir, "."); ; dir = disk.PathDir(dir) {
		if _, err := disk.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == disk.PathDir(dir) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// empty refuses a directory that has something in it, but for what makers of
// file systems leave there.
func empty(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if name != "lost+found" {
			return fmt.Errorf("%s is not empty (it has %s): restore into a new directory", dir, name)
		}
	}
	return err
}

func restore(ctx context.Context, disk vfs.FS, s *Snapshot, o RestoreOptions) error {
	aside := disk.PathJoin(o.To, restoring)
	if err := disk.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	w := &backupWriter{ctx: ctx, fs: disk, dir: o.From, progress: o.Progress}
	done := int64(0)
	for _, f := range s.Files {
		path := disk.PathJoin(o.To, f.Name)
		if base, ok := strings.CutPrefix(f.Name, journalPrefix); ok {
			path = disk.PathJoin(aside, base)
		}
		target, err := create(disk, path)
		if err != nil {
			return err
		}
		err = w.fetch(target, f, "restore", &done, s.Bytes())
		if err == nil {
			err = target.Sync()
		}
		if err = errors.Join(err, target.Close()); err != nil {
			return err
		}
	}
	if err := witnessRestored(disk, aside, s); err != nil {
		return err
	}
	for _, dir := range []string{aside, o.To} {
		if err := syncDirectory(disk, dir); err != nil {
			return err
		}
	}
	if err := disk.Rename(aside, disk.PathJoin(o.To, "journal")); err != nil {
		return err
	}
	return syncDirectory(disk, o.To)
}

// witnessRestored opens what was restored, sees that it is what the index says,
// and gives it a witness of its own: from here on it lives another life than the
// store that it is a copy of.
func witnessRestored(disk vfs.FS, dir string, s *Snapshot) error {
	last, journals, err := headIn(disk, dir)
	if err != nil {
		return fmt.Errorf("%w: snapshot %s: %w", ErrBackupDamaged, s.ID, err)
	}
	if last.number != s.Commits || journals != s.Journals {
		return fmt.Errorf("%w: snapshot %s has %d commits in %d journals, its index says %d in %d", ErrBackupDamaged, s.ID, last.number, journals, s.Commits, s.Journals)
	}
	w, err := makeWitness(disk, dir, last)
	if err != nil {
		return err
	}
	return errors.Join(w.file.Close(), disk.Remove(disk.PathJoin(dir, "LOCK")))
}

// fetch reads a content of the backup directory and checks it.
func (w *backupWriter) fetch(to io.Writer, f BackupFile, stage string, done *int64, total int64) error {
	path := contentPath(w.fs, w.dir, f.Sum)
	damaged := func(err error) error { return fmt.Errorf("%w: %s (%s): %w", ErrBackupDamaged, path, f.Name, err) }
	source, err := w.fs.Open(path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(errors.New("it is missing"))
	}
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := w.pour(io.MultiWriter(h, to), source, stage, done, total)
	if err = errors.Join(err, source.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n != f.Size {
		return damaged(fmt.Errorf("it has %d bytes and should have %d", n, f.Size))
	}
	if err := hashed(h, f.Sum); err != nil {
		return damaged(err)
	}
	return nil
}

// CheckBackup reads all that a snapshot of a backup directory needs, the newest
// if it is not named, and refuses what is not as it was written. A nil disk is
// the operating system's.
func CheckBackup(ctx context.Context, disk vfs.FS, dir, snapshot string, progress func(BackupProgress)) (*Snapshot, error) {
	disk = orDefault(disk)
	s, err := chooseSnapshot(disk, dir, snapshot)
	if err != nil {
		return nil, err
	}
	w := &backupWriter{ctx: ctx, fs: disk, dir: dir, progress: progress}
	done := int64(0)
	for _, f := range s.Files {
		err = errors.Join(err, w.fetch(io.Discard, f, "check", &done, s.Bytes()))
		if context.Cause(ctx) != nil {
			break
		}
	}
	return s, err
}
