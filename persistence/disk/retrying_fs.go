package disk

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// retryEvery is how often a write that found no space is retried.
	retryEvery = 50 * time.Millisecond
	// After a failed table the engine starts the next attempt at once, for ever.
	// These bound the pause before it: it doubles from pauseLeast up to flushPause,
	// or compactionPause, which is less urgent than freeing memory.
	pauseLeast      = 50 * time.Millisecond
	flushPause      = time.Second
	compactionPause = 5 * time.Second
)

// RetryingFS is the file system as the engine sees it. The engine ends the process
// when its log or its manifest cannot be written for lack of space. Here such a
// write waits until there is space and is retried; meanwhile Monitor.Trouble
// reports a full disk. Writes of tables do not wait, because abandoning a table
// is what frees space: they fail after a pause.
//
// A lack of file descriptors is treated in the same way. Nothing else is ever retried, and
// never a sync: after a failed sync it is unknown what is stored.
type RetryingFS struct {
	vfs.FS
	m *Monitor
	// dir is the data directory, spelled as in the paths of its files.
	dir string
}

// RetryingFS is the Monitor's file system with retries.
func (m *Monitor) RetryingFS() RetryingFS {
	return RetryingFS{FS: m.aheadFS(), m: m, dir: m.o.FS.PathJoin(m.o.Dir)}
}

// Unwrap is the file system below. The engine asks for it.
func (p RetryingFS) Unwrap() vfs.FS { return p.FS }

// fileUse classifies a file by what a failure to write it means.
type fileUse int

const (
	// otherUse: the caller handles the failure.
	otherUse fileUse = iota
	// vitalUse: the engine cannot go on without it.
	vitalUse
	// flushUse and compactionUse are tables and blob files.
	flushUse
	compactionUse
	// directoryUse is the data directory itself: files made in it may disappear
	// unless its entries are synced.
	directoryUse
)

// RaftLog is the category of the files of a cluster's log, which lie beside the data directory.
const RaftLog vfs.DiskWriteCategory = "raft-log"

// use classifies a path. Files outside the data directory, such as those of a
// backup, are otherUse.
func (p RetryingFS) use(path string, category vfs.DiskWriteCategory) fileUse {
	name := p.PathBase(path)
	switch {
	case category == RaftLog:
		return vitalUse
	case p.PathDir(path) != p.dir || name == WitnessName:
		return otherUse
	case !IsTable(name):
		return vitalUse
	case category == "pebble-memtable-flush":
		return flushUse
	}
	return compactionUse
}

// NoSpace reports whether an error means that the disk, or a quota, is full.
func NoSpace(err error) bool {
	return err != nil && (vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT))
}

