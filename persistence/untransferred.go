package persistence

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

// A direct message that was not transferred yet has a row that says so. A copy of a
// broadcast has none, because there are many copies: a copy without receipts is
// untransferred. The search for such copies begins where an earlier one ended.

// Untransferred calls fn with the messages of agent's feed, from position from on,
// whose bodies were not transferred yet, oldest first, until fn returns false or
// rows entries of the feed were examined. It returns the position up to which all
// of them were given to fn: the greatest possible one at the end of the feed.
func (v *storeView) Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (upTo uint64, err error) {
	transferred, _, err := v.get(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]))
	if err != nil {
		return 0, err
	}
	var iters [3]*pebble.Iterator
	direct, feed, receipts := &iters[0], &iters[1], &iters[2]
	start := max(from, layout.Number(transferred)+1)
	for _, r := range []struct {
		iter   **pebble.Iterator
		family byte
		from   uint64
	}{{direct, layout.UntransferredFamily, from}, {feed, layout.FeedFamily, start}, {receipts, layout.ReceiptFamily, start}} {
		low, high := layout.FeedKey(r.family, agent, r.from), layout.After(layout.FeedKey(r.family, agent, ^uint64(0)))
		if *r.iter, err = v.rows.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high}); err != nil {
			break
		}
	}
	if err == nil {
		upTo = reportUntransferred(*direct, &copiesWithoutReceipts{feed: *feed, receipts: *receipts, rows: rows, passed: start - 1}, fn)
	}
	for _, iter := range iters {
		if iter != nil {
			err = errors.Join(err, iter.Close())
		}
	}
	return upTo, err
}

// reportUntransferred merges the untransferred rows with the copies that have no
// receipts.
func reportUntransferred(direct *pebble.Iterator, copies *copiesWithoutReceipts, fn func(position uint64, id parley.MessageID) bool) (upTo uint64) {
	one, other := direct.First(), copies.first()
	for one || other {
		if one && (!other || positionOf(direct) < positionOf(copies.feed)) {
			at := positionOf(direct)
			if copies.cut && at > copies.passed {
				break // a copy may lie before it
			}
			if !fn(at, parley.IDFromBytes[parley.MessageID](direct.Value())) {
				return at
			}
			one = direct.Next()
			continue
		}
		if !fn(positionOf(copies.feed), parley.MessageID(copies.feed.Value()[9:layout.FeedBytes])) {
			return positionOf(copies.feed)
		}
		other = copies.next()
	}
	if copies.cut {
		return copies.passed
	}
	return ^uint64(0)
}

// positionOf is the feed position in the key of an iterator.
func positionOf(iter *pebble.Iterator) uint64 {
	k := iter.Key()
	return layout.Number(k[len(k)-8:])
}

// copiesWithoutReceipts iterates over the copies of a feed that have no receipts.
type copiesWithoutReceipts struct {
	feed, receipts *pebble.Iterator
	hasReceipt     bool   // receipts is at a row
	rows           int    // how many more entries may be examined
	passed         uint64 // the last position examined
	cut            bool   // it ended before the end of the feed
}

func (u *copiesWithoutReceipts) first() bool {
	u.hasReceipt = u.receipts.First()
	return u.find(u.feed.First())
}

func (u *copiesWithoutReceipts) next() bool { return u.find(u.feed.Next()) }

func (u *copiesWithoutReceipts) find(ok bool) bool {
	for ; ok; ok = u.feed.Next() {
		if u.rows == 0 {
			u.cut = true
			return false
		}
		at := positionOf(u.feed)
		u.rows, u.passed = u.rows-1, at
		value := u.feed.Value()
		if len(value) < layout.FeedBytes || journal.FeedKind(value[0]) != journal.CopyEntry {
			continue
		}
		for u.hasReceipt && positionOf(u.receipts) < at {
			u.hasReceipt = u.receipts.Next()
		}
		if !u.hasReceipt || positionOf(u.receipts) != at || layout.AnnouncedOnly(u.receipts.Value()) {
			return true
		}
	}
	return false
}
