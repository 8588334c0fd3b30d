package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"

	"parley"
	"parley/journal"
)

// unreadLines is how many lines of a feed are held against its marks at once.
const unreadLines = 512

// errEnough ends a walk that has found what it looked for.
var errEnough = errors.New("enough was found")

// feedLine is a message of a feed with its marks, its record not read.
type feedLine struct {
	journal.FeedEntry
	marks journal.Receipts
}

// walkUnread calls fn with the messages of an agent's feed beyond a position, up
// to another, that have no read mark, oldest first, until fn fails or rows entries
// of the feed were looked at.
func walkUnread(v journal.View, agent parley.AgentID, from, upTo uint64, rows int, fn func(feedLine) error) error {
	passed, err := readUpTo(v, agent)
	if err != nil {
		return err
	}
	for from = max(from, passed); from < upTo && rows > 0; {
		lines, last, looked, err := marked(v, agent, from, upTo, min(rows, unreadLines), unreadLines)
		rows -= looked
		for i := 0; i < len(lines) && err == nil; i++ {
			if lines[i].marks.ReadAt == 0 {
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

// marked are the messages among the entries of a feed beyond a position, up to
// another, with their marks: at most limit of them, of at most rows entries. It
// gives how far that goes and how many entries it looked at.
func marked(v journal.View, agent parley.AgentID, from, upTo uint64, rows, limit int) (lines []feedLine, last uint64, looked int, err error) {
	last = upTo
	err = v.Feed(agent, from, upTo, func(e journal.FeedEntry) bool {
		if e.Kind.BringsMessage() {
			e.Note = nil // the feed's memory
			lines = append(lines, feedLine{FeedEntry: e})
		}
		looked++
		if looked == rows || len(lines) == limit {
			last = e.Position
			return false
		}
		return true
	})
	if err == nil {
		err = markLines(v, agent, lines)
	}
	return lines, last, looked, err
}

// markLines completes lines, oldest first, with their marks.
func markLines(v journal.View, agent parley.AgentID, lines []feedLine) error {
	if len(lines) == 0 {
		return nil
	}
	i := 0
	return v.FeedReceipts(agent, lines[0].Position, lines[len(lines)-1].Position, func(position uint64, marks journal.Receipts) {
		for i < len(lines)-1 && lines[i].Position < position {
			i++
		}
		if lines[i].Position == position {
			lines[i].marks = marks
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

// PlaceIn is the position of a message in an agent's inbox; parley.ErrNotFound
// where there is no such message or it is somebody else's.
func (n *Node) PlaceIn(ctx context.Context, agent parley.AgentID, id parley.MessageID) (position uint64, err error) {
	err = n.view(ctx, func(v journal.View) error {
		m, err := readRecord(v, agent.Slot(), id)
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

// MessagesIn are messages of an agent's inbox by their ids, each once;
// parley.ErrNotFound where one is not there.
func (n *Node) MessagesIn(ctx context.Context, agent parley.AgentID, ids []parley.MessageID) (all []Message, err error) {
	err = n.view(ctx, func(v journal.View) error {
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

// ackStep is a node's, unless a test has another: so many marks are written
// before it is waited for them.
const ackStep = 16 * marksPerEntry

// ReadUpTo marks all messages of an agent's inbox up to a position as read and
// gives how many of them were not. What it has done is durable when it returns,
// also where it fails half way: it may be repeated. stop ends it early, with
// parley.ErrOutcomeUnknown.
func (n *Node) ReadUpTo(ctx context.Context, agent parley.AgentID, upTo uint64, stop <-chan struct{}) (count int, err error) {
	for from := uint64(0); ; {
		select {
		case <-stop:
			return count, parley.ErrOutcomeUnknown
		default:
		}
		marks, last, err := n.unreadMarks(ctx, agent, from, upTo, n.ackStep)
		if err == nil {
			err = n.Mark(ctx, agent, marks)
		}
		if err != nil {
			return count, err
		}
		count += len(marks)
		if len(marks) > 0 || last == upTo {
			n.keepRead(agent, last)
		}
		if from = last; from == upTo {
			return count, nil
		}
	}
}

// keepRead notes that an agent has read everything up to a position, so that
// nobody looks through that again. Nothing waits for it, and nothing is lost
// without it.
func (n *Node) keepRead(agent parley.AgentID, upTo uint64) {
	n.keepPlace(journal.ReadTable, agent, upTo)
}

// unreadMarks are marks for the first messages of a feed within (from, upTo]
// that were not read, and how far that goes.
func (n *Node) unreadMarks(ctx context.Context, agent parley.AgentID, from, upTo uint64, limit int) (marks []journal.RecordReceipt, last uint64, err error) {
	at := n.clock().UnixMilli()
	err = n.view(ctx, func(v journal.View) error {
		last = upTo
		err := walkUnread(v, agent, from, upTo, math.MaxInt, func(l feedLine) error {
			if len(marks) == limit {
				return errEnough
			}
			m := journal.RecordReceipt{
				Recipient: agent, Message: parley.MessageID(l.Ref), Position: l.Position, Copy: l.Kind == journal.CopyEntry,
				Receipts: journal.Receipts{ReadAt: at},
			}
			if l.marks.TransferredAt == 0 {
				m.Receipts.TransferredAt = at
			}
			marks = append(marks, m)
			return nil
		})
		if errors.Is(err, errEnough) {
			last, err = marks[len(marks)-1].Position, nil
		}
		return err
	})
	if err == nil {
		err = n.nameSenders(agent, marks)
	}
	return marks, last, err
}

// nameSenders completes marks with the senders of their messages, where any of
// them has a webhook that may ask for it.
func (n *Node) nameSenders(agent parley.AgentID, marks []journal.RecordReceipt) error {
	if len(marks) == 0 || !n.watching() {
		return nil
	}
	v := n.journal.View()
	defer v.Close()
	for i := range marks {
		m, err := readRecord(v, agent.Slot(), marks[i].Message)
		if err != nil {
			return err
		}
		marks[i].Sender = m.Record.Sender()
	}
	return nil
}
