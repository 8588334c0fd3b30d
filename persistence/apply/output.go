package apply

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// output writes rows into a batch.
type output struct {
	batch *pebble.Batch
	// feeds are the agents whose feeds or receipts the batch changes, some more than once.
	feeds []parley.AgentID
}

func (o *output) writeEvents(s journal.Stream, seq uint64, events []journal.StoredEvent, state []byte, at int64) error {
	for _, e := range events {
		seq++
		value := make([]byte, 0, 9+len(e.Data))
		value = append(value, e.Tag)
		value = binary.BigEndian.AppendUint64(value, uint64(at))
		if err := o.batch.Set(layout.EventKey(s, seq), append(value, e.Data...), nil); err != nil {
			return err
		}
	}
	if state == nil {
		return nil
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(state)), seq)
	return o.batch.Set(layout.StateKey(s), append(value, state...), nil)
}

func (o *output) writeRow(r *journal.Row) error {
	if r.Beneath {
		low := layout.RowKey(r.Slot, r.Table, r.Key)
		return o.batch.DeleteRange(low, layout.After(low), nil)
	}
	if r.Delete {
		return o.batch.Delete(layout.RowKey(r.Slot, r.Table, r.Key), nil)
	}
	return o.batch.Set(layout.RowKey(r.Slot, r.Table, r.Key), r.Value, nil)
}

// dropFeed hides entries of a feed and deletes the receipts beside them. The rows of the
// entries stay, so that a dropped entry can be told from a lost one.
func (o *output) dropFeed(w journal.DropFeed, at int64) error {
	o.feeds = append(o.feeds, w.Of)
	for _, m := range w.Messages {
		value := make([]byte, layout.FeedBytes)
		layout.PutDropped(value, m, at)
		if err := o.batch.Set(layout.FeedKey(layout.FeedFamily, w.Of, m.Position), value, nil); err != nil {
			return err
		}
		if err := o.batch.Delete(layout.FeedKey(layout.ReceiptFamily, w.Of, m.Position), nil); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) writeFeed(agent parley.AgentID, e *journal.FeedEntry) error {
	o.feeds = append(o.feeds, agent)
	op := o.batch.SetDeferred(layout.FeedKeyBytes, layout.FeedBytes+len(e.Note))
	layout.PutFeedKey(op.Key, layout.FeedFamilyOf(e.Kind), agent, e.Position)
	layout.PutFeed(op.Value, e)
	return op.Finish()
}

// writeRecord stores a message for the agents of this home. position is its
// position in the recipient's feed, 0 if that feed is in another journal.
func (o *output) writeRecord(slot parley.Slot, r *journal.Record, position uint64) error {
	k := layout.MessageKey(layout.RecordFamily, slot, r.ID)
	stored := r.Bytes()
	op := o.batch.SetDeferred(len(k), 8+len(stored))
	copy(op.Key, k)
	binary.BigEndian.PutUint64(op.Value, position)
	copy(op.Value[8:], stored)
	return op.Finish()
}

func (o *output) writeCopyList(slot parley.Slot, id parley.MessageID, first uint64, to []parley.Seat) error {
	k := layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(id, to[0].Number))
	op := o.batch.SetDeferred(len(k), 8+layout.SeatBytes*len(to))
	copy(op.Key, k)
	binary.BigEndian.PutUint64(op.Value, first)
	layout.AppendSeats(op.Value[:8], to)
	return op.Finish()
}
