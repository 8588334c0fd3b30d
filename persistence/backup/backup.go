package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// A backup directory holds snapshots of one or more stores:
//
//	files/SHA-256       what snapshots hold, each content once
//	snapshots/TIME      index of one snapshot: name, size and hash of its files
//	keyrings/IDENTITY   a store's keyring, as it is now
//	LOCK                held by the process that writes
//
// A store's tables and blob files never change once they are written, so a snapshot
// copies only what earlier snapshots lack. Contents are named by their hash, never by their file
// name: a store that was restored gives old names to new bytes. The price is that
// every backup reads the whole store; it writes only what is new.
//
// All snapshots of a store share one keyring, which every backup replaces: a key that
// was destroyed is destroyed for older snapshots too.
//
// An index is written last and atomically: a snapshot that is listed is complete.
const (
	contentFolder = "files"
	indexFolder   = "snapshots"
	keyringFolder = "keyrings"
	// unfinished is the suffix of files that are being written.
	unfinished = ".tmp"
	// MasterKeyName is the only file in a snapshot that is not the store's.
	MasterKeyName = "master.key"
	// journalPrefix begins the names of the store's files in a snapshot.
	journalPrefix = "journal/"
	// copyBytes are read at a time. Between two reads a copy can be cancelled.
	copyBytes = 1 << 20
)

// Errors of backups.
var (
	// ErrDamaged: a file of the backup directory is missing or does not match its
	// index.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrBusy: another backup is being written into the directory.
	ErrBusy = errors.New("another backup is being written there")
)

// Source is an open store. persistence.Store is one.
type Source interface {
	// Damage names a file that was found damaged, empty if none was.
	Damage() string
	// FS holds the store and the backup directory.
	FS() vfs.FS
	// Checkpoint makes a directory with everything committed before the call.
	Checkpoint(ctx context.Context) (*disk.Checkpoint, error)
	// Now is the instant of the store's clock.
	Now() time.Time
}

// Keyring is the keyring of a store. keyring.Keyring is one.
type Keyring interface {
	// Sync writes keys that are in use but not durable yet.
	Sync() error
	// State is what is durable now.
	State() disk.KeyringState
	// CopyTo makes a directory hold at least what is durable now.
	CopyTo(fsys vfs.FS, dir string) error
}

// Options say what goes where.
type Options struct {
	// To is the backup directory, on the store's file system interface. It is
	// created if it does not exist.
	To string
	// Owner is the name under which the snapshot is listed: Keep deletes no
	// snapshot of another owner.
	Owner string
	// Keep is how many of the newest snapshots of the Owner stay; 0 keeps all.
	// Contents that no snapshot needs are deleted with the others.
	Keep int
	// Keyring is the store's keyring; nil if it has none.
	Keyring Keyring
	// MasterKey is the content of the file MasterKeyName, which is stored with the journals;
	// nil leaves it out.
	MasterKey []byte
	// IndexKey authenticates the index to those who have it; nil if there is none.
	IndexKey []byte
	// Progress, if set, is called as the backup proceeds. It must not block.
	Progress func(Progress)
}

// Progress is how far a backup or a restore is, in bytes of its stage.
type Progress struct {
	// Stage is "read" while files are compared with those in the backup directory,
	// then "copy"; during a restore "restore", then "check".
	Stage string
	Done  int64
	Total int64
}

// Take writes a snapshot of the store into a backup directory while the store
// continues to serve. The snapshot holds everything that was acknowledged before
// the call, and perhaps some of what was acknowledged later, without gaps.
//
// A store with a damaged file is not backed up: its snapshot could replace intact
// ones.
func Take(ctx context.Context, s Source, o Options) (*Snapshot, error) {
	if file := s.Damage(); file != "" {
		return nil, fmt.Errorf("%w: %s; restore what was backed up before", disk.ErrDamaged, file)
	}
	w, err := openWriter(ctx, s.FS(), o.To, o.Progress)
	if err != nil {
		return nil, err
	}
	snapshot, err := w.backup(s, o)
	return snapshot, errors.Join(err, w.close())
}

