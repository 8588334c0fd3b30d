package machine

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// syncData waits until the data of file is on the disk, with as much of its inode as
// reading it requires.
func syncData(file *os.File) error {
	for {
		err := syscall.Fdatasync(int(file.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// allocated returns the space of a file on the disk in bytes, which differs from the
// length of a sparse or preallocated file.
func allocated(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Blocks) * 512
	}
	return uint64(info.Size())
}

// ownTime returns the processor time of this process without its children.
func ownTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
