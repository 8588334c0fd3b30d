//go:build !linux

package machine

import (
	"errors"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

func processorName(procfs.FS) string { return notSeen }

func resident(_ procfs.FS, stat procfs.ProcStat, _ bool) uint64 { return uint64(stat.ResidentMemory()) }

// syncData waits until file is on the disk, including its inode: systems other than Linux
// have no portable way to sync less.
func syncData(file *os.File) error { return file.Sync() }

// allocated returns the length of a file in bytes.
func allocated(info os.FileInfo) uint64 { return uint64(info.Size()) }

// ownTime fails, because the rest of the machine cannot be observed on this system
// either.
func ownTime() (time.Duration, error) {
	return 0, errors.New("machine: processor time of this process")
}
