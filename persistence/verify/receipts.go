package verify

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// receiptRows compares the rows of receipts with those of feeds.
type receiptRows struct {
	*inspection
	// passedUpTo is the answer of passed for the agent passedBy.
	passedBy   parley.AgentID
	passedUpTo uint64
}

// read compares feeds with receipts. The keys of the two families have the
// same order, so it reads them side by side.
func (in *receiptRows) read() error {
	var rows [2]*pebble.Iterator
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
func (in *receiptRows) receiptsOf(slot parley.Slot, rows [2]*pebble.Iterator) error {
	var at [2][]byte
	letters := [2]byte{layout.FeedFamily, layout.ReceiptFamily}
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
			return errors.Join(rows[0].Error(), rows[1].Error())
		}
		place = bytes.Clone(place)
		var has [2]bool
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

// feedPlace checks one position of a feed: its entry and its receipts. has says which
// of the two exist.
func (in *receiptRows) feedPlace(place []byte, has [2]bool, rows [2]*pebble.Iterator) {
	in.untransferred.Checked++
	agent, position := parley.AgentID(place[:16]), layout.Number(place[16:])
	entry, hasReceipt := has[0], has[1]
	message := entry && len(rows[0].Value()) >= layout.FeedBytes && layout.FeedKindOf(rows[0].Value()).BringsMessage()
	dropped := message && layout.Dropped(rows[0].Value())
	transferred := hasReceipt && layout.Transferred(rows[1].Value())
	switch where := feedName(agent, position); {
	case !entry:
		in.untransferred.Fault(where, "receipts of a message that is not in the feed")
	case !message && hasReceipt:
		in.untransferred.Fault(where, "receipts at an entry that is not a message")
	case message && !dropped && !transferred && position <= in.passed(agent):
		in.untransferred.Fault(where, "the message has no receipts and counts as transferred: a stream that resumes skips it")
	}
}

// passed is the position up to which an agent's messages count as transferred. Feeds
// are read one after another, so the last answer is kept.
func (in *receiptRows) passed(agent parley.AgentID) uint64 {
	if agent != in.passedBy {
		value, _, _ := layout.Get(in.rows, layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:])) // another check reports what cannot be read
		in.passedBy, in.passedUpTo = agent, layout.Number(value)
	}
	return in.passedUpTo
}
