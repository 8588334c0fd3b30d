//go:build unix

package machine

import "syscall"

// FilesMax returns how many files this process may have open. The Go runtime has already
// raised the soft limit to the hard limit.
func FilesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