func (w *writer) backup(s Source, o Options) (*Snapshot, error) {
	aside, err := s.Checkpoint(w.ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = aside.Remove() }()
	last, journals, err := headIn(w.fs, aside.Dir)
	if err != nil {
		return nil, err
	}
	if last.Number < aside.Commits {
		return nil, fmt.Errorf("%w: a snapshot ends at commit %d, and there were %d", disk.ErrDamaged, last.Number, aside.Commits)
	}
	snapshot := &Snapshot{Owner: o.Owner, Journals: journals, Commits: last.Number}
	if err := w.take(snapshot, aside.Dir, o.MasterKey); err != nil {
		return nil, err
	}
	if o.Keyring != nil {
		if err := w.copyKeyring(snapshot, o.Keyring); err != nil {
			return nil, err
		}
	}
	if err := w.list(snapshot, s.Now(), o.IndexKey); err != nil {
		return nil, err
	}
	if o.Keep > 0 {
		_, err = w.prune(o.Owner, o.Keep)
	}
	return snapshot, err
}

// copyKeyring replaces the store's keyring in the backup directory. The checkpoint was
// made before, so the copy has the keys of every organization in it.
func (w *writer) copyKeyring(snapshot *Snapshot, k Keyring) error {
	if err := disk.MakeDirectory(w.fs, w.fs.PathJoin(w.dir, keyringFolder)); err != nil {
		return err
	}
	if err := k.Sync(); err != nil { // State must cover every key that the checkpoint uses
		return fmt.Errorf("keys cannot be written: %w", err)
	}
	snapshot.Keyring = k.State()
	if err := k.CopyTo(w.fs, keyringPath(w.fs, w.dir, snapshot.Keyring)); err != nil {
		return fmt.Errorf("the keyring cannot be backed up: %w", err)
	}
	return nil
}

// keyringPath returns the directory of a keyring in a backup directory.
func keyringPath(fsys vfs.FS, dir string, state disk.KeyringState) string {
	return fsys.PathJoin(dir, keyringFolder, hex.EncodeToString(state.Identity[:]))
}

// writer is a backup directory that is being written.
type writer struct {
	ctx      context.Context
	fs       vfs.FS
	dir      string
	lock     *pebble.Lock
	progress func(Progress)
}

