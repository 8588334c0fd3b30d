//go:build !unix

package secretfile

import "os"

// LockDirectory creates the directory. Only one process at a time may use it: on this
// system there is no lock between processes.
func LockDirectory(dir string) (unlock func(), err error) {
	return func() {}, os.MkdirAll(dir, 0o700)
}
