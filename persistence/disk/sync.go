package disk

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncDirectory syncs the entries of a directory.
func SyncDirectory(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDirectory makes dir and its parents, and syncs every directory that got a
// new entry: a power failure must not remove the path to the data.
func MakeDirectory(fs vfs.FS, dir string) error {
	parents := []string{fs.PathDir(dir)}
	for p := parents[0]; p != fs.PathDir(p); p = fs.PathDir(p) {
		if _, err := fs.Stat(p); err == nil {
			break
		}
		parents = append(parents, fs.PathDir(p))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, p := range parents {
		if err := SyncDirectory(fs, p); err != nil {
			return err
		}
	}
	return nil
}

// NeedSpace returns an error if need bytes do not fit on the disk of dir. Where the
// file system does not report its space there is no error: the write will fail.
func NeedSpace(fsys vfs.FS, dir string, need int64) error {
	usage, err := fsys.GetDiskUsage(dir)
	if err != nil || uint64(need) <= usage.AvailBytes {
		return nil
	}
	return fmt.Errorf("%s: %d bytes are needed and %d are free", dir, need, usage.AvailBytes)
}
