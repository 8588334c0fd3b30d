package disk

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errReadOnly = errors.New("the directory is opened for reading only")

// ReadOnlyFS is a file system that refuses every change.
type ReadOnlyFS struct{ vfs.FS }

// Create refuses.
func (ReadOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link refuses.
func (ReadOnlyFS) Link(string, string) error { return errReadOnly }

// MkdirAll refuses.
func (ReadOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnly }

// Remove refuses.
func (ReadOnlyFS) Remove(string) error { return errReadOnly }

// RemoveAll refuses.
func (ReadOnlyFS) RemoveAll(string) error { return errReadOnly }

// Rename refuses.
func (ReadOnlyFS) Rename(string, string) error { return errReadOnly }

// OpenReadWrite refuses.
func (ReadOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// ReuseForWrite refuses.
func (ReadOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// Lock takes the lock file of a directory that has one. A directory without one,
// such as a backup, is open in no process, and no lock file is made.
func (fs ReadOnlyFS) Lock(name string) (io.Closer, error) {
	if _, err := fs.Stat(name); err != nil {
		return io.NopCloser(nil), nil //nolint:nilerr // it does not exist
	}
	lock, err := fs.FS.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil // no process can write there
	}
	return lock, err
}

// WithoutLogsFS is a file system that hides the engine's logs: the engine opens what
// its tables hold, without replaying the logs.
type WithoutLogsFS struct{ vfs.FS }

// List leaves logs out.
func (fs WithoutLogsFS) List(dir string) ([]string, error) {
	names, err := fs.FS.List(dir)
	return slices.DeleteFunc(names, IsLog), err
}

// Unwrap is the file system below.
func (fs WithoutLogsFS) Unwrap() vfs.FS { return fs.FS }

// Unwrap is the file system below.
func (fs ReadOnlyFS) Unwrap() vfs.FS { return fs.FS }
