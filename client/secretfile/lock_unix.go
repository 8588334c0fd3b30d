//go:build unix

package secretfile

import (
	"os"
	"path/filepath"
	"syscall"
)

// LockDirectory waits until no other process has locked the directory and returns the
// function that unlocks it. The system also unlocks it when the process ends in any way.
func LockDirectory(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != syscall.EINTR {
			_ = f.Close()
			return nil, err
		}
	}
}
