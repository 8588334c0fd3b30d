package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// ballastName and a number are the name of a file of a ballast, which has ballastFiles.
	ballastName  = "ballast."
	ballastFiles = 16
	// A start writes at most startBytes besides what it flushes from the log, and on a small disk
	// one part of the ballast in startShare.
	startBytes = 2 << 20
	startShare = 8
)

// Ballast is space beside the engine's files that is given up, file by file, by starts on a disk
// that others have filled: a start needs space before anything can be read, because it flushes
// what it finds in the engine's log. Files have space but no content, so that they cost nothing to
// make; where a file system cannot do that (on Linux all usual ones can) they are of no use, and of no
// harm.
type Ballast struct {
	FS  vfs.FS
	Dir string
	// Bytes of all files together.
	Bytes int64
}

func (b Ballast) file(number int) string {
	return b.FS.PathJoin(b.Dir, fmt.Sprint(ballastName, number))
}

// Release removes files until there is room for a start, or none is left.
func (b Ballast) Release() error {
	names, err := b.FS.List(b.Dir)
	if err != nil {
		return err
	}
	need := uint64(min(startBytes, b.Bytes/startShare))
	for _, name := range names {
		if info, err := b.FS.Stat(b.FS.PathJoin(b.Dir, name)); err == nil && IsLog(name) {
			need += uint64(info.Size())
		}
	}
	for number := range ballastFiles {
		usage, err := b.FS.GetDiskUsage(b.Dir)
		if errors.Is(err, vfs.ErrUnsupported) || err == nil && usage.AvailBytes >= need {
			return nil
		}
		if err == nil {
			err = b.FS.Remove(b.file(number))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("space that was kept for a start cannot be given up: %w", err)
		}
	}
	return nil
}

// Restore makes one of the files that are missing, if the disk keeps more than floor bytes free
// beside it. It reports whether none was missing.
func (b Ballast) Restore(floor uint64) (whole bool, err error) {
	size := b.Bytes / ballastFiles
	for number := range ballastFiles {
		if _, err := b.FS.Stat(b.file(number)); err == nil {
			continue
		}
		usage, err := b.FS.GetDiskUsage(b.Dir)
		if err != nil || usage.AvailBytes < floor+uint64(size) {
			return false, err
		}
		if err := b.reserve(b.file(number), size); err != nil {
			return false, errors.Join(err, b.FS.Remove(b.file(number)))
		}
		return false, nil
	}
	return true, nil
}

// reserve makes a file. It syncs nothing: after a power failure the file may be missing, and is made
// again.
func (b Ballast) reserve(name string, size int64) error {
	f, err := b.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(f.Preallocate(0, size), f.Close())
}
