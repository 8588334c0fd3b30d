//go:build !unix

package machine

// FilesMax returns 0: the limit is not known on this system.
func FilesMax() uint64 { return 0 }
