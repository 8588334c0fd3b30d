package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// scanBytes bounds the entries that NewestMembers reads in one step.
const scanBytes = 8 << 20

// NewestMembers returns the members of a group as of the newest change that a log holds, whether
// it is known to be committed or not, with their descriptions. The state, which is at a position
// before, may be as old as its last flush: its members may all be gone since.
func NewestMembers(log raft.Storage, at Applied, kept func(*raftpb.ConfState, map[uint64]string) map[uint64]string) (conf *raftpb.ConfState, described map[uint64]string, err error) {
	last, err := log.LastIndex()
	if err != nil || at.Index == 0 || at.Index >= last {
		return raftpb.EnsureConfState(at.Conf), at.Described, err
	}
	members, err := membersOf(at.Conf, at.Index)
	if err != nil {
		return nil, nil, err
	}
	for next := at.Index + 1; next <= last; {
		entries, err := log.Entries(next, last+1, scanBytes)
		if err != nil {
			return nil, nil, fmt.Errorf("consensus: the members as of entry %d: %w", last, err)
		}
		for _, e := range entries {
			if e.GetType() == raftpb.EntryNormal {
				continue
			}
			change, err := changeOf(e)
			if err != nil {
				return nil, nil, err
			}
			if err := members.change(change.AsV2()); err != nil {
				return nil, nil, fmt.Errorf("%w at index %d: %w", ErrEntry, e.GetIndex(), err)
			}
			at.Conf, at.Described = members.ConfState(), describe(at.Described, change.AsV2())
			if kept != nil {
				at.Described = kept(at.Conf, at.Described)
			}
		}
		next += uint64(len(entries))
	}
	return at.Conf, at.Described, nil
}

// members are those of a group, outside of a loop.
type members struct{ tracker.ProgressTracker }

func membersOf(conf *raftpb.ConfState, last uint64) (*members, error) {
	m := &members{tracker.MakeProgressTracker(1, 0)}
	return m, m.switchTo(confchange.Restore(confchange.Changer{Tracker: m.ProgressTracker, LastIndex: last}, conf))
}

// change puts a change into effect, as raft does.
func (m *members) change(c *raftpb.ConfChangeV2) error {
	changer := confchange.Changer{Tracker: m.ProgressTracker}
	if c.LeaveJoint() {
		return m.switchTo(changer.LeaveJoint())
	}
	if autoLeave, joint := c.EnterJoint(); joint {
		return m.switchTo(changer.EnterJoint(autoLeave, c.GetChanges()...))
	}
	return m.switchTo(changer.Simple(c.GetChanges()...))
}

func (m *members) switchTo(c tracker.Config, p tracker.ProgressMap, err error) error {
	if err == nil {
		m.Config, m.Progress = c, p
	}
	return err
}
