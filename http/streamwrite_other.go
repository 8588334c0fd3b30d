//go:build !unix

package http

import "syscall"

// attempt writes nothing here: sockets of this system are waited for.
type attempt struct{}

func (*attempt) prepare() {}

func (*attempt) write(syscall.RawConn, []byte) (int, error) { return 0, nil }
