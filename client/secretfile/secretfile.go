// Package secretfile reads and writes files that only their owner may read: private keys,
// credentials, tokens, and what a client remembers. A write is complete or does not happen.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// ErrOpenToOthers means that others than the owner may read or change a file.
var ErrOpenToOthers = errors.New("others may read or change this secret file")

// Read reads a file that only its owner may read or write. For any other file it returns
// only ErrOpenToOthers.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: chmod 600 %s", ErrOpenToOthers, path)
	}
	return io.ReadAll(f)
}

// Create writes a new file. It fails if the file exists.
func Create(path string, b []byte) error { return write(path, b, os.Link) }

// Replace writes a file in place of any that was there.
func Replace(path string, b []byte) error { return write(path, b, os.Rename) }

// write writes another file, which place puts in its place.
func write(path string, b []byte, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err = tmp.Write(b); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := place(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the name of a file durable, where the system supports it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
