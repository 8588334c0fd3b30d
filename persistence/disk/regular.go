package disk

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotRegular is returned for a name that is not a regular file's: to open a pipe would wait for
// its writer.
var ErrNotRegular = errors.New("it is not a regular file")

// OpenRegular opens a regular file, in a directory that others may write to, for reading from its
// beginning to its end.
func OpenRegular(fsys vfs.FS, path string) (vfs.File, error) {
	info, err := fsys.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, err
	}
	return fsys.Open(path, vfs.SequentialReadsOption)
}
