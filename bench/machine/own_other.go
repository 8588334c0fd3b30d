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

// ownTime is not asked where the rest of the machine cannot be seen either.
func ownTime() (time.Duration, error) {
	return 0, errors.New("machine: processor time of this process")
}
