//go:build unix

package main

import "syscall"

// filesMax is how many files this process may open. The runtime has raised it as
// far as it may.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
