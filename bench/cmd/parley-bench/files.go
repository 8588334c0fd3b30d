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
