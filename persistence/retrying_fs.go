package persistence

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// roomEvery is how often a write that found no room is tried again.
	roomEvery = 50 * time.Millisecond
	// pauseLeast and the others are how long after a failure the engine may begin
	// another table; it would do so at once, for ever. What is in memory is
	// urgent, a compaction that found no room is not.
	pauseLeast      = 50 * time.Millisecond
	flushPause      = time.Second
	compactionPause = 5 * time.Second
)

// retryingFS is the disk as the engine sees it. The engine cannot go on when its
// log or its manifest finds no room: it ends the process. Here such a write
// waits until there is room and is done again; meanwhile Trouble speaks. What
// a table needs is not waited for, because giving it up is what makes room: it
// fails after a pause.
//
// Nothing but want of room is ever tried again, and never a sync: after one
// that failed nobody knows what is stored.
type retryingFS struct {
	vfs.FS
	s *Store
	// dir is the store's directory, spelled as paths in it are.
	dir string
}

func newRetryingFS(fs vfs.FS, s *Store) retryingFS {
	return retryingFS{FS: fs, s: s, dir: fs.PathJoin(s.dir)}
}

// Unwrap is part of the engine's contract with file systems.
func (p retryingFS) Unwrap() vfs.FS { return p.FS }

// fileUse is what a file is for, as far as a failure to write it is concerned.
type fileUse int

const (
	// otherUse: the failure is its owner's business.
	otherUse fileUse = iota
	// vitalUse: without it the engine cannot go on.
	vitalUse
	// flushUse and compactionUse are tables.
	flushUse
	compactionUse
	// directoryUse is the store's directory itself: what was made in it may be
	// gone where its entries cannot be synced.
	directoryUse
)

// use of a file in the store's directory. Those of a backup lie elsewhere.
func (p retryingFS) use(path string, category vfs.DiskWriteCategory) fileUse {
	name := p.PathBase(path)
	switch {
	case p.PathDir(path) != p.dir || name == witnessName:
		return otherUse
	case !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob"):
		return vitalUse
	case category == "pebble-memtable-flush":
		return flushUse
	}
	return compactionUse
}

func noRoom(err error) bool {
	return err != nil && (vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT))
}

// try does what may find no room, again where that is worth waiting for.
func (p retryingFS) try(use fileUse, path string, do func() error) error {
	err := do()
	if err == nil {
		return nil
	}
	if use == vitalUse && noRoom(err) && p.s.disk.watched.Load() {
		err = p.s.awaitRoom(path, err, do)
	}
	if err != nil {
		p.s.failed(use, path, err)
	}
	return err
}

