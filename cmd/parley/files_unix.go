//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// filesHaveOwners says that a file's mode tells who may read it.
const filesHaveOwners = true

// ownedByUs reports whether a file belongs to this user or to root.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// keepFilesPrivate has all files that this process makes be its user's alone,
// from the moment they are there.
func keepFilesPrivate() { syscall.Umask(0o077) }

// filesMax is how many files this process may open. The runtime has raised it as
// far as it may.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
