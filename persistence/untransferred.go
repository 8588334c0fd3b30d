package persistence

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

// A message to one agent that was not carried to it yet has a row that says so. A
// copy of a broadcast has none: there are many of them, and its marks tell as
// well. Looking for copies without marks begins where an earlier look ended.

// Untransferred calls fn with the messages that were not carried to agent yet, with
// their positions from position from on, oldest first, until fn returns false or
// rows entries of the feed were looked at. It gives the position up to which fn
// has been told of all of them: the last there can be at the end of the feed.
func (v *storeView) Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (told uint64, err error) {
	carried, _, err := v.get(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]))
	if err != nil {
		return 0, err
	}
	var iters [3]*pebble.Iterator
	noted, lines, marks := &iters[0], &iters[1], &iters[2]
	start := max(from, layout.Number(carried)+1)
	for _, r := range []struct {
		iter   **pebble.Iterator
		family byte
		from   uint64
	}{{noted, layout.UntransferredFamily, from}, {lines, layout.FeedFamily, start}, {marks, layout.ReceiptFamily, start}} {
		low, high := layout.FeedKey(r.family, agent, r.from), layout.After(layout.FeedKey(r.family, agent, ^uint64(0)))
		if *r.iter, err = v.rows.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high}); err != nil {
			break
		}
	}
	if err == nil {
		told = reportUntransferred(*noted, &copiesWithoutReceipts{lines: *lines, marks: *marks, rows: rows, passed: start - 1}, fn)
	}
	for _, iter := range iters {
		if iter != nil {
			err = errors.Join(err, iter.Close())
		}
	}
	return told, err
}

// reportUntransferred merges what is noted with the copies that have no marks.
func reportUntransferred(noted *pebble.Iterator, copies *copiesWithoutReceipts, fn func(position uint64, id parley.MessageID) bool) (told uint64) {
	one, other := noted.First(), copies.first()
	for one || other {
		if one && (!other || placeOf(noted) < placeOf(copies.lines)) {
			at := placeOf(noted)
			if copies.cut && at > copies.passed {
				break // a copy may lie before it
			}
			if !fn(at, parley.IDFromBytes[parley.MessageID](noted.Value())) {
				return at
			}
			one = noted.Next()
			continue
		}
		if !fn(placeOf(copies.lines), parley.MessageID(copies.lines.Value()[9:layout.FeedBytes])) {
			return placeOf(copies.lines)
		}
		other = copies.next()
	}
	if copies.cut {
		return copies.passed
	}
	return ^uint64(0)
}

// placeOf is the position in a feed that an iterator stands at.
func placeOf(iter *pebble.Iterator) uint64 {
	k := iter.Key()
	return layout.Number(k[len(k)-8:])
}

// copiesWithoutReceipts walks over the copies of a feed that have no marks.
type copiesWithoutReceipts struct {
	lines, marks *pebble.Iterator
	marked       bool   // marks stands at one
	rows         int    // how many more lines it may look at
	passed       uint64 // the last position that it has looked at
	cut          bool   // it ended with lines left
}

func (u *copiesWithoutReceipts) first() bool {
	u.marked = u.marks.First()
	return u.find(u.lines.First())
}

func (u *copiesWithoutReceipts) next() bool { return u.find(u.lines.Next()) }

func (u *copiesWithoutReceipts) find(ok bool) bool {
	for ; ok; ok = u.lines.Next() {
		if u.rows == 0 {
			u.cut = true
			return false
		}
		at := placeOf(u.lines)
		u.rows, u.passed = u.rows-1, at
		value := u.lines.Value()
		if len(value) < layout.FeedBytes || journal.FeedKind(value[0]) != journal.CopyEntry {
			continue
		}
		for u.marked && placeOf(u.marks) < at {
			u.marked = u.marks.Next()
		}
		if !u.marked || placeOf(u.marks) != at || layout.AnnouncedOnly(u.marks.Value()) {
			return true
		}
	}
	return false
}
