package rows

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Families lists rows family by family, for those who know what the rows mean. Byte
// strings are only valid during a call of fn, which ends the reading by an error.
type Families struct{ *View }

// Streams lists every event of every stream, stream by stream in order.
func (f Families) Streams(fn func(s journal.Stream, seq uint64, f journal.StoredEvent) error) error {
	return f.family(layout.EventFamily, func(_ parley.Slot, k, value []byte) error {
		if len(k) != 28 || len(value) < 9 {
			return nil // verify.Rows reports what does not parse
		}
		return fn(layout.StreamOf(k), layout.Number(k[20:]), journal.StoredEvent{Tag: value[0], Data: value[9:]})
	})
}

// Records lists every message record, with the slot that keeps it.
func (f Families) Records(fn func(under parley.Slot, id parley.MessageID, position uint64, record []byte) error) error {
	return f.family(layout.RecordFamily, func(slot parley.Slot, k, value []byte) error {
		if len(k) != 19 || len(value) < 8 {
			return nil
		}
		return fn(slot, parley.IDFromBytes[parley.MessageID](k[3:]), layout.Number(value), value[8:])
	})
}

// Feeds lists every feed, entry by entry in order.
func (f Families) Feeds(fn func(agent parley.AgentID, e journal.FeedEntry) error) error {
	if f.Reader == nil {
		return journal.ErrClosed
	}
	messages, err := f.Reader.NewIter(nil)
	if err != nil {
		return err
	}
	rows, err := newFeedRows(messages)
	if err != nil {
		return errors.Join(err, messages.Close())
	}
	for slot := parley.Slot(0); slot < parley.Slots && err == nil; slot++ {
		err = rows.scan(layout.Key(slot, layout.FeedFamily, 0), layout.Key(slot, layout.FeedFamily+1, 0), func(k, value []byte) (bool, error) {
			if len(k) != layout.FeedKeyBytes || len(value) < layout.FeedBytes || layout.Dropped(value) {
				return true, nil
			}
			e, err := layout.DecodeFeed(layout.Number(k[19:]), value)
			if err == nil {
				err = fn(layout.AgentOf(k), e)
			}
			return true, err
		})
	}
	return errors.Join(err, rows.close(), messages.Close())
}