// file gives a file that was made in the same way.
func (p retryingFS) file(path string, category vfs.DiskWriteCategory, do func() (vfs.File, error)) (f vfs.File, err error) {
	use := p.use(path, category)
	err = p.try(use, path, func() (err error) {
		f, err = do()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &retryingFile{File: f, fs: p, path: path, use: use}, nil
}

func (p retryingFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	p.s.holdOff(p.use(path, category))
	f, err := p.file(path, category, func() (vfs.File, error) { return p.FS.Create(path, category) })
	return p.followed(f, path), err
}

func (p retryingFS) OpenReadWrite(path string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.file(path, category, func() (vfs.File, error) { return p.FS.OpenReadWrite(path, category, opts...) })
}

func (p retryingFS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := p.letGo(old)
	if err != nil && p.s.disk.watched.Load() {
		err = p.s.awaitWitness(err)
	}
	if err != nil {
		return nil, err
	}
	f, err := p.file(path, category, func() (vfs.File, error) { return p.FS.ReuseForWrite(old, path, category) })
	return p.followed(f, path), err
}

func (p retryingFS) Remove(path string) error {
	if err := p.letGo(path); err != nil {
		return err
	}
	return p.FS.Remove(path)
}

// followed has what is written to a file noted, where the inventory tells of its
// kind.
func (p retryingFS) followed(f vfs.File, path string) vfs.File {
	number, kind, ok := fileOf(p.PathBase(path))
	if f == nil || !ok || p.PathDir(path) != p.dir {
		return f
	}
	if kind == markerFile {
		p.s.witness.files.move(number)
		return f
	}
	if kind == logFile {
		p.s.witness.files.begun(number)
		p.s.witness.again()
	}
	f.(*retryingFile).hash = newHashingWriter(number, kind)
	return f
}

// letGo strikes a file out of the inventory before it is removed. A log that was
// struck out nowhere but here would be missed after a crash.
func (p retryingFS) letGo(path string) error {
	number, kind, ok := fileOf(p.PathBase(path))
	switch {
	case !ok || p.PathDir(path) != p.dir:
	case kind == manifestFile:
		p.s.witness.files.drop(number)
	case kind == logFile && p.s.witness.files.forget(number):
		return p.s.witness.write()
	}
	return nil
}

// Open is watched while the store is being opened: what cannot be read then is
// the reason why it fails.
func (p retryingFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.Open(path, opts...)
	if p.s.disk.watched.Load() {
		return f, err
	}
	p.s.disk.read.Store(&path)
	if err != nil {
		p.s.failed(otherUse, path, err)
		return nil, err
	}
	return &retryingFile{File: f, fs: p, path: path}, nil
}

func (p retryingFS) OpenDir(path string) (vfs.File, error) {
	f, err := p.FS.OpenDir(path)
	if err != nil || p.PathJoin(path) != p.dir {
		return f, err
	}
	return &retryingFile{File: f, fs: p, path: path, use: directoryUse}, nil
}

func (p retryingFS) Rename(old, path string) error {
	return p.try(p.use(path, vfs.WriteCategoryUnspecified), path, func() error { return p.FS.Rename(old, path) })
}

func (p retryingFS) Link(old, path string) error {
	return p.try(p.use(path, vfs.WriteCategoryUnspecified), path, func() error { return p.FS.Link(old, path) })
}

// retryingFile is a file of a patient disk.
type retryingFile struct {
	vfs.File
	fs   retryingFS
	path string
	use  fileUse
	hash *hashingWriter // nil where nobody follows
}

func (f *retryingFile) Write(b []byte) (n int, err error) {
	if f.use == compactionUse && f.fs.s.disk.scarce() {
		f.fs.s.failed(f.use, f.path, errReserved)
		return 0, errReserved
	}
	if f.hash != nil {
		f.hash.wrote(b) // before a file system may use the bytes for something else
	}
	err = f.fs.try(f.use, f.path, func() error {
		m, err := f.File.Write(b[n:]) // what found room stays
		n += m
		return err
	})
	if err != nil {
		f.hash = nil // nobody knows what is there
	}
	f.fs.s.disk.spend(n)
	return n, err
}

func (f *retryingFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	return n, f.seen(err)
}

func (f *retryingFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	return n, f.seen(err)
}

func (f *retryingFile) seen(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		f.fs.s.failed(otherUse, f.path, err)
	}
	return err
}

func (f *retryingFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fs.s.failed(f.use, f.path, err)
	}
	return info, err
}

func (f *retryingFile) Close() error {
	err := f.File.Close()
	if err != nil {
		f.fs.s.failed(f.use, f.path, err)
		return err
	}
	if f.hash != nil && f.hash.kind == logFile {
		w := f.fs.s.witness
		w.files.finished(f.hash.now())
		if err := w.write(); err != nil {
			w.again()
		}
	}
	return nil
}

func (f *retryingFile) Sync() error     { return f.synced(f.File.Sync()) }
func (f *retryingFile) SyncData() error { return f.synced(f.File.SyncData()) }

