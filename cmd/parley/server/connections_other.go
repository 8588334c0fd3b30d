//go:build !unix

package server

// filesMax returns 0: the limit is not known on this system.
func filesMax() uint64 { return 0 }
