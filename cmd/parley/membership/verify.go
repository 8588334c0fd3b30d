package membership

import (
	"errors"
	"path/filepath"

	"parley/cluster/identity"
	"parley/cluster/raftlog"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/disk"
)

// VerifyLog checks the log of a stopped node against what the node acknowledged, and against
// its tables. It changes nothing. A directory of no node has no log.
func VerifyLog(data string, archive *persistence.Archive, into *report.Verification) error {
	node, err := identity.ReadNode(data)
	if errors.Is(err, identity.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	check := into.Check("node-log", "every record that the node acknowledged is in its log, and the tables with the log are complete")
	dir := filepath.Join(data, logDirectory)
	found, err := raftlog.Verify(raftlog.Options{Dir: dir, ID: uint64(node.ID)})
	check.Checked += max(found.Records, 1)
	switch {
	case errors.Is(err, raftlog.ErrNone) && !node.Joined:
		return nil
	case errors.Is(err, raftlog.ErrNone), errors.Is(err, disk.ErrDamaged):
		check.Fault(dir, "%s", err.Error())
		return nil
	case err != nil:
		return err
	}
	at, err := archive.Position()
	if err == nil && at.Number < found.Cut.Index {
		check.Fault(dir, "the log begins after entry %d, the tables end at %d", found.Cut.Index, at.Number)
	}
	return err
}
