//go:build unix

package server

import "syscall"

// filesMax returns how many files this process may have open. The Go runtime has already
// raised the soft limit to the hard limit.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
