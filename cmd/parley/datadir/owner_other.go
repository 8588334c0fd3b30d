//go:build !unix

package datadir

import "io/fs"

// filesHaveOwners reports whether a file's mode determines who may read it.
const filesHaveOwners = false

// ownedByUs returns true: the owner is not known on this system.
func ownedByUs(fs.FileInfo) bool { return true }

// KeepFilesPrivate does nothing: files have no modes on this system.
func KeepFilesPrivate() {}
