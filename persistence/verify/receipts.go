package verify

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

// readReceipts compares feeds with receipts and untransferred rows. The keys of the
// three families have the same order, so it reads them side by side.
func (in *inspection) readReceipts() error {
	var rows [3]*pebble.Iterator
	for i := range rows {
		iter, err := in.rows.NewIter(nil)
		if err != nil {
			return err
		}
		rows[i] = iter
	}
	var err error
	for slot := parley.Slot(0); slot < parley.Slots && err == nil; slot++ {
		if !rows[0].SeekGE(layout.Key(slot, 0, 0)[:2]) {
			err = rows[0].Error()
			break
		}
		if at, _ := layout.FamilyOf(rows[0].Key()); at > slot { // the slots between have no rows
			if at >= parley.Slots {
				break
			}
			slot = at
		}
		err = in.receiptsOf(slot, rows)
	}
	for _, iter := range rows {
		err = errors.Join(err, iter.Close())
	}
	return err
}

// receiptsOf does so for one slot.
func (in *inspection) receiptsOf(slot parley.Slot, rows [3]*pebble.Iterator) error {
	var at [3][]byte
	letters := [3]byte{layout.FeedFamily, layout.ReceiptFamily, layout.UntransferredFamily}
	show := func(i int, ok bool) {
		for ; ok; ok = rows[i].Next() {
			if s, f := layout.FamilyOf(rows[i].Key()); s != slot || f != letters[i] {
				break
			}
			if len(rows[i].Key()) == 27 {
				at[i] = rows[i].Key()[3:]
				return
			}
		}
		at[i] = nil
	}
	for i := range rows {
		show(i, rows[i].SeekGE(layout.Key(slot, letters[i], 0)))
	}
	for {
		var place []byte
		for _, p := range at {
			if p != nil && (place == nil || bytes.Compare(p, place) < 0) {
				place = p
			}
		}
		if place == nil {
			return errors.Join(rows[0].Error(), rows[1].Error(), rows[2].Error())
		}
		place = bytes.Clone(place)
		var has [3]bool
		for i := range at {
			has[i] = bytes.Equal(at[i], place)
		}
		in.feedPlace(place, has, rows)
		for i := range at {
			if has[i] {
				show(i, rows[i].Next())
			}
		}
	}
}

// feedPlace checks one position of a feed: its entry, its receipts, its
// untransferred row. has says which of the three exist.
func (in *inspection) feedPlace(place []byte, has [3]bool, rows [3]*pebble.Iterator) {
	in.untransferred.Checked++
	where := feedName(parley.IDFromBytes[parley.AgentID](place), layout.Number(place[16:]))
	entry, hasReceipt, waits := has[0], has[1], has[2]
	if entry {
		value := rows[0].Value()
		message := len(value) >= 25 && journal.FeedKind(value[0]).BringsMessage()
		transferred := hasReceipt && !layout.AnnouncedOnly(rows[1].Value())
		copied := message && journal.FeedKind(value[0]) == journal.CopyEntry
		switch {
		case copied && waits:
			in.untransferred.Fault(where, "a copy has an untransferred row")
		case copied && !transferred && layout.Number(place[16:]) <= in.passed(parley.AgentID(place[:16])):
			in.untransferred.Fault(where, "a copy has no receipts and counts as transferred: a stream that resumes skips it")
		case copied:
		case message && transferred && waits:
			in.untransferred.Fault(where, "the message has receipts and an untransferred row: it will be sent once more")
		case message && !transferred && !waits:
			in.untransferred.Fault(where, "the message has neither receipts nor an untransferred row: a stream that resumes skips it")
		case message && waits && !bytes.Equal(value[9:25], rows[2].Value()):
			in.untransferred.Fault(where, "the untransferred row names another message")
		case !message && (hasReceipt || waits):
			in.untransferred.Fault(where, "receipts or an untransferred row at an entry that is not a message")
		}
		return
	}
	in.untransferred.Fault(where, "receipts or an untransferred row of a message that is not in the feed")
}

// passed is the position up to which an agent's copies count as transferred.
func (in *inspection) passed(agent parley.AgentID) uint64 {
	value, _, _ := layout.Get(in.rows, layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:])) // another check reports what cannot be read
	return layout.Number(value)
}
