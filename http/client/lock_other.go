//go:build !unix

package client

import "os"

// lockDirectory makes the directory. One process at a time has to use it: there
// is no lock between processes here.
func lockDirectory(dir string) (unlock func(), err error) {
	return func() {}, os.MkdirAll(dir, 0o700)
}
