package disk

import "github.com/cockroachdb/pebble/v2/vfs"

// Checkpoint is a directory of links to the tables and blob files of a store at one
// instant. Its
// user removes it.
type Checkpoint struct {
	FS  vfs.FS
	Dir string
	// Commits is the number of the last commit before the checkpoint began: it
	// holds all commits up to that one.
	Commits uint64
}

// Remove deletes the checkpoint.
func (c *Checkpoint) Remove() error { return c.FS.RemoveAll(c.Dir) }
