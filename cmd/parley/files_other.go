//go:build !unix

package main

import "io/fs"

// filesHaveOwners says that a file's mode tells who may read it.
const filesHaveOwners = false

// ownedByUs is not known here.
func ownedByUs(fs.FileInfo) bool { return true }

// keepFilesPrivate does nothing: files bear no modes here.
func keepFilesPrivate() {}

// filesMax is not known here.
func filesMax() uint64 { return 0 }
