package datadir

import (
	"errors"
	"io/fs"
	"os"
)

// Blank reports whether a data directory is to be made: it does not exist, or is empty.
func Blank(data string) bool {
	left, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for _, f := range left {
		if f.Name() != "lost+found" {
			return false
		}
	}
	return err == nil
}
