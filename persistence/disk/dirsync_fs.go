package disk

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DirSyncFS syncs the directory before every change of one of the engine's marker
// files, so that a marker never becomes durable before the file that it names.
// The engine makes a file, then a marker that names it, and syncs the directory
// once for both: a power failure in between may keep the marker without the file,
// or lose the new marker after the old one is removed, and then nothing can be
// opened. Markers change only when a directory is opened, so the syncs cost
// little.
type DirSyncFS struct{ vfs.FS }

func isMarker(fs vfs.FS, path string) bool { return strings.HasPrefix(fs.PathBase(path), "marker.") }

// Create syncs the directory before it makes a marker.
func (o DirSyncFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isMarker(o, path) {
		if err := SyncDirectory(o.FS, o.PathDir(path)); err != nil {
			return nil, err
		}
	}
	return o.FS.Create(path, category)
}

// Remove syncs the directory before it removes a marker.
func (o DirSyncFS) Remove(path string) error {
	if isMarker(o, path) {
		if err := SyncDirectory(o.FS, o.PathDir(path)); err != nil {
			return err
		}
	}
	return o.FS.Remove(path)
}

// Unwrap is the file system below. The engine asks for it.
func (o DirSyncFS) Unwrap() vfs.FS { return o.FS }