// Copies lists every copy of a broadcast, with the slot under which the list of
// recipients is stored, and its position; the position is 0 if the recipient lives
// in another journal.
func (f Families) Copies(fn func(under parley.Slot, id parley.MessageID, to parley.AgentID, position uint64) error) error {
	return f.family(layout.CopiesFamily, func(slot parley.Slot, k, value []byte) error {
		c, err := layout.DecodeCopies(value)
		if len(k) != 19 || err != nil {
			return nil
		}
		broadcast := parley.IDFromBytes[parley.MessageID](k[3:]).Broadcast()
		for i := range c.Len() {
			seat := c.Seat(i)
			if err := fn(slot, parley.Copy(broadcast, seat.Number), seat.Agent, c.Position(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// FarReceipts lists the receipts that are stored by message: at the home of the
// conversation, if the recipient lives in another.
func (f Families) FarReceipts(fn func(id parley.MessageID, m journal.Receipts) error) error {
	return f.family(layout.ReceiptFamily, func(_ parley.Slot, k, value []byte) error {
		if len(k) != 19 {
			return nil // stored beside a feed
		}
		m, err := layout.DecodeReceipts(value)
		if err != nil {
			return nil
		}
		return fn(parley.IDFromBytes[parley.MessageID](k[3:]), m)
	})
}

// Tables lists every row of every table.
func (f Families) Tables(fn func(slot parley.Slot, table journal.Table, k, value []byte) error) error {
	return f.family(layout.RowFamily, func(slot parley.Slot, k, value []byte) error {
		if len(k) < 4 {
			return nil
		}
		return fn(slot, journal.Table(k[3]), k[4:], value)
	})
}

// Queues lists every message in an actor's queue.
func (f Families) Queues(fn func(s journal.Stream, data []byte) error) error {
	return f.family(layout.QueueFamily, func(_ parley.Slot, k, value []byte) error {
		if len(k) != 28 {
			return nil
		}
		return fn(layout.StreamOf(k), value)
	})
}

// Timers lists every timer that is set.
func (f Families) Timers(fn func(s journal.Stream, due time.Time) error) error {
	return f.own(layout.TimerFamily, func(_ int, k, _ []byte) error {
		s, due, ok := layout.TimerOf(k)
		if !ok {
			return nil
		}
		return fn(s, due)
	})
}

// Quotas lists how many messages each organization sent on each day, as each journal counted
// them.
func (f Families) Quotas(fn func(journal int, org parley.OrgID, day uint32, sent uint64) error) error {
	return f.own(layout.QuotaFamily, func(n int, k, value []byte) error {
		q, ok := layout.QuotaOf(k)
		if !ok || len(value) != 8 || q.Of != journal.CountedMessages {
			return nil
		}
		sent, _ := layout.DecodeCount(q.Of, layout.Number(value))
		return fn(n, q.Org, q.Day, uint64(sent))
	})
}

// Underway lists every effect in an outbox that its target has not applied yet, in
// the order of each outbox.
func (f Families) Underway(fn func(w journal.Effect) error) error {
	return f.own(layout.OutboxFamily, func(_ int, k, value []byte) error {
		from, number, ok := f.Homes.OutboxOf(k)
		if !ok {
			return nil
		}
		applied, err := f.applied(from)
		if err != nil || number <= applied {
			return err
		}
		p, err := layout.DecodeOutboxMessage(value)
		if err != nil {
			return nil
		}
		for _, w := range p.Effects {
			if err := fn(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// Home is the number of the journal in which a slot lives.
func (f Families) Home(slot parley.Slot) int { return f.Homes.Of(slot) }

// BroadcastSlot is the slot under which a journal stores a broadcast.
func (f Families) BroadcastSlot(journal int, broadcast parley.MessageID) parley.Slot {
	return f.Homes.BroadcastSlot(journal, broadcast)
}

// applied is the last number of an outbox that its target has applied.
func (f Families) applied(l layout.Outbox) (uint64, error) {
	value, _, err := f.Get(f.Homes.OutboxReceivedKey(l.Target, l.Source))
	return layout.Number(value), err
}

// CopiesOf lists the recipients of a broadcast's copies, as its home stores them:
// with the position of the copy if the recipient lives there too, else 0. Copies
// for recipients of that home that are still under way are not listed.
func (f Families) CopiesOf(broadcast parley.MessageID, fn func(to parley.Seat, position uint64)) error {
	low := layout.MessageKey(layout.CopiesFamily, broadcast.Slot(), broadcast)
	high := layout.After(layout.MessageKey(layout.CopiesFamily, broadcast.Slot(), parley.Copy(broadcast, ^uint32(0))))
	return f.Scan(low, high, false, func(_, value []byte) (bool, error) {
		c, err := layout.DecodeCopies(value)
		if err != nil {
			return true, nil //nolint:nilerr // verify.Rows reports it
		}
		for i := range c.Len() {
			fn(c.Seat(i), c.Position(i))
		}
		return true, nil
	})
}

// Pairs lists every key with its value as stored, in order: a later release must be
// able to read what this one wrote. Byte strings are only valid during a call of
// fn, whose error ends the listing.
func (f Families) Pairs(fn func(key, value []byte) error) error {
	iter, err := f.Reader.NewIter(&pebble.IterOptions{})
	if err != nil {
		return err
	}
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		var value []byte
		if value, err = iter.ValueAndErr(); err == nil {
			err = fn(iter.Key(), value)
		}
	}
	if closeErr := iter.Close(); err == nil {
		err = closeErr
	}
	return err
}

// family calls fn for every key of a family, in order. Key and value are only valid
// during the call. It seeks once or twice per slot that has rows.
func (f Families) family(letter byte, fn func(slot parley.Slot, k, value []byte) error) error {
	if f.Reader == nil {
		return journal.ErrClosed
	}
	iter, err := f.Reader.NewIter(nil)
	if err != nil {
		return err
	}
	err = eachOfFamily(iter, letter, fn)
	return errors.Join(err, iter.Close())
}

func eachOfFamily(iter *pebble.Iterator, letter byte, fn func(slot parley.Slot, k, value []byte) error) error {
	for slot := parley.Slot(0); slot < parley.Slots; {
		if !iter.SeekGE(layout.Key(slot, letter, 0)) {
			return iter.Error()
		}
		at, has := layout.FamilyOf(iter.Key())
		if at >= parley.Slots {
			return nil
		}
		if at != slot || has != letter {
			if at == slot || has > letter {
				at++ // this slot has none
			}
			slot = at
			continue
		}
		for ok := true; ok; ok = iter.Next() {
			k := iter.Key()
			if at, has := layout.FamilyOf(k); at != slot || has != letter {
				break
			}
			value, err := iter.ValueAndErr()
			if err == nil {
				err = fn(slot, k, value)
			}
			if err != nil {
				return err
			}
		}
		if err := iter.Error(); err != nil {
			return err
		}
		slot++
	}
	return nil
}

// own calls fn for every key of a family of the journals' own rows, journal by
// journal, in order.
func (f Families) own(letter byte, fn func(journal int, k, value []byte) error) error {
	for n := range int(f.Homes) {
		low := f.Homes.JournalKey(letter, n, 0)
		if err := f.Scan(low, layout.After(low), false, func(k, value []byte) (bool, error) {
			err := fn(n, k, value)
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	return nil
}
