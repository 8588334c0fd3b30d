package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/cmd/parley/program"
)

// NodeFile is the file that makes a data directory that of a node of a cluster.
const NodeFile = "cluster/node.json"

// checkAlone rejects the directory of a node of a cluster: what a command writes there would
// not be on the other nodes.
func checkAlone(data string) error {
	if _, err := os.Lstat(filepath.Join(data, filepath.FromSlash(NodeFile))); err != nil {
		return nil //nolint:nilerr // there is no such file
	}
	return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s belongs to a node of a cluster, and can only be opened by its server: start it, and name its admin address with --admin", data)}
}

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
