package machine

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// syncData waits until the data of file, and as much of its inode as is needed
// to read it, is on the disk.
func syncData(file *os.File) error {
	for {
		err := syscall.Fdatasync(int(file.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// ownTime is the processor time of this process without its children.
func ownTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
