package persistence

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// dirSyncFS is a file system on which the engine's markers never outrun what they
// name. The engine makes a file, then a marker that names it, and syncs the
// directory once for both: a loss of power in between may leave the marker
// without the file, and then nothing can be opened. It may as well lose the new
// marker and keep the removal of the old one. Markers move at openings only, so
// that syncing before each step costs nothing that counts.
type dirSyncFS struct{ vfs.FS }

func isMarker(fs vfs.FS, path string) bool { return strings.HasPrefix(fs.PathBase(path), "marker.") }

func (o dirSyncFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isMarker(o, path) {
		if err := syncDirectory(o.FS, o.PathDir(path)); err != nil {
			return nil, err
		}
	}
	return o.FS.Create(path, category)
}

func (o dirSyncFS) Remove(path string) error {
	if isMarker(o, path) {
		if err := syncDirectory(o.FS, o.PathDir(path)); err != nil {
			return err
		}
	}
	return o.FS.Remove(path)
}

// Unwrap is part of the engine's contract with file systems.
func (o dirSyncFS) Unwrap() vfs.FS { return o.FS }
