//go:build !unix

package datadir

import "io/fs"

// filesHaveOwners reports whether a file's mode says who may read it.
const filesHaveOwners = false

// ownedByUs is not known here.
func ownedByUs(fs.FileInfo) bool { return true }

// KeepFilesPrivate does nothing: files have no modes here.
func KeepFilesPrivate() {}
