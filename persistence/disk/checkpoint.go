package disk

import "github.com/cockroachdb/pebble/v2/vfs"

// Checkpoint is a directory of links to the tables of a store at one instant. Who
// asked for it removes it.
type Checkpoint struct {
	FS  vfs.FS
	Dir string
	// Commits is how many commits were made before the checkpoint was asked for: it
	// holds at least those.
	Commits uint64
}

// Remove deletes the checkpoint.
func (c *Checkpoint) Remove() error { return c.FS.RemoveAll(c.Dir) }
