//go:build !unix

package streams

import "syscall"

// socketWriter writes nothing on this system, so the caller falls back to a
// blocking write.
type socketWriter struct{}

func (*socketWriter) prepare() {}

func (*socketWriter) write(syscall.RawConn, []byte) (int, error) { return 0, nil }
