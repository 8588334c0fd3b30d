package machine

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// processorName returns the name of the first processor.
func processorName(proc procfs.FS) string {
	all, err := proc.CPUInfo()
	switch {
	case err != nil:
		return notSeen
	case len(all) == 0 || all[0].ModelName == "":
		return runtime.GOARCH + ", not named"
	}
	return all[0].ModelName
}

// resident returns the memory of a process in bytes. A page that several processes share counts
// once, if the kernel reports proportional sizes.
func resident(proc procfs.FS, stat procfs.ProcStat, shared bool) uint64 {
	if process, err := proc.Proc(stat.PID); err == nil && shared {
		if rollup, err := process.ProcSMapsRollup(); err == nil && rollup.Pss > 0 {
			return rollup.Pss
		}
	}
	return uint64(stat.ResidentMemory())
}

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