// openWriter creates the directory if it does not exist, locks it and removes what
// a crash left unfinished.
func openWriter(ctx context.Context, fsys vfs.FS, dir string, progress func(Progress)) (*writer, error) {
	w := &writer{ctx: ctx, fs: fsys, dir: dir, progress: progress}
	for _, path := range []string{dir, fsys.PathJoin(dir, contentFolder), fsys.PathJoin(dir, indexFolder)} {
		if err := disk.MakeDirectory(fsys, path); err != nil {
			return nil, fmt.Errorf("backup directory %s: %w", path, err)
		}
	}
	lock, err := pebble.LockDirectory(dir, fsys)
	if err != nil {
		return nil, fmt.Errorf("backup directory %s: %w (%w)", dir, ErrBusy, err)
	}
	w.lock = lock
	for _, path := range []string{fsys.PathJoin(dir, contentFolder), fsys.PathJoin(dir, indexFolder)} {
		names, err := fsys.List(path)
		for _, name := range names {
			if whole, cut := strings.CutSuffix(name, unfinished); cut && (isSum(whole) || isSnapshotName(whole)) {
				err = errors.Join(err, fsys.Remove(fsys.PathJoin(path, name)))
			}
		}
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *writer) close() error { return w.lock.Close() }

func (w *writer) tell(stage string, done, total int64) {
	if w.progress != nil {
		w.progress(Progress{Stage: stage, Done: done, Total: total})
	}
}

// take copies the files of the checkpoint aside, and those beside, into the backup
// directory and adds them to the snapshot.
func (w *writer) take(snapshot *Snapshot, aside string, masterKey []byte) error {
	if err := w.read(snapshot, aside); err != nil {
		return err
	}
	if masterKey != nil {
		snapshot.Files = append(snapshot.Files, File{Name: MasterKeyName, Size: int64(len(masterKey)), Sum: sum(masterKey)})
	}
	missing, need := w.missing(snapshot.Files)
	if err := disk.NeedSpace(w.fs, w.dir, need); err != nil {
		return err
	}
	done := int64(0)
	for _, f := range missing {
		source := io.ReadCloser(io.NopCloser(bytes.NewReader(masterKey)))
		if base, ok := strings.CutPrefix(f.Name, journalPrefix); ok {
			var err error
			if source, err = w.fs.Open(w.fs.PathJoin(aside, base), vfs.SequentialReadsOption); err != nil {
				return err
			}
		}
		err := w.bring(source, f.Sum, &done, need)
		if err = errors.Join(err, source.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	snapshot.Copied = need
	return disk.SyncDirectory(w.fs, w.fs.PathJoin(w.dir, contentFolder))
}

// read adds all files of aside to the snapshot, with their hashes.
func (w *writer) read(snapshot *Snapshot, aside string) error {
	names, err := w.fs.List(aside)
	if err != nil {
		return err
	}
	slices.Sort(names)
	total, done := int64(0), int64(0)
	for _, name := range names {
		info, err := w.fs.Stat(w.fs.PathJoin(aside, name))
		if err != nil {
			return err
		}
		if name != "LOCK" {
			total += info.Size()
			snapshot.Files = append(snapshot.Files, File{Name: journalPrefix + name, Size: info.Size()})
		}
	}
	for i := range snapshot.Files {
		f := &snapshot.Files[i]
		source, err := w.fs.Open(w.fs.PathJoin(aside, strings.TrimPrefix(f.Name, journalPrefix)), vfs.SequentialReadsOption)
		if err != nil {
			return err
		}
		h := sha256.New()
		f.Size, err = w.pour(h, source, "read", &done, total)
		if err = errors.Join(err, source.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		f.Sum = hex.EncodeToString(h.Sum(nil))
	}
	return nil
}

// missing returns the files that the backup directory does not hold, each content
// once, and their size.
func (w *writer) missing(files []File) (lacking []File, need int64) {
	seen := map[string]bool{}
	for _, f := range files {
		info, err := w.fs.Stat(contentPath(w.fs, w.dir, f.Sum))
		if seen[f.Sum] || err == nil && info.Size() == f.Size {
			continue
		}
		seen[f.Sum] = true
		lacking = append(lacking, f)
		need += f.Size
	}
	return lacking, need
}

func contentPath(fsys vfs.FS, dir, sum string) string {
	return fsys.PathJoin(dir, contentFolder, sum)
}

// bring stores one content under its hash: complete and synced, or not at all.
func (w *writer) bring(source io.Reader, want string, done *int64, total int64) error {
	path := contentPath(w.fs, w.dir, want)
	target, err := create(w.fs, path+unfinished)
	if err != nil {
		return err
	}
	h := sha256.New()
	// The hash comes first: writing a file may change the bytes passed to it.
	_, err = w.pour(io.MultiWriter(h, target), source, "copy", done, total)
	if err == nil {
		err = hashed(h, want)
	}
	if err == nil {
		err = target.Sync()
	}
	if err = errors.Join(err, target.Close()); err != nil {
		return errors.Join(err, w.fs.Remove(path+unfinished))
	}
	return w.fs.Rename(path+unfinished, path)
}

// hashed returns an error unless the content has the expected hash.
func hashed(h hash.Hash, want string) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("its hash is %s and should be %s", got, want)
	}
	return nil
}

// create creates a file that is synced as it grows, not all at the end. The umask
// makes it readable by its owner only: setting the mode afterwards would leave a
// moment in which others can open the file.
func create(fsys vfs.FS, path string) (vfs.File, error) {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: copyBytes}), nil
}

// pour copies and reports progress, until it is cancelled.
func (w *writer) pour(to io.Writer, from io.Reader, stage string, done *int64, total int64) (int64, error) {
	buffer := make([]byte, copyBytes)
	copied := int64(0)
	for {
		if err := context.Cause(w.ctx); err != nil {
			return copied, err
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return copied, err
			}
			copied, *done = copied+int64(n), *done+int64(n)
			w.tell(stage, *done, total)
		}
		if errors.Is(err, io.EOF) {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// list writes the index, which makes the snapshot visible. Its name is an instant
// that is later than those of all other snapshots, even if the clock goes back.
func (w *writer) list(snapshot *Snapshot, now time.Time, key []byte) error {
	names, err := snapshotNames(w.fs, w.dir)
	if err != nil {
		return err
	}
	now = now.UTC().Truncate(time.Millisecond)
	if len(names) > 0 {
		last, err := time.Parse(snapshotName, names[len(names)-1])
		if err == nil && !now.After(last) {
			now = last.Add(time.Millisecond)
		}
	}
	snapshot.Taken, snapshot.ID = now, now.Format(snapshotName)
	if key != nil {
		snapshot.mac = mac(key, snapshot.body())
	}
	path := w.fs.PathJoin(w.dir, indexFolder, snapshot.ID)
	f, err := create(w.fs, path+unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(snapshot.encode())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := w.fs.Rename(path+unfinished, path); err != nil {
		return err
	}
	return disk.SyncDirectory(w.fs, w.fs.PathJoin(w.dir, indexFolder))
}
