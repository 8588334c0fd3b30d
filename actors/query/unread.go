package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"parley/client/parley"
	"parley/journal"
)

// unreadEntries is how many feed entries are read with their receipts at once.
const unreadEntries = 512

// ErrEnough ends a walk whose caller has found what it looked for.
var ErrEnough = errors.New("enough was found")

// FeedEntry is an entry of a feed with the receipts of its message. The message itself
// is not read.
type FeedEntry struct {
	journal.FeedEntry
	Receipts journal.Receipts
}

// WalkUnread calls fn with the unread messages of an agent's feed after position from,
// up to upTo, oldest first, until fn returns an error, which it returns, or until rows
// entries of the feed were read.
func WalkUnread(v journal.View, agent parley.AgentID, from, upTo uint64, rows int, fn func(FeedEntry) error) error {
	passed, err := readUpTo(v, agent)
	if err != nil {
		return err
	}
	for from = max(from, passed); from < upTo && rows > 0; {
		entries, last, err := entriesWithReceipts(v, agent, from, upTo, min(rows, unreadEntries))
		rows -= len(entries)
		for i := 0; i < len(entries) && err == nil; i++ {
			if entries[i].Receipts.ReadAt == 0 {
				err = fn(entries[i])
			}
		}
		if err != nil {
			return err
		}
		from = last
	}
	return nil
}

// entriesWithReceipts returns the messages among the entries of a feed after position
// from, up to upTo, with their receipts: at most limit of them. last is the position that
// it reached.
func entriesWithReceipts(v journal.View, agent parley.AgentID, from, upTo uint64, limit int) (entries []FeedEntry, last uint64, err error) {
	last = upTo
	err = v.Inbox(agent, from, upTo, func(e journal.FeedEntry) bool {
		e.Note = nil // it aliases the feed's memory
		entries = append(entries, FeedEntry{FeedEntry: e})
		if len(entries) == limit {
			last = e.Position
			return false
		}
		return true
	})
	if err == nil {
		err = fillEntryReceipts(v, agent, entries)
	}
	return entries, last, err
}

// fillEntryReceipts fills in the receipts of entries, oldest first.
func fillEntryReceipts(v journal.View, agent parley.AgentID, entries []FeedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	i := 0
	return v.FeedReceipts(agent, entries[0].Position, entries[len(entries)-1].Position, func(position uint64, receipts journal.Receipts) {
		for i < len(entries)-1 && entries[i].Position < position {
			i++
		}
		if entries[i].Position == position {
			entries[i].Receipts = receipts
		}
	})
}

// readUpTo returns the stored position up to which an agent has read everything. It may
// lag behind.
func readUpTo(v journal.View, agent parley.AgentID) (uint64, error) {
	value, found, err := v.Row(agent.Slot(), journal.ReadTable, agent[:])
	if err != nil || !found || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// PositionIn returns the position of a message in an agent's inbox; parley.ErrNotFound
// if the message does not exist or is for another agent.
func (q *Messages) PositionIn(ctx context.Context, agent parley.AgentID, id parley.MessageID) (position uint64, err error) {
	err = q.view(ctx, func(v journal.View) error {
		m, err := ReadRecord(v, agent.Slot(), id)
		if err != nil && !errors.Is(err, journal.ErrErased) { // an erased message keeps its place
			return err
		}
		if m.Record.Recipient() != agent || m.Position == 0 || !bytes.Equal(m.Record.GetId(), id[:]) {
			return parley.ErrNotFound
		}
		position = m.Position
		return nil
	})
	return position, err
}

// InInbox returns messages of an agent's inbox by their ids, each once, without those that
// were erased; parley.ErrNotFound if any is not in it.
func (q *Messages) InInbox(ctx context.Context, agent parley.AgentID, ids []parley.MessageID) (all []Message, err error) {
	err = q.view(ctx, func(v journal.View) error {
		known := map[parley.MessageID]bool{}
		for _, id := range ids {
			if known[id] {
				continue
			}
			known[id] = true
			m, err := readMessage(v, agent.Slot(), id)
			if err != nil && !errors.Is(err, journal.ErrErased) {
				return err
			}
			if m.Record.Recipient() != agent || m.Position == 0 || m.Record.MessageID() != id {
				return parley.ErrNotFound
			}
			if err == nil {
				all = append(all, m)
			}
		}
		return nil
	})
	return all, err
}

// Arrived returns those messages of which an agent's inbox has the bodies, in their order.
func (q *Messages) Arrived(ctx context.Context, agent parley.AgentID, ids []parley.MessageID) (all []Message, err error) {
	err = q.view(ctx, func(v journal.View) error {
		for _, id := range ids {
			m, err := readMessage(v, agent.Slot(), id)
			switch {
			case errors.Is(err, journal.ErrErased), errors.Is(err, parley.ErrNotFound):
			case err != nil:
				return err
			case m.Record.Recipient() == agent && m.Position != 0:
				all = append(all, m)
			}
		}
		return nil
	})
	return all, err
}

// CountSince returns how many messages to an agent were created after an instant in
// Unix milliseconds, whatever their receipts, without reading their bodies. It counts
// every message that was acknowledged before the call, if that took less than
// parley.SettleWait. // spec: Messaging
func (q *Messages) CountSince(ctx context.Context, agent parley.AgentID, since int64) (count int, err error) {
	// Read in this order, and before the view opens. If both are equal, every visible
	// entry is durable. The view has everything up to durable.
	assigned, durable, index := q.journal.AssignedPosition(agent), q.journal.DurablePosition(agent), q.counts.Of(agent)
	if assigned <= durable {
		if count, known := index.Known(durable, since); known {
			return count, nil
		}
	}
	err = q.view(ctx, func(v journal.View) error {
		count, err = q.counts.Count(ctx, v, index, durable, since)
		return err
	})
	return count, err
}
