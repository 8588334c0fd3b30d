package importing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// inOrder returns the groups in the order of their creation.
func (w *writer) groupsInOrder() []*groupHistory {
	return slices.SortedFunc(maps.Values(w.groups), func(a, b *groupHistory) int { return a.place - b.place })
}

// ownGroups adds the rows of the organization's groups to its entry, and returns the events
// that count them. before is how many events come first: places are numbers of events.
func (w *writer) ownGroups(e *journal.Entry, before int) (events []org.Event) {
	owner := w.org.ID
	for i, g := range w.groupsInOrder() {
		events = append(events, &org.GroupAdded{GroupId: g.state.ID.Bytes(), AtMs: g.state.CreatedMs})
		place := binary.BigEndian.AppendUint64(owner.Bytes(), uint64(before+i+1))
		e.Rows = append(
			e.Rows, journal.Row{Slot: owner.Slot(), Table: journal.GroupNameTable, Key: append(owner.Bytes(), g.state.Name...), Value: g.state.ID.Bytes()},
			journal.Row{Slot: owner.Slot(), Table: journal.GroupRosterTable, Key: place, Value: g.state.ID.Bytes()},
		)
	}
	for _, g := range w.groupsInOrder() {
		if g.state.Deleted() {
			events = append(events, &org.GroupRetired{GroupId: g.state.ID.Bytes(), AtMs: g.state.DeletedMs})
		}
	}
	return events
}

// memberships returns the events of the seats that an agent has, in the order of joining.
func (w *writer) memberships(id parley.AgentID) (events []agent.Event) {
	var seats []*agent.Entered
	for _, g := range w.groupsInOrder() {
		if m, member := g.state.Member(id); member && !g.state.Deleted() {
			seats = append(seats, &agent.Entered{Group: g.state.ID.Bytes(), Offer: m.Offer, Isolated: g.state.Isolated, AtMs: m.JoinedMs})
		}
	}
	slices.SortStableFunc(seats, func(a, b *agent.Entered) int { return int(a.GetAtMs() - b.GetAtMs()) })
	for _, e := range seats {
		events = append(events, e)
	}
	return events
}

// concerns adds the rows of the live join requests about an agent.
func (w *writer) concerns(e *journal.Entry, id parley.AgentID) {
	for _, g := range w.groupsInOrder() {
		if r := g.state.RequestOf(id); r != nil {
			e.Rows = append(e.Rows, journal.Row{
				Slot: id.Slot(), Table: journal.ConcernTable, Key: append(id.Bytes(), r.GetId()...), Value: g.state.ID.Bytes(),
			})
		}
	}
}

// writeGroups writes the groups with their histories.
func (w *writer) writeGroups() error {
	for _, g := range w.groupsInOrder() {
		if err := w.writeGroup(g); err != nil {
			return fmt.Errorf("group %s: %w", g.state.ID, err)
		}
	}
	return nil
}

func (w *writer) writeGroup(g *groupHistory) error {
	id, owners := g.state.ID, journal.OwnedBy(w.org.ID)
	entry := &journal.Entry{Slot: id.Slot(), At: w.began()}
	state := &group.State{}
	create, err := stream(rules.Group, rules.GroupStream(id), state, g.events)
	if err != nil {
		return err
	}
	entry.Effects = append(entry.Effects, create)
	row := func(table journal.Table, key, value []byte, owners journal.Owners) {
		entry.Rows = append(entry.Rows, journal.Row{Slot: id.Slot(), Table: table, Key: key, Value: value, Owners: owners})
	}
	compare := func(a, b parley.AgentID) int { return bytes.Compare(a[:], b[:]) }
	for _, agent := range slices.SortedFunc(maps.Keys(g.places), compare) {
		row(journal.PlaceTable, record.PlaceKey(id, agent), g.places[agent], journal.Owners{})
	}
	if !g.holder.Zero() {
		row(journal.HolderTable, record.HolderKey(id, w.org.ID), g.holder.Bytes(), journal.Owners{})
	}
	for _, r := range g.settled {
		data, err := r.MarshalVT()
		if err != nil {
			return err
		}
		row(journal.RequestTable, append(id.Bytes(), r.GetId()...), data, owners)
	}
	for _, r := range state.Requests() {
		entry.Timers = append(entry.Timers, journal.Timer{Due: time.UnixMilli(r.GetExpiresMs()), Stream: create.Stream})
	}
	if shown := record.PublicGroupOf(state); shown != nil {
		data, err := shown.MarshalVT()
		if err != nil {
			return err
		}
		entry.Effects = append(entry.Effects, journal.PutRow{Row: journal.Row{
			Slot: journal.DirectorySlot, Table: journal.PublicTable, Key: id.Bytes(), Value: data, Owners: owners,
		}})
	}
	w.resume(entry, state)
	return w.add(entry)
}

// resume enqueues what was on its way when the export began: offers of seats, and the news
// that agents were revoked.
func (w *writer) resume(e *journal.Entry, s *group.State) {
	enqueue := func(to journal.Stream, m *record.SagaMessage) {
		data, _ := m.MarshalVT() // no field of it can fail
		e.Effects = append(e.Effects, journal.EnqueueFor{To: to, Data: data})
	}
	for i := range w.agents {
		a := &w.agents[i]
		if o := s.OfferTo(a.ID); o != nil {
			enqueue(rules.AgentStream(a.ID), &record.SagaMessage{
				Kind: record.SagaMessage_offer, Group: s.ID.Bytes(), Number: o.GetNumber(), Isolated: s.Isolated,
			})
		}
		if _, member := s.Member(a.ID); a.RevokedAt != nil && !s.Deleted() && (member || s.RequestOf(a.ID) != nil) {
			enqueue(rules.GroupStream(s.ID), &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: a.ID.Bytes()})
		}
	}
}
