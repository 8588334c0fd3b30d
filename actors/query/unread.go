package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"parley"
	"parley/journal"
)

// unreadEntries is how many entries of a feed are compared with their receipts at once.
const unreadEntries = 512

// ErrEnough ends a walk that has found what it looked for.
var ErrEnough = errors.New("enough was found")

// FeedEntry is a message of a feed with its marks, its record not read.
type FeedEntry struct {
	journal.FeedEntry
	Receipts journal.Receipts
}

// WalkUnread calls fn with the messages of an agent's feed beyond a position, up
// to another, that have no read mark, oldest first, until fn fails or rows entries
// of the feed were looked at.
func WalkUnread(v journal.View, agent parley.AgentID, from, upTo uint64, rows int, fn func(FeedEntry) error) error {
	passed, err := readUpTo(v, agent)
	if err != nil {
		return err
	}
	for from = max(from, passed); from < upTo && rows > 0; {
		lines, last, looked, err := entriesWithReceipts(v, agent, from, upTo, min(rows, unreadEntries), unreadEntries)
		rows -= looked
		for i := 0; i < len(lines) && err == nil; i++ {
			if lines[i].Receipts.ReadAt == 0 {
				err = fn(lines[i])
			}
		}
		if err != nil {
			return err
		}
		from = last
	}
	return nil
}

// entriesWithReceipts are the messages among the entries of a feed beyond a position, up to
// another, with their marks: at most limit of them, of at most rows entries. It
// gives how far that goes and how many entries it looked at.
func entriesWithReceipts(v journal.View, agent parley.AgentID, from, upTo uint64, rows, limit int) (lines []FeedEntry, last uint64, looked int, err error) {
	last = upTo
	err = v.Feed(agent, from, upTo, func(e journal.FeedEntry) bool {
		if e.Kind.BringsMessage() {
			e.Note = nil // the feed's memory
			lines = append(lines, FeedEntry{FeedEntry: e})
		}
		looked++
		if looked == rows || len(lines) == limit {
			last = e.Position
			return false
		}
		return true
	})
	if err == nil {
		err = fillEntryReceipts(v, agent, lines)
	}
	return lines, last, looked, err
}

// fillEntryReceipts completes lines, oldest first, with their marks.
func fillEntryReceipts(v journal.View, agent parley.AgentID, lines []FeedEntry) error {
	if len(lines) == 0 {
		return nil
	}
	i := 0
	return v.FeedReceipts(agent, lines[0].Position, lines[len(lines)-1].Position, func(position uint64, marks journal.Receipts) {
		for i < len(lines)-1 && lines[i].Position < position {
			i++
		}
		if lines[i].Position == position {
			lines[i].Receipts = marks
		}
	})
}

// readUpTo is the position up to which it is noted that an agent has read
// everything.
func readUpTo(v journal.View, agent parley.AgentID) (uint64, error) {
	value, found, err := v.Row(agent.Slot(), journal.ReadTable, agent[:])
	if err != nil || !found || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// PositionIn is the position of a message in an agent's inbox; parley.ErrNotFound
// where there is no such message or it is somebody else's.
func (q *Messages) PositionIn(ctx context.Context, agent parley.AgentID, id parley.MessageID) (position uint64, err error) {
	err = q.view(ctx, func(v journal.View) error {
		m, err := ReadRecord(v, agent.Slot(), id)
		if err != nil {
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

// InInbox are messages of an agent's inbox by their ids, each once;
// parley.ErrNotFound where one is not there.
func (q *Messages) InInbox(ctx context.Context, agent parley.AgentID, ids []parley.MessageID) (all []Message, err error) {
	err = q.view(ctx, func(v journal.View) error {
		known := map[parley.MessageID]bool{}
		for _, id := range ids {
			if known[id] {
				continue
			}
			known[id] = true
			m, err := readMessage(v, agent.Slot(), id)
			if err != nil {
				return err
			}
			if m.Record.Recipient() != agent || m.Position == 0 || m.Record.MessageID() != id {
				return parley.ErrNotFound
			}
			all = append(all, m)
		}
		return nil
	})
	return all, err
}
