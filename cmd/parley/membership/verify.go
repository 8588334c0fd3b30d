package membership

import (
	"errors"
	"path/filepath"

	"parley/client/parley"
	"parley/cluster"
	"parley/cluster/identity"
	"parley/cluster/raftlog"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/disk"
)

// OnlyHere is what only a node has that has diverged from its cluster.
type OnlyHere struct {
	Divergence
	// LogBegins is the first entry of the node's log. If that lies behind the one that follows
	// Common, messages may be missing in the list.
	LogBegins uint64             `json:"log_begins"`
	Messages  []parley.MessageID `json:"messages"`
}

// Diverged lists what only a stopped node has that has diverged, nil if it has not.
func Diverged(data string) (*OnlyHere, error) {
	node, err := identity.ReadNode(data)
	if err != nil {
		return nil, err
	}
	d, err := ReadDivergence(data)
	if d == nil || err != nil {
		return nil, err
	}
	only, listed := &OnlyHere{Divergence: *d, Messages: []parley.MessageID{}}, map[parley.MessageID]bool{}
	only.LogBegins, err = cluster.MessagesAfter(raftlog.Options{Dir: filepath.Join(data, logDirectory), ID: uint64(node.ID)}, d.Common, func(id parley.MessageID) {
		if !listed[id] {
			listed[id] = true
			only.Messages = append(only.Messages, id)
		}
	})
	return only, err
}

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

// AppliedKeys returns the changes of keys in the log of a stopped node that its tables have
// applied: after a crash its keyring may lack new keys. A directory of no node has no log, and what
// is wrong with one VerifyLog reports.
func AppliedKeys(data string, at persistence.GroupPosition) ([][]byte, error) {
	node, err := identity.ReadNode(data)
	if err == nil {
		var changes [][]byte
		changes, err = cluster.AppliedKeys(raftlog.Options{Dir: filepath.Join(data, logDirectory), ID: uint64(node.ID)}, at)
		if err == nil {
			return changes, nil
		}
	}
	if errors.Is(err, identity.ErrNone) || errors.Is(err, raftlog.ErrNone) || errors.Is(err, disk.ErrDamaged) {
		err = nil
	}
	return nil, err
}