// passing reports whether an error may end by itself: the disk is full, or no file descriptor is
// free.
func passing(err error) bool {
	return NoSpace(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// try runs do and, where lack of space is worth waiting for, retries it.
func (p RetryingFS) try(use fileUse, path string, do func() error) error {
	attempt := do
	if use == vitalUse {
		attempt = func() error { return p.m.AwaitSpace(path, do) }
	}
	err := attempt()
	if err != nil {
		p.m.failed(use, path, err)
	}
	return err
}

// file makes a file in the same way.
func (p RetryingFS) file(path string, category vfs.DiskWriteCategory, do func() (vfs.File, error)) (f vfs.File, err error) {
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

func (p RetryingFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	p.m.holdOff(p.use(path, category))
	f, err := p.file(path, category, func() (vfs.File, error) { return p.FS.Create(path, category) })
	return p.followed(f, path), err
}

func (p RetryingFS) OpenReadWrite(path string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.file(path, category, func() (vfs.File, error) { return p.FS.OpenReadWrite(path, category, opts...) })
}

func (p RetryingFS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := p.letGo(old)
	if err != nil && p.m.watched.Load() {
		err = p.m.awaitWitness(err)
	}
	if err != nil {
		return nil, err
	}
	f, err := p.file(path, category, func() (vfs.File, error) { return p.FS.ReuseForWrite(old, path, category) })
	return p.followed(f, path), err
}

func (p RetryingFS) Remove(path string) error {
	if err := p.letGo(path); err != nil {
		return err
	}
	return p.FS.Remove(path)
}

// followed attaches a hashing writer to a file whose checksum the witness records.
func (p RetryingFS) followed(f vfs.File, path string) vfs.File {
	number, kind, ok := fileOf(p.PathBase(path))
	if f == nil || !ok || p.PathDir(path) != p.dir {
		return f
	}
	if kind == markerFile {
		p.m.witness.files.move(number)
		return f
	}
	if kind == logFile {
		p.m.witness.files.begun(number)
		p.m.witness.again()
	}
	f.(*retryingFile).hash = newHashingWriter(number, kind)
	return f
}

// letGo removes a file from the checksum list before the file itself is removed.
// For a log the witness is written at once: otherwise, after a crash, it would
// still demand a log that is gone.
func (p RetryingFS) letGo(path string) error {
	number, kind, ok := fileOf(p.PathBase(path))
	switch {
	case !ok || p.PathDir(path) != p.dir:
	case kind == manifestFile:
		p.m.witness.files.drop(number)
	case kind == logFile && p.m.witness.files.forget(number):
		return p.m.witness.Write()
	}
	return nil
}

// Open is traced while the store is being opened: a file that cannot be read then
// is the reason why the opening fails.
func (p RetryingFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.Open(path, opts...)
	if p.m.watched.Load() {
		return f, err
	}
	p.m.read.Store(&path)
	if err != nil {
		p.m.failed(otherUse, path, err)
		return nil, err
	}
	return &retryingFile{File: f, fs: p, path: path}, nil
}

func (p RetryingFS) OpenDir(path string) (vfs.File, error) {
	f, err := p.FS.OpenDir(path)
	if err != nil || p.PathJoin(path) != p.dir {
		return f, err
	}
	return &retryingFile{File: f, fs: p, path: path, use: directoryUse}, nil
}

func (p RetryingFS) Rename(old, path string) error {
	return p.try(p.use(path, vfs.WriteCategoryUnspecified), path, func() error { return p.FS.Rename(old, path) })
}

func (p RetryingFS) Link(old, path string) error {
	return p.try(p.use(path, vfs.WriteCategoryUnspecified), path, func() error { return p.FS.Link(old, path) })
}

// retryingFile is a file of a RetryingFS.
type retryingFile struct {
	vfs.File
	fs   RetryingFS
	path string
	use  fileUse
	hash *hashingWriter // nil where no checksum is kept
}

func (f *retryingFile) Write(b []byte) (n int, err error) {
	if f.use == compactionUse && f.fs.m.scarce() {
		f.fs.m.failed(f.use, f.path, errReserved)
		return 0, errReserved
	}
	if f.hash != nil {
		f.hash.wrote(b) // before the file system may overwrite the bytes
	}
	err = f.fs.try(f.use, f.path, func() error {
		wrote, err := f.File.Write(b[n:]) // what was written stays
		n += wrote
		return err
	})
	if err != nil {
		f.hash = nil // the content is unknown
	}
	f.fs.m.spend(n)
	return n, err
}

func (f *retryingFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.try(f.use, f.path, func() error {
		wrote, err := f.File.WriteAt(b[n:], at+int64(n))
		n += wrote
		return err
	})
	f.fs.m.spend(n)
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
		f.fs.m.failed(otherUse, f.path, err)
	}
	return err
}

func (f *retryingFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fs.m.failed(f.use, f.path, err)
	}
	return info, err
}

func (f *retryingFile) Close() error {
	err := f.File.Close()
	if err != nil {
		f.fs.m.failed(f.use, f.path, err)
		return err
	}
	if f.hash != nil && f.hash.kind == logFile {
		w := f.fs.m.witness
		w.files.finished(f.hash.now())
		if err := w.Write(); err != nil {
			w.again()
		}
	}
	return nil
}

func (f *retryingFile) Sync() error     { return f.synced(f.File.Sync()) }
func (f *retryingFile) SyncData() error { return f.synced(f.File.SyncData()) }

func (f *retryingFile) synced(err error) error {
	if err != nil {
		f.fs.m.failed(f.use, f.path, err)
		return err
	}
	w := f.fs.m.witness
	switch {
	case f.hash != nil && f.hash.kind == manifestFile:
		w.files.synced(f.hash.now())
		w.again()
	case f.use == directoryUse && w != nil && w.files.settle():
		w.again()
	}
	return nil
}

// errReserved: compactions may not use the space that is left.
var errReserved = noSpaceError{"the rest of the disk is kept for the log"}

type noSpaceError struct{ why string }

func (e noSpaceError) Error() string { return e.why }
func (e noSpaceError) Unwrap() error { return syscall.ENOSPC }

// AwaitSpace calls do, which writes a file outside the engine or one that it cannot go on
// without. While there is no space or no descriptor, do is retried, until the store closes.
func (m *Monitor) AwaitSpace(path string, do func() error) error {
	err := do()
	if passing(err) && m.watched.Load() {
		err = m.awaitSpace(path, err, do)
	}
	return err
}

// awaitSpace retries do until there is space or the store closes.
func (m *Monitor) awaitSpace(path string, err error, do func() error) error {
	waits, lack := &m.starved, "the disk is full: the journal waits for space"
	if !NoSpace(err) {
		waits, lack = &m.filesShort, "no file descriptor is free: the journal waits for one"
	}
	waits.Add(1)
	defer waits.Add(-1)
	m.o.Logger.Error(lack, "file", path, "error", err)
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for passing(err) {
		select {
		case <-m.o.Closing:
			return err
		case <-tick.C:
		}
		err = do()
	}
	if err == nil {
		m.o.Logger.Warn("the journal continues", "file", path)
	}
	return err
}

// awaitWitness writes the witness again until that succeeds or the store closes.
// Meanwhile Trouble reports a stalled disk.
func (m *Monitor) awaitWitness(err error) error {
	m.witnessing.CompareAndSwap(0, m.Age())
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for err != nil {
		m.o.Logger.Error("the journal waits for its witness", "file", WitnessName, "error", err)
		select {
		case <-m.o.Closing:
			return err
		case <-tick.C:
		}
		err = m.witness.Write()
	}
	m.witness.again()
	return nil
}

// failed notes that a file could not be written. If the engine cannot go on
// without it the process ends; while the store is being opened, also if tables
// cannot be written for Options.Patience, because the opening would retry for ever.
func (m *Monitor) failed(use fileUse, path string, err error) {
	m.trouble.Store(&failure{path, err})
	now := m.Age()
	switch use {
	case vitalUse, directoryUse:
		// The engine would end the process too, now or at the next opening, but it
		// does not always name the reason.
		m.o.Fatal(fmt.Errorf("%s cannot be written: %w", path, err))
	case flushUse:
		m.flushFailed.Store(now)
		m.flushFailures.Add(1)
		if !m.flushing.CompareAndSwap(0, now) && !m.watched.Load() && time.Duration(now-m.flushing.Load()) > m.o.Patience {
			m.o.Fatal(fmt.Errorf("opening %s: %s cannot be written: %w", m.o.Dir, path, err))
		}
	case compactionUse:
		m.compactionFailed.Store(now)
		m.compactionFailures.Add(1)
	}
}

// holdOff delays the start of a table after failed ones. During the pause the
// table takes no space on the disk.
func (m *Monitor) holdOff(use fileUse) {
	var failures, last int64
	pause := flushPause
	switch use {
	case flushUse:
		failures, last = m.flushFailures.Load(), m.flushFailed.Load()
	case compactionUse:
		failures, last, pause = m.compactionFailures.Load(), m.compactionFailed.Load(), compactionPause
	}
	if failures == 0 {
		return
	}
	pause = min(pauseLeast<<min(failures-1, 8), pause) - time.Duration(m.Age()-last)
	select {
	case <-m.o.Closing:
	case <-time.After(pause):
	}
}

// flushed notes a success: tables can be written again.
func (m *Monitor) flushed(err error) {
	if err == nil {
		m.flushing.Store(0)
		m.flushFailures.Store(0)
	}
}

// compacted notes the end of a compaction. The engine begins one that failed again at
// once, for ever where it cannot read a blob file: the next one waits (see holdOff).
func (m *Monitor) compacted(err error) {
	switch {
	case err == nil:
		m.compactionFailures.Store(0)
	case !errors.Is(err, pebble.ErrCancelledCompaction):
		m.compactionFailed.Store(m.Age())
		m.compactionFailures.Add(1)
	}
}

// failure is the last error of the file system.
type failure struct {
	path string
	err  error
}

// Explain adds the last failure of the file system to an error of the engine that
// may not name it.
func (m *Monitor) Explain(reason error) error {
	if last := m.trouble.Load(); last != nil && !errors.Is(reason, last.err) {
		return fmt.Errorf("%w (%s: %w)", reason, last.path, last.err)
	}
	return reason
}
