package rows

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Untransferred calls fn with the messages of agent's feed, from position from on,
// whose bodies were not transferred yet, oldest first, until fn returns false or
// rows entries of the feed were read. It returns the position up to which all of them
// were given to fn (the greatest possible one at the end of the feed), and how many
// entries it read.
//
// No row says that a message is untransferred: it is if its entry lies beyond the
// position in journal.TransferredTable and has no receipt of a transfer.
func (v FeedReader) Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (upTo uint64, read int, err error) {
	transferred, _, err := v.Get(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]))
	if err != nil {
		return 0, 0, err
	}
	start := max(from, layout.Number(transferred)+1)
	u := untransferred{rows: rows, last: start - 1}
	if u.feed, err = v.feedIterator(layout.FeedFamily, agent, start); err != nil {
		return 0, 0, err
	}
	if u.receipts, err = v.feedIterator(layout.ReceiptFamily, agent, start); err != nil {
		return 0, 0, errors.Join(err, u.feed.Close())
	}
	upTo = u.report(fn)
	return upTo, rows - u.rows, errors.Join(u.feed.Close(), u.receipts.Close())
}

// feedIterator iterates over a family of an agent's feed, from a position on.
func (v FeedReader) feedIterator(family byte, agent parley.AgentID, from uint64) (*pebble.Iterator, error) {
	return v.iterator(layout.FeedKey(family, agent, from), layout.After(layout.FeedKey(family, agent, ^uint64(0))))
}

// untransferred iterates over the messages of a feed that have no receipt of a
// transfer.
type untransferred struct {
	feed, receipts *pebble.Iterator
	hasReceipt     bool   // receipts is at a row
	rows           int    // how many more entries may be read
	last           uint64 // the last position read
}

func (u *untransferred) report(fn func(position uint64, id parley.MessageID) bool) (upTo uint64) {
	u.hasReceipt = u.receipts.First()
	for ok := u.feed.First(); ok; ok = u.feed.Next() {
		if u.rows == 0 {
			return u.last
		}
		u.rows, u.last = u.rows-1, positionOf(u.feed)
		value := u.feed.Value()
		if len(value) < layout.FeedBytes || layout.Dropped(value) || u.wasTransferred() {
			continue
		}
		if !fn(u.last, parley.MessageID(value[9:layout.FeedBytes])) {
			return u.last
		}
	}
	return ^uint64(0)
}

// wasTransferred reports whether the message at the last position has a
// receipt of a transfer.
func (u *untransferred) wasTransferred() bool {
	for u.hasReceipt && positionOf(u.receipts) < u.last {
		u.hasReceipt = u.receipts.Next()
	}
	return u.hasReceipt && positionOf(u.receipts) == u.last && layout.Transferred(u.receipts.Value())
}

// positionOf is the feed position in the key of an iterator.
func positionOf(iter *pebble.Iterator) uint64 {
	k := iter.Key()
	return layout.Number(k[len(k)-8:])
}
