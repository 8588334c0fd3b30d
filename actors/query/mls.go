package query

import (
	"context"
	"errors"

	"parley"
	"parley/actors/record"
	"parley/journal"
)

// MLSCommit is a commit of a group's MLS group.
type MLSCommit struct {
	// Epoch is the epoch that the commit was made in.
	Epoch uint64
	*record.MLSCommit
}

// MLSCommits returns the commits made in the epochs from since on and before until, in
// order. The page ends at limit or before the commit with which it would have more than
// size bytes of commits, but it has one if there is any. more reports whether others
// follow.
func (q *Groups) MLSCommits(ctx context.Context, id parley.GroupID, since, until uint64, limit, size int) (page []MLSCommit, more bool, err error) {
	var beyond []byte
	if since > 0 {
		beyond = record.MLSEpochKey(id, since-1)
	}
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Rows(id.Slot(), journal.MLSCommitTable, id[:], beyond, false, func(key, value []byte) bool {
			epoch, ok := record.MLSEpochIn(key)
			if !ok || epoch >= until {
				return false
			}
			size -= len(value)
			if more = len(page) == limit || size < 0 && len(page) > 0; more {
				return false
			}
			c := &record.MLSCommit{}
			bad = c.UnmarshalVT(value)
			page = append(page, MLSCommit{epoch, c})
			return bad == nil
		})
		return errors.Join(scan, bad)
	})
	return page, more, err
}

// MLSGroupInfo returns the GroupInfo of the present epoch of a group's MLS group, nil if the
// group has none.
func (q *Groups) MLSGroupInfo(ctx context.Context, id parley.GroupID) (info *record.MLSGroupInfo, err error) {
	err = q.row(ctx, func(v journal.View) error {
		row, found, err := v.Row(id.Slot(), journal.MLSGroupInfoTable, id[:])
		if err != nil || !found {
			return err
		}
		info = &record.MLSGroupInfo{}
		return info.UnmarshalVT(row)
	})
	return info, err
}

// MLSRemoval returns the epoch of the commit that last removed an agent from a group's MLS
// group. It reports false if no commit did.
func (q *Groups) MLSRemoval(ctx context.Context, id parley.GroupID, agent parley.AgentID) (epoch uint64, removed bool, err error) {
	err = q.row(ctx, func(v journal.View) error {
		m, err := mlsMember(v, id, agent)
		epoch, removed = m.GetRemovedIn(), m.GetRemovedMs() != 0
		return err
	})
	return epoch, removed, err
}

// MLSWelcome is a Welcome to a group's MLS group, with the epoch of the commit that it came
// with.
type MLSWelcome struct {
	Epoch uint64
	*record.MLSWelcome
}

// MLSWelcomes returns the Welcomes that an agent has not acknowledged, made in epochs from
// since on, in order. The page ends as that of MLSCommits.
func (q *Groups) MLSWelcomes(ctx context.Context, id parley.GroupID, agent parley.AgentID, since uint64, limit, size int) (page []MLSWelcome, more bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		m, err := mlsMember(v, id, agent)
		for _, epoch := range m.GetWelcomes() {
			if err != nil || epoch < since {
				continue
			}
			if more = len(page) == limit; more {
				return nil
			}
			row, found, bad := v.Row(id.Slot(), journal.MLSWelcomeTable, record.MLSEpochKey(id, epoch))
			if bad != nil || !found {
				return bad
			}
			size -= len(row)
			if more = size < 0 && len(page) > 0; more {
				return nil
			}
			w := &record.MLSWelcome{}
			err = w.UnmarshalVT(row)
			page = append(page, MLSWelcome{epoch, w})
		}
		return err
	})
	return page, more, err
}

func mlsMember(v journal.View, id parley.GroupID, agent parley.AgentID) (*record.MLSMember, error) {
	m := &record.MLSMember{}
	row, _, err := v.Row(id.Slot(), journal.MLSMemberTable, record.MLSMemberKey(id, agent))
	if err == nil {
		err = m.UnmarshalVT(row)
	}
	return m, err
}
