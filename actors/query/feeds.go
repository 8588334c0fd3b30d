package query

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"parley/actors/query/cache"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// Start is the position at which an event stream begins.
type Start struct {
	// After is the position after which to follow the feed.
	After uint64
	// Last is the newest message up to After, from which the client can resume; zero if
	// there is none.
	Last parley.MessageID
	// OnlyUntransferred is set if messages that were transferred before the stream
	// began are to be left out.
	OnlyUntransferred bool
	// Gap is set if the message to resume from is not in the agent's feed.
	Gap bool
}

// Resume finds where an event stream of an agent's feed begins. With resume it is after
// the message last, or at the first entry if last is the zero id. Without resume, or if
// last is unknown, it is at the first message that is not transferred.
// // spec: Agent stream
func (q *Feeds) Resume(ctx context.Context, agent parley.AgentID, last parley.MessageID, resume bool) (s Start, err error) {
	if resume && last.Zero() {
		return Start{}, nil
	}
	// Read the durable position before the view opens: the view has everything up to
	// it, and the stream follows what is appended later.
	durable, read := q.journal.DurablePosition(agent), 0
	err = q.view(ctx, func(v journal.View) error {
		if resume {
			m, err := ReadRecord(v, agent.Slot(), last)
			if (err == nil || errors.Is(err, journal.ErrErased)) && m.Record.Recipient() == agent && m.Position != 0 {
				s = Start{After: m.Position, Last: last}
				return nil
			}
			if err != nil && !parley.IsRefusal(err) {
				return err
			}
		}
		s = Start{OnlyUntransferred: true, Gap: resume, After: durable}
		if _, read, err = v.Untransferred(agent, 0, math.MaxInt, func(position uint64, _ parley.MessageID) bool {
			s.After = min(s.After, position-1)
			return false
		}); err != nil {
			return err
		}
		return v.InboxBefore(agent, s.After+1, func(e journal.FeedEntry) bool {
			s.Last = parley.MessageID(e.Ref)
			return false
		})
	})
	if err == nil && s.OnlyUntransferred && read >= q.limits.TransferredStep {
		q.keepTransferred(agent, s.After)
	}
	return s, err
}

// TransferredUpTo returns the stored position up to which everything in an agent's feed
// is transferred. It may lag behind.
func TransferredUpTo(v journal.View, agent parley.AgentID) (uint64, error) {
	return PlaceUpTo(v, journal.TransferredTable, agent)
}

// PlaceUpTo returns a stored position of an agent's feed, 0 if there is none.
func PlaceUpTo(v journal.View, table journal.Table, agent parley.AgentID) (uint64, error) {
	value, found, err := v.Row(agent.Slot(), table, agent[:])
	if err != nil || !found || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// keepTransferred stores the position up to which everything is transferred, so that
// queries need not read that part of the feed again.
func (q *reader) keepTransferred(agent parley.AgentID, upTo uint64) {
	q.keepPlace(journal.TransferredTable, agent, upTo)
}

// KeepRead stores the position up to which an agent has read everything, so that
// queries need not read that part of the feed again. It does not wait. If the write is
// lost, only speed is lost.
func (q *Feeds) KeepRead(agent parley.AgentID, upTo uint64) {
	q.keepPlace(journal.ReadTable, agent, upTo)
}

// keepPlace stores a position of an agent's feed in a row. It does not wait: the
// position only saves reads.
func (q *reader) keepPlace(table journal.Table, agent parley.AgentID, upTo uint64) {
	row := journal.Row{Slot: agent.Slot(), Table: table, Key: agent.Bytes(), Value: binary.BigEndian.AppendUint64(nil, upTo)}
	q.appendUnawaited(&journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}})
}

// appendUnawaited appends an entry of rows that only save reads. It does not wait and
// ignores refusals.
func (q *reader) appendUnawaited(e *journal.Entry) {
	size := 0
	for i := range e.Rows {
		size += len(e.Rows[i].Key) + len(e.Rows[i].Value)
	}
	release, err := q.journal.Admit(e.Slot, size)
	if err != nil {
		return
	}
	e.At, e.Release = q.clock(), func(error) { release() }
	q.journal.Append(e)
}

