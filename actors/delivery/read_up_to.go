package delivery

import (
	"context"
	"errors"
	"math"

	"parley"
	"parley/actors/query"
	"parley/journal"
)

// readStep is a node's, unless a test has another: so many marks are written
// before it is waited for them.
const readStep = 16 * receiptsPerEntry

// ReadUpTo marks all messages of an agent's inbox up to a position as read and
// gives how many of them were not. What it has done is durable when it returns,
// also where it fails half way: it may be repeated. stop ends it early, with
// parley.ErrOutcomeUnknown.
func (rs *Receipts) ReadUpTo(ctx context.Context, agent parley.AgentID, upTo uint64, stop <-chan struct{}) (count int, err error) {
	for from := uint64(0); ; {
		select {
		case <-stop:
			return count, parley.ErrOutcomeUnknown
		default:
		}
		marks, last, err := rs.unread(ctx, agent, from, upTo, rs.ReadStep)
		if err == nil {
			err = rs.Record(ctx, agent, marks)
		}
		if err != nil {
			return count, err
		}
		count += len(marks)
		if len(marks) > 0 || last == upTo {
			rs.queries.Feeds.KeepRead(agent, last)
		}
		if from = last; from == upTo {
			return count, nil
		}
	}
}

// unread are marks for the first messages of a feed within (from, upTo]
// that were not read, and how far that goes.
func (rs *Receipts) unread(ctx context.Context, agent parley.AgentID, from, upTo uint64, limit int) (marks []journal.RecordReceipt, last uint64, err error) {
	at := rs.clock().UnixMilli()
	err = journal.Durably(ctx, rs.journal.View(), func(v journal.View) error {
		last = upTo
		err := query.WalkUnread(v, agent, from, upTo, math.MaxInt, func(l query.FeedEntry) error {
			if len(marks) == limit {
				return query.ErrEnough
			}
			m := journal.RecordReceipt{
				Recipient: agent, Message: parley.MessageID(l.Ref), Position: l.Position, Copy: l.Kind == journal.CopyEntry,
				Receipts: journal.Receipts{ReadAt: at},
			}
			if l.Receipts.TransferredAt == 0 {
				m.Receipts.TransferredAt = at
			}
			marks = append(marks, m)
			return nil
		})
		if errors.Is(err, query.ErrEnough) {
			last, err = marks[len(marks)-1].Position, nil
		}
		return err
	})
	if err == nil {
		err = rs.nameSenders(agent, marks)
	}
	return marks, last, err
}

// nameSenders completes marks with the senders of their messages, where any of
// them has a webhook that may ask for it.
func (rs *Receipts) nameSenders(agent parley.AgentID, marks []journal.RecordReceipt) error {
	if len(marks) == 0 || !rs.webhooks.watching() {
		return nil
	}
	v := rs.journal.View()
	defer v.Close()
	for i := range marks {
		m, err := query.ReadRecord(v, agent.Slot(), marks[i].Message)
		if err != nil {
			return err
		}
		marks[i].Sender = m.Record.Sender()
	}
	return nil
}