func (f *retryingFile) synced(err error) error {
	if err != nil {
		f.fs.s.failed(f.use, f.path, err)
		return err
	}
	w := f.fs.s.witness
	switch {
	case f.hash != nil && f.hash.kind == manifestFile:
		w.files.synced(f.hash.now())
		w.again()
	case f.use == directoryUse && w != nil && w.files.settle():
		w.again()
	}
	return nil
}

// errReserved is why a compaction gets no more room.
var errReserved = noRoomError{"the rest of the disk is kept for the log"}

type noRoomError struct{ why string }

func (e noRoomError) Error() string { return e.why }
func (e noRoomError) Unwrap() error { return syscall.ENOSPC }

// awaitRoom does something again until there is room or the store closes.
func (s *Store) awaitRoom(path string, err error, do func() error) error {
	s.disk.starved.Add(1)
	defer s.disk.starved.Add(-1)
	s.opts.Logger.Error("the disk is full: the journal waits for room", "file", path, "error", err)
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for noRoom(err) {
		select {
		case <-s.closing:
			return err
		case <-tick.C:
		}
		err = do()
	}
	if err == nil {
		s.opts.Logger.Warn("there is room again: the journal goes on", "file", path)
	}
	return err
}

// awaitWitness writes the witness again until that succeeds or the store closes.
// Trouble speaks meanwhile.
func (s *Store) awaitWitness(err error) error {
	s.disk.witnessing.CompareAndSwap(0, s.age())
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for err != nil {
		s.opts.Logger.Error("the journal waits for its witness", "file", witnessName, "error", err)
		select {
		case <-s.closing:
			return err
		case <-tick.C:
		}
		err = s.witness.write()
	}
	s.witness.again()
	return nil
}

// failed notes that a file could not be written. Without some the process ends;
// an opening cannot do without tables either, and would try for ever.
func (s *Store) failed(use fileUse, path string, err error) {
	d := &s.disk
	d.trouble.Store(&failure{path, err})
	now := s.age()
	switch use {
	case vitalUse, directoryUse:
		// The engine would end the process too, now or when it cannot be opened
		// without, but it does not always say why.
		s.opts.Fatal(fmt.Errorf("%s cannot be written: %w", path, err))
	case flushUse:
		d.flushFailed.Store(now)
		d.flushFailures.Add(1)
		if !d.flushing.CompareAndSwap(0, now) && !d.watched.Load() && time.Duration(now-d.flushing.Load()) > stallPatience {
			s.opts.Fatal(fmt.Errorf("opening %s: %s cannot be written: %w", s.dir, path, err))
		}
	case compactionUse:
		d.compactionFailed.Store(now)
		d.compactionFailures.Add(1)
	}
}

// holdOff keeps the engine from beginning a table at once where the last ones
// failed. Nothing of it lies on the disk meanwhile.
func (s *Store) holdOff(use fileUse) {
	d := &s.disk
	var failures, last int64
	pause := flushPause
	switch use {
	case flushUse:
		failures, last = d.flushFailures.Load(), d.flushFailed.Load()
	case compactionUse:
		failures, last, pause = d.compactionFailures.Load(), d.compactionFailed.Load(), compactionPause
	}
	if failures == 0 {
		return
	}
	pause = min(pauseLeast<<min(failures-1, 8), pause) - time.Duration(s.age()-last)
	select {
	case <-s.closing:
	case <-time.After(pause):
	}
}

// flushed and compacted note that tables can be written again.
func (d *disk) flushed(err error) {
	if err == nil {
		d.flushing.Store(0)
		d.flushFailures.Store(0)
	}
}

func (d *disk) compacted(err error) {
	if err == nil {
		d.compactionFailures.Store(0)
	}
}

// failure is what the disk refused last.
type failure struct {
	path string
	err  error
}

// why puts what the disk refused last behind a reason that may not name it.
func (d *disk) why(reason error) error {
	if last := d.trouble.Load(); last != nil && !errors.Is(reason, last.err) {
		return fmt.Errorf("%w (%s: %w)", reason, last.path, last.err)
	}
	return reason
}