// Follow subscribes to an agent's feed: the entries after a position, then new ones.
// notify, which must not block, is called when there is something to read.
func (q *Feeds) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	return q.journal.Follow(agent, after, notify)
}

// Watch calls notify, which must not block, when an agent's feed has new entries, until
// stop is called.
func (q *Feeds) Watch(agent parley.AgentID, notify func()) (stop func()) {
	return q.journal.Watch(agent, notify)
}

// DurablePosition returns the position up to which an agent's feed is durable.
func (q *Feeds) DurablePosition(agent parley.AgentID) uint64 { return q.journal.DurablePosition(agent) }

// Entries calls fn with each feed entry and its message, in order. Entries without a
// message come with the zero Message; those whose message was erased are left out.
// Everything passed to fn is durable, receipts
// included. A live entry contains its message; the others are read.
func (q *Feeds) Entries(ctx context.Context, agent parley.AgentID, entries []journal.FeedEntry, fn func(journal.FeedEntry, Message) error) error {
	messages, erased := make([]Message, len(entries)), make([]bool, len(entries))
	var v journal.View
	opened := false
	for i, e := range entries {
		if !e.Kind.BringsMessage() {
			continue
		}
		var err error
		if e.Record != nil { // live: it has no receipts yet, except through another channel
			messages[i].Record, err = liveRecord(e, agent)
		} else {
			if !opened {
				v, opened = q.journal.View(), true
				defer v.Close()
			}
			messages[i], err = readMessage(v, agent.Slot(), parley.MessageID(e.Ref))
		}
		if erased[i] = errors.Is(err, journal.ErrErased); erased[i] {
			continue
		}
		if err != nil {
			return err
		}
		messages[i].Position = e.Position
	}
	if opened {
		if err := v.Durable(ctx); err != nil {
			return err
		}
	}
	for i, e := range entries {
		if erased[i] {
			continue
		}
		if e.Kind == journal.CopyEntry {
			if err := q.Addressed(ctx, messages[i].Record); err != nil {
				return err
			}
		}
		if err := fn(e, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// Backlog calls fn with the entries of an agent's feed after position from, up to upTo,
// and their messages: at most limit entries, erased ones included, ending with the one at which the messages
// exceed size bytes. It returns the position of the last entry that it read, or upTo.
// Everything passed to fn is durable, receipts included. The messages are shared and
// must not be changed.
func (q *Feeds) Backlog(ctx context.Context, agent parley.AgentID, from, upTo uint64, limit, size int, fn func(journal.FeedEntry, Message) error) (to uint64, err error) {
	var entries []FeedEntry
	var records []*record.Message // of entries
	to = upTo
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		erased := 0
		scan := v.Feed(agent, from, upTo, func(e journal.FeedEntry) bool {
			var record *record.Message
			if e.Kind.BringsMessage() {
				record, bad = q.transferred(ctx, v, agent, e)
				if errors.Is(bad, journal.ErrErased) {
					bad = nil
					if erased++; len(entries)+erased < limit {
						return true
					}
					to = e.Position
					return false
				}
				if bad != nil {
					return false
				}
				size -= cache.RecordOverhead + len(record.GetContent()) + len(record.GetSelfPayload())
			}
			entries, records = append(entries, FeedEntry{FeedEntry: e}), append(records, record)
			if len(entries)+erased == limit || size <= 0 {
				to = e.Position
				return false
			}
			return true
		})
		if err := errors.Join(scan, bad); err != nil {
			return err
		}
		return fillEntryReceipts(v, agent, entries)
	})
	for i := 0; i < len(entries) && err == nil; i++ {
		err = fn(entries[i].FeedEntry, Message{Record: records[i], Receipts: entries[i].Receipts, Position: entries[i].Position})
	}
	return to, err
}

// WatchConversations calls changed with each conversation that has new events, once they are
// durable, and replaced when any may have some, until stop is called. Neither must block.
func (q *Feeds) WatchConversations(changed func(parley.ConversationID), replaced func()) (stop func()) {
	return q.journal.Observe(journal.Observer{Streams: []journal.StreamKind{journal.ConversationStream}, Changed: func(c journal.Change) {
		if c.Stream.Kind == journal.ConversationStream {
			changed(parley.ConversationID(c.Stream.ID))
		}
	}, Replaced: replaced})
}
