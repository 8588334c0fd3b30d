package actors

import (
	"bytes"
	"maps"
	"slices"

	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// mlsRows collects what a turn changes in a group's rows of journal.MLSMemberTable, each
// row once, and the Welcomes that nobody awaits any more.
type mlsRows struct {
	t       *groupTurn
	members map[parley.AgentID]*record.MLSMember
	// waiting counts the agents that have not acknowledged a Welcome, by its epoch.
	waiting map[uint64]uint32
}

func editMLSRows(t *groupTurn) *mlsRows {
	return &mlsRows{t: t, members: map[parley.AgentID]*record.MLSMember{}, waiting: map[uint64]uint32{}}
}

// member returns an agent's row as the turn leaves it.
func (w *mlsRows) member(agent parley.AgentID) (*record.MLSMember, error) {
	if m := w.members[agent]; m != nil {
		return m, nil
	}
	row, _, err := w.t.Row(journal.MLSMemberTable, record.MLSMemberKey(w.t.State.ID, agent))
	m := &record.MLSMember{}
	if err == nil {
		err = m.UnmarshalVT(row)
	}
	if err == nil {
		w.members[agent] = m
	}
	return m, err
}

// welcome records that an agent has to acknowledge the Welcome of an epoch.
func (w *mlsRows) welcome(agent parley.AgentID, epoch uint64) error {
	m, err := w.member(agent)
	if err == nil {
		m.Welcomes = append(m.Welcomes, epoch)
		w.waiting[epoch]++
	}
	return err
}

// acknowledge records that an agent does not await the Welcome of an epoch any more. It
// reports false if the agent did not await it.
func (w *mlsRows) acknowledge(agent parley.AgentID, epoch uint64) (bool, error) {
	m, err := w.member(agent)
	at := slices.Index(m.GetWelcomes(), epoch)
	if err != nil || at < 0 {
		return false, err
	}
	if _, known := w.waiting[epoch]; !known {
		row, _, err := w.t.Row(journal.MLSMemberTable, record.MLSEpochKey(w.t.State.ID, epoch))
		if err != nil {
			return false, err
		}
		w.waiting[epoch] = record.MLSCountOf(row)
	}
	m.Welcomes = slices.Delete(m.Welcomes, at, at+1)
	w.waiting[epoch]--
	return true, nil
}

// leave drops the Welcomes that a former member did not acknowledge.
func (w *mlsRows) leave(agent parley.AgentID) error {
	m, err := w.member(agent)
	if err != nil {
		return err
	}
	if len(m.GetWelcomes())+len(m.GetAcknowledged()) == 0 {
		delete(w.members, agent) // nothing to write
	}
	m.Acknowledged = nil
	for _, epoch := range slices.Clone(m.GetWelcomes()) {
		if _, err := w.acknowledge(agent, epoch); err != nil {
			return err
		}
	}
	return nil
}

// write adds the rows to the entry.
func (w *mlsRows) write() error {
	id := w.t.State.ID
	order := func(a, b parley.AgentID) int { return bytes.Compare(a[:], b[:]) }
	for _, agent := range slices.SortedFunc(maps.Keys(w.members), order) {
		value, err := w.members[agent].MarshalVT()
		if err != nil {
			return err
		}
		if len(value) == 0 {
			w.t.DeleteRow(journal.MLSMemberTable, record.MLSMemberKey(id, agent))
			continue
		}
		w.t.PutRow(journal.MLSMemberTable, record.MLSMemberKey(id, agent), value)
	}
	for _, epoch := range slices.Sorted(maps.Keys(w.waiting)) {
		key := record.MLSEpochKey(id, epoch)
		if n := w.waiting[epoch]; n > 0 {
			w.t.PutRow(journal.MLSMemberTable, key, record.MLSCount(n))
			continue
		}
		w.t.DeleteRow(journal.MLSMemberTable, key)
		if err := w.release(key); err != nil {
			return err
		}
		w.t.AddEffects(journal.PutRow{Row: journal.Row{Slot: w.t.Entry.Slot, Table: journal.MLSWelcomeTable, Key: key, Delete: true}})
	}
	return nil
}

// release has the sender of a Welcome no longer pay for it. A Welcome of the same entry is not stored
// yet: nobody pays less for it.
func (w *mlsRows) release(key []byte) error {
	row, _, err := w.t.Row(journal.MLSWelcomeTable, key)
	if err != nil {
		return err
	}
	welcome := &record.MLSWelcome{}
	if err := welcome.UnmarshalVT(row); err != nil {
		return err
	}
	if payer := welcome.GetPayer(); len(payer) > 0 {
		w.t.Store(parley.IDFromBytes[parley.OrgID](payer), -journal.RoundStored(len(welcome.GetWelcome())))
	}
	return nil
}

// deleteMLSRows deletes all rows of the MLS group with the group.
func deleteMLSRows(t *groupTurn) {
	for _, table := range journal.MLSTables {
		t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: table, Key: t.State.ID.Bytes(), Delete: true, Beneath: true})
	}
}

