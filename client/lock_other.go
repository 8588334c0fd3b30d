//go:build !unix

package client

import "os"

// lockDirectory creates the directory. Only one process at a time may use it: on this
// system there is no lock between processes.
func lockDirectory(dir string) (unlock func(), err error) {
	return func() {}, os.MkdirAll(dir, 0o700)
}
