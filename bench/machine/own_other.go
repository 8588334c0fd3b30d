//go:build !linux

package machine

import (
	"errors"
	"os"
	"time"
)

// syncData waits until file is on the disk, with all of its inode: systems other
// than Linux have no portable way to sync less.
func syncData(file *os.File) error { return file.Sync() }

// freeBytes is not seen here.
func freeBytes(string) (uint64, error) { return 0, errors.New("machine: free space " + notSeen) }

// allocated is the length of a file.
func allocated(info os.FileInfo) uint64 { return uint64(info.Size()) }

// ownTime is not asked where the rest of the machine cannot be seen either.
func ownTime() (time.Duration, error) {
	return 0, errors.New("machine: processor time of this process")
}
