package query

import (
	"context"
	"errors"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// Addressed fills in the organization of a copy's recipient, unless that was erased.
func (q *reader) Addressed(ctx context.Context, r *record.Message) error {
	if r == nil || !r.Copied() || len(r.GetToOrg()) > 0 {
		return nil
	}
	a, err := q.lookups.agent(ctx, r.Recipient())
	if errors.Is(err, journal.ErrErased) {
		return nil
	}
	if err != nil {
		return err
	}
	r.ToOrg = a.GetOrgId()
	return nil
}

// readCopy reads the copy of a broadcast as the home of slot reader stores it. The
// position is that in its recipient's feed, wherever that is stored; 0 if the feed does
// not have it yet. Of a copy that was erased it returns the header, and
// journal.ErrErased.
func readCopy(v journal.View, reader parley.Slot, id parley.MessageID) (m Message, err error) {
	to, position, found, err := v.Copy(reader, id)
	if err != nil {
		return m, err
	}
	if !found {
		return m, parley.ErrNotFound
	}
	r, erased := readBroadcast(v, reader, id.Broadcast())
	if erased != nil && !errors.Is(erased, journal.ErrErased) {
		return m, erased
	}
	if position == 0 {
		if _, position, _, err = v.Copy(to.Slot(), id); err != nil {
			return m, err
		}
	}
	return Message{Record: r.CopyFor(id, to), Position: position}, erased
}

// readBroadcast reads the record that all copies of a broadcast share, as the home of
// slot reader stores it.
func readBroadcast(v journal.View, reader parley.Slot, id parley.MessageID) (*record.Message, error) {
	r := &record.Message{}
	found, err := v.Broadcast(reader, id, r.UnmarshalVT)
	if err == nil && !found {
		err = parley.ErrNotFound
	}
	return r, err
}

// readOwn reads a message of a group's conversation for an agent with these seats. fits
// is false if the agent neither sent nor received it.
func readOwn(v journal.View, id parley.MessageID, of parley.AgentID, seats []uint32) (m Message, fits bool, err error) {
	m, err = readMessage(v, id.Slot(), id)
	if err != nil {
		return m, false, err
	}
	if m.Record.Sender() == of || m.Record.Recipient() == of {
		return m, true, nil
	}
	if !m.Record.Copied() {
		return m, false, nil
	}
	for _, seat := range seats {
		to, _, found, err := v.Copy(id.Slot(), parley.Copy(id, seat))
		if err != nil {
			return m, false, err
		}
		if found && to == of {
			m, err = readMessage(v, id.Slot(), parley.Copy(id, seat))
			return m, err == nil, err
		}
	}
	return m, false, nil
}

// liveRecord decodes the message that a live feed entry contains.
func liveRecord(e journal.FeedEntry, to parley.AgentID) (*record.Message, error) {
	r := &record.Message{}
	if err := r.UnmarshalVT(e.Record); err != nil {
		return nil, err
	}
	if e.Kind == journal.CopyEntry {
		r = r.CopyFor(parley.MessageID(e.Ref), to)
	}
	return r, nil
}

// transferred returns the message of a feed entry. The record is shared and must not be
// changed.
func (q *reader) transferred(ctx context.Context, v journal.View, to parley.AgentID, e journal.FeedEntry) (*record.Message, error) {
	id := parley.MessageID(e.Ref)
	if e.Kind != journal.CopyEntry {
		return q.records.Get(id, func() (*record.Message, error) {
			m, err := ReadRecord(v, to.Slot(), id)
			return m.Record, err
		})
	}
	r, err := q.records.Get(id.Broadcast(), func() (*record.Message, error) { return readBroadcast(v, to.Slot(), id.Broadcast()) })
	if err != nil {
		return nil, err
	}
	r = r.CopyFor(id, to)
	return r, q.Addressed(ctx, r)
}
