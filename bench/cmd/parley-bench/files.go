package main

import (
	"errors"
	"io"
	"net"
	"os"
)

// isProgram reports whether path is a file, not a folder.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// isTerminal reports whether w is a character device other than the null device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// networkFailure reports whether the server could not be reached or the connection broke.
func networkFailure(err error) bool {
	var operation *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &operation):
		return operation.Op != "listen"
	case errors.As(err, &name):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
