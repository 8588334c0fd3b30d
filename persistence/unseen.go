package persistence

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley"
)

// A message to one agent that was not carried to it yet has a row that says so. A
// copy of a broadcast has none: there are many of them, and its marks tell as
// well. Looking for copies without marks begins where an earlier look ended.

// Unseen calls fn with the messages that were not carried to agent yet, with
// their positions from from on, oldest first, until fn returns false.
func (v *View) Unseen(agent parley.AgentID, from uint64, fn func(position uint64, id parley.MessageID) bool) error {
	carried, _, err := v.get(rowKey(agent.Slot(), parley.CarriedTable, agent[:]))
	if err != nil {
		return err
	}
	var rows [3]*pebble.Iterator
	noted, lines, marks := &rows[0], &rows[1], &rows[2]
	for _, r := range []struct {
		iter   **pebble.Iterator
		family byte
		from   uint64
	}{{noted, unseenFamily, from}, {lines, feedFamily, max(from, number(carried)+1)}, {marks, markFamily, max(from, number(carried)+1)}} {
		low, high := feedKey(r.family, agent, r.from), after(feedKey(r.family, agent, ^uint64(0)))
		if *r.iter, err = v.snap.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high}); err != nil {
			break
		}
	}
	if err == nil {
		tellUnseen(*noted, &unmarked{lines: *lines, marks: *marks}, fn)
	}
	for _, iter := range rows {
		if iter != nil {
			err = errors.Join(err, iter.Close())
		}
	}
	return err
}

// tellUnseen merges what is noted with the copies that have no marks.
func tellUnseen(noted *pebble.Iterator, copies *unmarked, fn func(position uint64, id parley.MessageID) bool) {
	one, other := noted.First(), copies.first()
	for one || other {
		if one && (!other || placeOf(noted) < placeOf(copies.lines)) {
			if !fn(placeOf(noted), parley.IDFromBytes[parley.MessageID](noted.Value())) {
				return
			}
			one = noted.Next()
			continue
		}
		if !fn(placeOf(copies.lines), parley.MessageID(copies.lines.Value()[9:feedBytes])) {
			return
		}
		other = copies.next()
	}
}

// placeOf is the position in a feed that an iterator stands at.
func placeOf(iter *pebble.Iterator) uint64 {
	k := iter.Key()
	return number(k[len(k)-8:])
}

// unmarked walks over the copies of a feed that have no marks.
type unmarked struct {
	lines, marks *pebble.Iterator
	marked       bool // marks stands at one
}

func (u *unmarked) first() bool {
	u.marked = u.marks.First()
	return u.find(u.lines.First())
}

func (u *unmarked) next() bool { return u.find(u.lines.Next()) }

func (u *unmarked) find(ok bool) bool {
	for ; ok; ok = u.lines.Next() {
		value := u.lines.Value()
		if len(value) < feedBytes || parley.FeedKind(value[0]) != parley.CopyEntry {
			continue
		}
		at := placeOf(u.lines)
		for u.marked && placeOf(u.marks) < at {
			u.marked = u.marks.Next()
		}
		if !u.marked || placeOf(u.marks) != at || announcedOnly(u.marks.Value()) {
			return true
		}
	}
	return false
}

// announcedOnly reports whether marks say of a message that a webhook told of it,
// and nothing else.
func announcedOnly(value []byte) bool {
	m, err := decodeMarks(value)
	return err == nil && m.Announced != 0 && !m.Carried()
}
