//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// filesHaveOwners reports whether a file's mode determines who may read it.
const filesHaveOwners = true

// ownedByUs reports whether a file belongs to this user or to root.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// KeepFilesPrivate sets the process's umask, so that only its user can read the
// files it creates.
func KeepFilesPrivate() { syscall.Umask(0o077) }
