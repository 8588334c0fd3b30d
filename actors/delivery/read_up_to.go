package delivery

import (
	"context"
	"errors"
	"math"

	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// readStep is how many receipts ReadUpTo writes before it waits for them.
const readStep = 16 * receiptsPerEntry

// ReadUpTo records that an agent has read all messages of its inbox up to a position,
// and returns how many were unread. What it has recorded is durable when it returns,
// also if it fails half way; it may be repeated. Closing stop ends it early with
// parley.ErrOutcomeUnknown.
func (rs *Receipts) ReadUpTo(ctx context.Context, agent parley.AgentID, upTo uint64, stop <-chan struct{}) (count int, err error) {
	for from := uint64(0); ; {
		select {
		case <-stop:
			return count, parley.ErrOutcomeUnknown
		default:
		}
		receipts, last, err := rs.unread(ctx, agent, from, upTo, rs.ReadStep)
		if err == nil {
			err = rs.Record(ctx, agent, receipts)
		}
		if err != nil {
			return count, err
		}
		count += len(receipts)
		if len(receipts) > 0 || last == upTo {
			rs.queries.Feeds.KeepRead(agent, last)
		}
		if from = last; from == upTo {
			return count, nil
		}
	}
}

// unread returns read receipts for the first limit unread messages of a feed in (from,
// upTo], and the position that it reached.
func (rs *Receipts) unread(ctx context.Context, agent parley.AgentID, from, upTo uint64, limit int) (receipts []journal.RecordReceipt, last uint64, err error) {
	at := rs.clock().UnixMilli()
	err = journal.Durably(ctx, rs.journal.View(), func(v journal.View) error {
		last = upTo
		err := query.WalkUnread(v, agent, from, upTo, math.MaxInt, func(l query.FeedEntry) error {
			if len(receipts) == limit {
				return query.ErrEnough
			}
			m := journal.RecordReceipt{
				Recipient: agent, Message: parley.MessageID(l.Ref), Position: l.Position, Copy: l.Kind == journal.CopyEntry,
				Receipts: journal.Receipts{ReadAt: at},
			}
			if l.Receipts.TransferredAt == 0 {
				m.Receipts.TransferredAt = at
			}
			receipts = append(receipts, m)
			return nil
		})
		if errors.Is(err, query.ErrEnough) {
			last, err = receipts[len(receipts)-1].Position, nil
		}
		return err
	})
	if err == nil {
		err = rs.nameSenders(agent, receipts)
	}
	return receipts, last, err
}

// nameSenders fills in the senders of the messages, if any webhook subscribes to
// receipts.
func (rs *Receipts) nameSenders(agent parley.AgentID, receipts []journal.RecordReceipt) error {
	if len(receipts) == 0 || !rs.webhooks.watching() {
		return nil
	}
	v := rs.journal.View()
	defer v.Close()
	for i := range receipts {
		m, err := query.ReadRecord(v, agent.Slot(), receipts[i].Message)
		if err != nil {
			return err
		}
		receipts[i].Sender = m.Record.Sender()
	}
	return nil
}
