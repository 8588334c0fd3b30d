package query

import (
	"context"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// MLSCommit is a commit of a group's MLS group.
type MLSCommit struct {
	// Epoch is the epoch that the commit was made in.
	Epoch uint64
	*record.MLSCommit
}

// Reserve is asked before a query reads rows, with the number of bytes that all rows of the
// answer take as they are stored. The query ends with its error. nil admits everything.
type Reserve func(bytes int) error

// rowReader counts the rows of an answer for a Reserve.
type rowReader struct {
	ask   Reserve
	taken int
}

// row reads a row after its bytes were reserved. The row is nil if there is none, or if it does
// not fit: then the answer would have more than size bytes.
func (r *rowReader) row(v journal.View, table journal.Table, slot parley.Slot, key []byte, size int) (row []byte, fits bool, err error) {
	n, err := v.RowSize(slot, table, key)
	if err != nil || n == 0 {
		return nil, true, err
	}
	if r.taken > 0 && n > size-r.taken {
		return nil, false, nil
	}
	r.taken += n
	if r.ask != nil {
		if err := r.ask(r.taken); err != nil {
			return nil, true, err
		}
	}
	row, _, err = v.Row(slot, table, key)
	return row, true, err
}

// MLSCommits returns the commits made in the epochs from since on and before until, in
// order. The page ends at limit or before the commit with which it would have more than
// size bytes of commits, but it has one if there is any. more reports whether others
// follow.
func (q *Groups) MLSCommits(ctx context.Context, id parley.GroupID, since, until uint64, limit, size int, reserve Reserve) (page []MLSCommit, more bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		r := rowReader{ask: reserve}
		for epoch := since; epoch < until; epoch++ { // there is a commit of each
			if more = len(page) == limit; more {
				return nil
			}
			row, fits, err := r.row(v, journal.MLSCommitTable, id.Slot(), record.MLSEpochKey(id, epoch), size)
			if more = !fits; err != nil || more {
				return err
			}
			if row == nil {
				continue
			}
			c := &record.MLSCommit{}
			if err := c.UnmarshalVT(row); err != nil {
				return err
			}
			page = append(page, MLSCommit{epoch, c})
		}
		return nil
	})
	return page, more, err
}

// MLSGroupInfo returns the GroupInfo of the present epoch of a group's MLS group, nil if the
// group has none.
func (q *Groups) MLSGroupInfo(ctx context.Context, id parley.GroupID, reserve Reserve) (info *record.MLSGroupInfo, err error) {
	err = q.view(ctx, func(v journal.View) error { // the size is that of the row that is read
		row, _, err := (&rowReader{ask: reserve}).row(v, journal.MLSGroupInfoTable, id.Slot(), id[:], 0)
		if err != nil || row == nil {
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
func (q *Groups) MLSWelcomes(ctx context.Context, id parley.GroupID, agent parley.AgentID, since uint64, limit, size int, reserve Reserve) (page []MLSWelcome, more bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		r := rowReader{ask: reserve}
		m, err := mlsMember(v, id, agent)
		for _, epoch := range m.GetWelcomes() {
			if err != nil || epoch < since {
				continue
			}
			if more = len(page) == limit; more {
				return nil
			}
			row, fits, bad := r.row(v, journal.MLSWelcomeTable, id.Slot(), record.MLSEpochKey(id, epoch), size)
			if more = !fits; bad != nil || row == nil {
				return bad
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
