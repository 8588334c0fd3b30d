package query

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"parley"
	"parley/actors/record"
	"parley/journal"
)

// Start of a stream: where to read on, and what to tell the client it has.
type Start struct {
	// After is the position to follow the feed from.
	After uint64
	// Last is the newest message before that, which the client can resume
	// from; zero if there is none.
	Last parley.MessageID
	// OnlyUntransferred: of the messages up to the feed's edge only those not carried
	// yet are wanted.
	OnlyUntransferred bool
	// Gap: the message to resume from is not in the agent's feed.
	Gap bool
}

// Resume finds where to read an agent's feed on: after the message last, from
// the first entry if last is the nil UUID, and from the first message not
// carried yet if resume is false or last is unknown. // spec: Agent stream
func (q *Feeds) Resume(ctx context.Context, agent parley.AgentID, last parley.MessageID, resume bool) (s Start, err error) {
	if resume && last.Zero() {
		return Start{}, nil
	}
	// Before the view: what the edge covers, the view shows. What comes later is
	// followed.
	edge, passed := q.journal.DurablePosition(agent), uint64(0)
	err = q.view(ctx, func(v journal.View) error {
		if resume {
			m, err := readMessage(v, agent.Slot(), last)
			if err == nil && m.Record.Recipient() == agent && m.Position != 0 {
				s = Start{After: m.Position, Last: last}
				return nil
			}
			if err != nil && !parley.IsRefusal(err) {
				return err
			}
		}
		s = Start{OnlyUntransferred: true, Gap: resume, After: edge}
		if passed, err = TransferredUpTo(v, agent); err != nil {
			return err
		}
		if _, err := v.Untransferred(agent, 0, math.MaxInt, func(position uint64, _ parley.MessageID) bool {
			s.After = min(s.After, position-1)
			return false
		}); err != nil {
			return err
		}
		return v.FeedBefore(agent, s.After+1, func(e journal.FeedEntry) bool {
			if e.Kind.BringsMessage() {
				s.Last = parley.MessageID(e.Ref)
			}
			return !e.Kind.BringsMessage()
		})
	})
	if err == nil && s.OnlyUntransferred && s.After >= passed+q.limits.TransferredStep {
		q.keepTransferred(agent, s.After)
	}
	return s, err
}

// TransferredUpTo is the position up to which it is noted that an agent has been
// carried everything.
func TransferredUpTo(v journal.View, agent parley.AgentID) (uint64, error) {
	value, found, err := v.Row(agent.Slot(), journal.TransferredTable, agent[:])
	if err != nil || !found {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// keepTransferred notes it, so that nobody looks through what is before that again.
// Nothing waits for it, and nothing is lost without it.
func (q *reader) keepTransferred(agent parley.AgentID, upTo uint64) {
	q.keepPlace(journal.TransferredTable, agent, upTo)
}

// KeepRead stores that an agent has read everything up to a position, so that no query
// reads that part of the feed again. Nothing waits for it, and nothing is lost without it.
func (q *Feeds) KeepRead(agent parley.AgentID, upTo uint64) {
	q.keepPlace(journal.ReadTable, agent, upTo)
}

// keepPlace keeps a position of an agent's feed in a row, without anybody waiting.
func (q *reader) keepPlace(table journal.Table, agent parley.AgentID, upTo uint64) {
	room, err := q.journal.Admit(agent.Slot(), 0)
	if err != nil {
		return
	}
	row := journal.Row{Slot: agent.Slot(), Table: table, Key: agent.Bytes(), Value: binary.BigEndian.AppendUint64(nil, upTo)}
	q.journal.Append(&journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, At: q.clock(), Release: func(error) { room() }})
}

// Follow gives an agent's feed beyond a position, then what is new in it.
func (q *Feeds) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	return q.journal.Follow(agent, after, notify)
}

// Watch calls notify, which must not block, when there is something new in an
// agent's feed, until stop is called.
func (q *Feeds) Watch(agent parley.AgentID, notify func()) (stop func()) {
	return q.journal.Watch(agent, notify)
}

// DurablePosition is the position up to which an agent's feed is durable.
func (q *Feeds) DurablePosition(agent parley.AgentID) uint64 { return q.journal.DurablePosition(agent) }

// Entries calls fn with the messages that feed entries announce, in their order,
// and with the entries themselves. What fn is told of is durable, marks
// included. A live entry brings its message along.
func (q *Feeds) Entries(ctx context.Context, agent parley.AgentID, entries []journal.FeedEntry, fn func(journal.FeedEntry, Message) error) error {
	messages := make([]Message, len(entries))
	var v journal.View
	for i, e := range entries {
		if !e.Kind.BringsMessage() {
			continue
		}
		var err error
		if e.Record != nil { // nothing can have marked it before us but another channel
			messages[i].Record, err = liveRecord(e, agent)
		} else {
			if v == nil {
				v = q.journal.View()
				defer v.Close()
			}
			messages[i], err = readMessage(v, agent.Slot(), parley.MessageID(e.Ref))
		}
		if err != nil {
			return err
		}
		messages[i].Position = e.Position
	}
	if v != nil {
		if err := v.Durable(ctx); err != nil {
			return err
		}
	}
	for i, e := range entries {
		if e.Kind == journal.CopyEntry {
			if err := q.addressed(ctx, messages[i].Record); err != nil {
				return err
			}
		}
		if err := fn(e, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// Backlog calls fn with the entries of an agent's feed beyond the position from,
// up to upTo, and with the messages they announce: with at most limit entries,
// and with none after those whose messages have size bytes. It gives the position
// that it came to. What fn is told of is durable, marks included, and the
// messages are shared: nobody changes them.
func (q *Feeds) Backlog(ctx context.Context, agent parley.AgentID, from, upTo uint64, limit, size int, fn func(journal.FeedEntry, Message) error) (to uint64, err error) {
	var lines []FeedEntry
	var records []*record.Message // of lines
	to = upTo
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Feed(agent, from, upTo, func(e journal.FeedEntry) bool {
			var record *record.Message
			if e.Kind.BringsMessage() {
				if record, bad = q.transferred(ctx, v, agent, e); bad != nil {
					return false
				}
				size -= len(record.GetContent()) + len(record.GetSelfPayload())
			}
			lines, records = append(lines, FeedEntry{FeedEntry: e}), append(records, record)
			if len(lines) == limit || size <= 0 {
				to = e.Position
				return false
			}
			return true
		})
		if err := errors.Join(scan, bad); err != nil {
			return err
		}
		return fillEntryReceipts(v, agent, lines)
	})
	for i := 0; i < len(lines) && err == nil; i++ {
		err = fn(lines[i].FeedEntry, Message{Record: records[i], Receipts: lines[i].Receipts, Position: lines[i].Position})
	}
	return to, err
}
