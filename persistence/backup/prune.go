package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// Pruned is the result of pruning a backup directory.
type Pruned struct {
	// Removed and Kept are the owner's snapshots, oldest first; Others is how many
	// snapshots of other owners, or of none, there are.
	Removed []*Snapshot
	Kept    []*Snapshot
	Others  int
	// Freed is the size of the deleted contents.
	Freed int64
}

// Prune deletes all but the keep newest snapshots of an owner, and the contents
// that no snapshot needs any more. The owner must not be empty and keep must be at
// least 1. A directory that is not a backup directory is refused and left
// unchanged; one that is being written is ErrBusy; one with an index that cannot be
// read is ErrDamaged. If the owner has no snapshot, nothing is deleted. A nil fsys
// is the operating system's. // docs: operations.md
func Prune(ctx context.Context, fsys vfs.FS, dir, owner string, keep int) (*Pruned, error) {
	if owner == "" || keep < 1 {
		return nil, errors.New("pruning needs an owner and keeps at least one snapshot")
	}
	fsys = orDefault(fsys)
	if _, err := snapshotNames(fsys, dir); err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, fsys, dir, nil)
	if err != nil {
		return nil, err
	}
	pruned, err := w.prune(owner, keep)
	return pruned, errors.Join(err, w.close())
}

// prune deletes all but the newest snapshots of an owner, and every content that no
// remaining snapshot names. Snapshots of other owners stay, and so do files that no
// backup has written. An index that cannot be read stops it: what that snapshot
// needs is unknown.
func (w *writer) prune(owner string, keep int) (*Pruned, error) {
	snapshots, err := List(w.fs, w.dir)
	if err != nil {
		return nil, fmt.Errorf("nothing was pruned: %w", err)
	}
	var own []*Snapshot
	for _, s := range snapshots {
		if s.Owner == owner {
			own = append(own, s)
		}
	}
	old := max(0, len(own)-keep)
	p := &Pruned{Removed: own[:old], Kept: own[old:], Others: len(snapshots) - len(own)}
	if len(own) == 0 {
		return p, nil
	}
	for _, s := range p.Removed {
		if err := w.fs.Remove(w.fs.PathJoin(w.dir, indexFolder, s.ID)); err != nil {
			return nil, err
		}
	}
	if err := disk.SyncDirectory(w.fs, w.fs.PathJoin(w.dir, indexFolder)); err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, s := range snapshots {
		for _, f := range s.Files {
			needed[f.Sum] = needed[f.Sum] || !slices.Contains(p.Removed, s)
		}
	}
	names, err := w.fs.List(w.fs.PathJoin(w.dir, contentFolder))
	for _, name := range names {
		if !isSum(name) || needed[name] {
			continue
		}
		path := contentPath(w.fs, w.dir, name)
		info, unknown := w.fs.Stat(path)
		if removed := w.fs.Remove(path); removed != nil {
			err = errors.Join(err, removed)
		} else if unknown == nil {
			p.Freed += info.Size()
		}
	}
	return p, err
}
