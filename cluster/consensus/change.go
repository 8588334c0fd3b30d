package consensus

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

func isChange(e *raftpb.Entry) bool { return e.GetType() != raftpb.EntryNormal }

// checkChanges checks that the changes of members in a message can be made: raft panics when one
// that cannot is committed. It reports false if a content has to be restored first: the leader sends
// the message again.
func (c *Core) checkChanges(m *raftpb.Message) (takes bool, err error) {
	if !slices.ContainsFunc(m.GetEntries(), isChange) {
		return true, nil
	}
	c.drain()
	index := m.GetIndex()
	if c.handed.Index == 0 || index < c.node.BasicStatus().GetCommit() || index > c.last {
		return true, nil // raft overlooks the entries, or refuses them
	}
	before := c.unapplied(index)
	switch here := last(before); {
	case uint64(len(before)) != index-c.handed.Index:
		return false, nil
	case here != nil && here.GetTerm() != m.GetLogTerm():
		return true, nil // raft refuses them
	}
	now, err := membersOf(c.handed.Conf, c.handed.Index)
	if err != nil {
		return false, err
	}
	for _, e := range append(before, m.GetEntries()...) {
		if !isChange(e) || e.GetIndex() <= c.handed.Index {
			continue
		}
		change, err := changeOf(e)
		if err == nil {
			err = now.change(change.AsV2())
		}
		if err != nil {
			return false, malformed("the change of members at index %d: %w", e.GetIndex(), err)
		}
	}
	return true, nil
}

// unapplied returns the entries that follow those which were handed out, up to an index: those in the
// log, and those that are about to be written. It ends early where a content is to be restored.
func (c *Core) unapplied(upTo uint64) (all []*raftpb.Entry) {
	first := c.handed.Index + 1
	add := func(entries []*raftpb.Entry) {
		for _, e := range entries {
			if i := e.GetIndex(); first <= i && i <= min(upTo, first+uint64(len(all))) {
				all = append(all[:i-first], e)
			}
		}
	}
	written, err := c.log.LastIndex()
	for err == nil && first+uint64(len(all)) <= min(written, upTo) {
		var some []*raftpb.Entry
		if some, err = c.log.Entries(first+uint64(len(all)), min(written, upTo)+1, scanBytes); len(some) == 0 {
			break
		}
		add(some)
	}
	for _, w := range slices.Concat(c.flying, c.pending) {
		add(w.record.Entries)
	}
	return all
}
