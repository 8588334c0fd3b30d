package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
	"parley/persistence/keyring"
	"parley/persistence/layout"
)

// restoring is the name of the journals' directory until it is complete.
const restoring = "journal" + unfinished

// RestoreOptions say what goes where.
type RestoreOptions struct {
	// FS is where both directories lie; nil is the operating system's.
	FS vfs.FS
	// From is the backup directory; Snapshot one of its snapshots, the newest if
	// empty.
	From, Snapshot string
	// To is the data directory to create. It must be empty or not exist.
	To string
	// Progress, if set, is called as the restore proceeds. It must not block.
	Progress func(Progress)
}

// Restore creates a data directory from a snapshot: its journals in the folder
// journal, ready to be opened, and the master key next to it, if the
// snapshot has it. It
// checks the hash of every file. After an error, which names the damaged or missing
// file, nothing is left.
func Restore(ctx context.Context, o RestoreOptions) (*Snapshot, error) {
	fsys := orDefault(o.FS)
	s, err := chooseSnapshot(fsys, o.From, o.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := empty(fsys, o.To); err != nil {
		return nil, err
	}
	made := missingDirectories(fsys, o.To)
	err = disk.MakeDirectory(fsys, o.To)
	if err == nil {
		err = disk.NeedSpace(fsys, o.To, s.Bytes())
	}
	if err == nil {
		err = restore(ctx, fsys, s, o)
	}
	if err == nil {
		return s, nil
	}
	_ = fsys.RemoveAll(fsys.PathJoin(o.To, restoring))
	_ = fsys.Remove(fsys.PathJoin(o.To, restoredIndex))
	for _, f := range s.Files {
		if !strings.HasPrefix(f.Name, journalPrefix) {
			_ = fsys.Remove(fsys.PathJoin(o.To, f.Name))
		}
	}
	for _, dir := range made {
		_ = fsys.Remove(dir) // a directory that is not empty stays
	}
	return nil, err
}

// missingDirectories returns dir and its parents as far as they do not exist, the
// innermost first.
func missingDirectories(fsys vfs.FS, dir string) (missing []string) {
	for dir = fsys.PathJoin(dir, "."); ; dir = fsys.PathDir(dir) {
		if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == fsys.PathDir(dir) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// empty refuses a directory that is not empty, except for what file systems create
// themselves.
func empty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
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

func restore(ctx context.Context, fsys vfs.FS, s *Snapshot, o RestoreOptions) error {
	aside := fsys.PathJoin(o.To, restoring)
	if err := fsys.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	w := &writer{ctx: ctx, fs: fsys, dir: o.From, progress: o.Progress}
	done := int64(0)
	for _, f := range s.Files {
		path := fsys.PathJoin(o.To, f.Name)
		if base, ok := strings.CutPrefix(f.Name, journalPrefix); ok {
			path = fsys.PathJoin(aside, base)
		}
		target, err := create(fsys, path)
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
	state, err := restoreKeyring(fsys, o.From, aside, s)
	if err != nil {
		return err
	}
	if err := witnessRestored(fsys, aside, s, state); err != nil {
		return err
	}
	if err := keepIndex(fsys, o.To, s); err != nil {
		return err
	}
	for _, dir := range []string{aside, o.To} {
		if err := disk.SyncDirectory(fsys, dir); err != nil {
			return err
		}
	}
	if err := fsys.Rename(aside, fsys.PathJoin(o.To, "journal")); err != nil {
		return err
	}
	return disk.SyncDirectory(fsys, o.To)
}

// keepIndex writes the index into the data directory, for CheckRestored.
func keepIndex(fsys vfs.FS, to string, s *Snapshot) error {
	f, err := create(fsys, fsys.PathJoin(to, restoredIndex))
	if err != nil {
		return err
	}
	_, err = f.Write(s.encode())
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// witnessRestored checks that the restored journals match the index, and gives them
// a durability witness of their own: from here on they diverge from the store that
// was backed up. It records the restored keyring.
func witnessRestored(fsys vfs.FS, dir string, s *Snapshot, state disk.KeyringState) error {
	last, journals, err := headIn(fsys, dir)
	if other := (layout.OtherFormatError{}); errors.As(err, &other) {
		return fmt.Errorf("snapshot %s: %w", s.ID, err)
	}
	if err != nil {
		return fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, s.ID, err)
	}
	if last.Number != s.Commits || journals != s.Journals {
		return fmt.Errorf("%w: snapshot %s has %d commits in %d journals, its index says %d in %d", ErrDamaged, s.ID, last.Number, journals, s.Commits, s.Journals)
	}
	w, err := disk.MakeWitness(fsys, dir, last)
	if err != nil {
		return err
	}
	w.NoteKeyring(state)
	return errors.Join(w.Write(), w.Write(), w.Close(), fsys.Remove(fsys.PathJoin(dir, "LOCK")))
}

// restoreKeyring copies the keyring of a snapshot beside its journals, and returns what
// it has.
func restoreKeyring(fsys vfs.FS, from, aside string, s *Snapshot) (disk.KeyringState, error) {
	if !s.Keyring.Known() {
		return disk.KeyringState{}, nil
	}
	state, err := keyring.Restore(fsys, keyringPath(fsys, from, s.Keyring), fsys.PathJoin(aside, disk.KeyringName))
	if err == nil {
		err = s.Keyring.Check(state)
	}
	return state, keyringDamaged(s, err)
}

// keyringDamaged adds to damage of a keyring which snapshot it belongs to.
func keyringDamaged(s *Snapshot, err error) error {
	if errors.Is(err, disk.ErrDamaged) {
		return fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, s.ID, err)
	}
	return err
}

// checkKeyring checks the keyring of a snapshot as far as that is possible without its
// key.
func checkKeyring(fsys vfs.FS, dir string, s *Snapshot) error {
	if !s.Keyring.Known() {
		return nil
	}
	state, err := keyring.CheckBackup(fsys, keyringPath(fsys, dir, s.Keyring))
	if err == nil {
		err = s.Keyring.Check(state)
	}
	return keyringDamaged(s, err)
}

// fetch reads a content of the backup directory and checks it.
func (w *writer) fetch(to io.Writer, f File, stage string, done *int64, total int64) error {
	path := contentPath(w.fs, w.dir, f.Sum)
	damaged := func(err error) error { return fmt.Errorf("%w: %s (%s): %w", ErrDamaged, path, f.Name, err) }
	source, err := disk.OpenRegular(w.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(errors.New("it is missing"))
	}
	if errors.Is(err, disk.ErrNotRegular) {
		return damaged(disk.ErrNotRegular)
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

// Check reads everything that a snapshot of a backup directory needs, the newest if
// snapshot is empty, and returns an error if anything is not as it was written. A
// nil fsys is the operating system's.
func Check(ctx context.Context, fsys vfs.FS, dir, snapshot string, progress func(Progress)) (*Snapshot, error) {
	fsys = orDefault(fsys)
	s, err := chooseSnapshot(fsys, dir, snapshot)
	if err != nil {
		return nil, err
	}
	w := &writer{ctx: ctx, fs: fsys, dir: dir, progress: progress}
	done := int64(0)
	err = checkKeyring(fsys, dir, s)
	for _, f := range s.Files {
		err = errors.Join(err, w.fetch(io.Discard, f, "check", &done, s.Bytes()))
		if context.Cause(ctx) != nil {
			break
		}
	}
	return s, err
}