// writeMLSRows adds the rows of the MLS group that events change. abandoned are the leaves
// that awaited their removal before, and c is the commit among the events, nil for none.
func writeMLSRows(t *groupTurn, events []group.Event, leavers []group.Member, abandoned []*group.Leaf, c *MLSCommit) error {
	w := editMLSRows(t)
	for _, m := range leavers {
		if _, member := t.State.Member(m.Agent); member {
			continue // a refusal
		}
		if err := w.leave(m.Agent); err != nil {
			return err
		}
	}
	for _, e := range events {
		if _, deleted := e.(*group.Deleted); deleted {
			deleteMLSRows(t)
			return nil
		}
		if e, committed := e.(*group.Committed); committed {
			if err := w.commit(e, leavers, abandoned, c); err != nil {
				return err
			}
		}
	}
	return w.write()
}

// commit adds the rows of a commit. They are written as effects, because the actor keeps
// the rows of an entry in memory for a while, and these are long.
func (w *mlsRows) commit(e *group.Committed, leavers []group.Member, abandoned []*group.Leaf, c *MLSCommit) error {
	t := w.t
	removed := make(map[uint32]parley.AgentID, len(leavers)+len(abandoned))
	for _, l := range abandoned {
		removed[l.GetSeat()] = parley.IDFromBytes[parley.AgentID](l.GetAgent())
	}
	for _, m := range leavers {
		removed[m.Seat] = m.Agent
	}
	for _, seat := range e.GetRemoved() {
		m, err := w.member(removed[seat])
		if err != nil {
			return err
		}
		m.RemovedIn, m.RemovedMs = e.GetEpoch(), e.GetAtMs()
	}
	key := record.MLSEpochKey(t.State.ID, e.GetEpoch())
	if len(c.Welcome) > 0 {
		for _, seat := range e.GetAdded() {
			if err := w.welcome(t.State.MembersFrom(seat - 1)[0].Agent, e.GetEpoch()); err != nil {
				return err
			}
		}
		welcome := &record.MLSWelcome{Welcome: c.Welcome, CreatedMs: e.GetAtMs()}
		if t.Payer != nil {
			welcome.Payer = t.Payer.Org.Bytes()
		}
		if err := putLong(t, journal.MLSWelcomeTable, key, welcome); err != nil {
			return err
		}
	}
	if t.Payer != nil {
		for _, sent := range [][]byte{c.Welcome, c.Message, c.GroupInfo} {
			t.Store(t.Payer.Org, journal.RoundStored(len(sent)))
		}
	}
	commit := &record.MLSCommit{Commit: c.Message, CommittedBy: c.By.Bytes(), CreatedMs: e.GetAtMs()}
	if err := putLong(t, journal.MLSCommitTable, key, commit); err != nil {
		return err
	}
	return putLong(t, journal.MLSGroupInfoTable, t.State.ID.Bytes(), &record.MLSGroupInfo{Epoch: t.State.Epoch, GroupInfo: c.GroupInfo})
}

// putLong adds a row of the actor's own that it will not read soon.
func putLong(t *groupTurn, table journal.Table, key []byte, value interface{ MarshalVT() ([]byte, error) }) error {
	data, err := value.MarshalVT()
	if err == nil {
		t.AddEffects(journal.PutRow{Row: journal.Row{Slot: t.Entry.Slot, Table: table, Key: key, Value: data, Owners: t.Owners()}})
	}
	return err
}

// mlsAcknowledgment says that an agent has got the Welcome of an epoch.
type mlsAcknowledgment struct {
	Agent parley.AgentID
	Epoch uint64
}

// acknowledgedKept bounds the Welcomes of which a member's row says that they were acknowledged.
const acknowledgedKept = 8

// acknowledgeMLS drops a Welcome for one agent. To do it again changes nothing.
func acknowledgeMLS(t *groupTurn, r mlsAcknowledgment) (any, error) {
	w := editMLSRows(t)
	awaited, err := w.acknowledge(r.Agent, r.Epoch)
	if err != nil {
		return nil, err
	}
	m := w.members[r.Agent]
	switch {
	case awaited:
		m.Acknowledged = append(m.Acknowledged, r.Epoch)
		m.Acknowledged = m.Acknowledged[max(0, len(m.Acknowledged)-acknowledgedKept):]
		return nil, w.write()
	case slices.Contains(m.GetAcknowledged(), r.Epoch):
		return nil, nil
	}
	return nil, errUnknownWelcome
}
