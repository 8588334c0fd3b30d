package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/journal/verify"
	"parley/persistence/layout"
)

// inspection is one reading of an archive.
type inspection struct {
	*Archive
	audit *verify.Report
	// counters and arrivals are what the journals count up to.
	counters []uint64
	arrivals []int64
	outboxes map[layout.Outbox]*outboxRows
	// born are streams whose beginning is in a lane.
	born map[journal.Stream]bool

	// Where the reading is: the stream and the feed it goes through.
	stream  journal.Stream
	seq     uint64
	feed    parley.AgentID
	arrival int64

	engine, keys, values, positions, events, states, feeds, records *verify.Check
	unseen, trays, timers, outboxOrder, format                      *verify.Check
	// places: where feeds say their messages are, and where records are.
	places *verify.Multiset
	// copied: where feeds say their copies of broadcasts are listed, and where
	// lists are.
	copies *verify.Check
	copied *verify.Multiset
}

// outboxRows is what lies in a lane.
type outboxRows struct {
	first, last uint64
	holes       uint64
}

// Audit reads every key of the archive and holds it against the laws of the
// journal, which know nothing of what the rows mean. What is found lands in
// audit; the only error is journal.ErrClosed.
//
// Everything that is checked holds at every instant of an open store, also while
// entries are on their way, and after every crash. Where the disk is damaged, that
// is a fault, and what can be read is examined all the same.
func (a *Archive) Audit(audit *verify.Report) error {
	if a.rows == nil {
		return journal.ErrClosed
	}
	in := newInspection(a, audit)
	in.checkEngine()
	in.read()
	in.checkOutboxes()
	in.judgeHeads()
	places, copied := in.places.Reread(), in.copied.Reread()
	if !places && !copied {
		return nil
	}
	again := newInspection(a, &verify.Report{})
	if places {
		again.places = in.places
	}
	if copied {
		again.copied = in.copied
	}
	again.read()
	if copied {
		in.settleCopies()
	}
	if !places {
		return nil
	}
	in.places.Settle(func(member []byte, n int64) (where, means string) {
		slot := parley.Slot(binary.BigEndian.Uint16(member))
		id, position := parley.IDFromBytes[parley.MessageID](member[2:18]), layout.Number(member[18:])
		where = fmt.Sprintf("message %s, slot %d", id, slot)
		if n > 0 {
			return where, fmt.Sprintf("a feed has it at position %d, and its record is not there or does not say so: its recipient cannot read it", position)
		}
		return where, fmt.Sprintf("its record says that its recipient's feed has it at position %d, which is not so: it was never delivered", position)
	})
	return nil
}

func newInspection(a *Archive, audit *verify.Report) *inspection {
	in := &inspection{Archive: a, audit: audit, outboxes: map[layout.Outbox]*outboxRows{}, born: map[journal.Stream]bool{}}
	if a.witness != nil {
		audit.Check("witness", "the journal holds every commit that was acknowledged")
	}
	in.engine = audit.Check("engine", "every table, block and level of the storage engine is intact")
	in.format = audit.Check("format", "the directory's own rows are whole, and its commits follow each other")
	in.keys = audit.Check("keys", "every key is of a known family and lies in the slot of its owner")
	in.values = audit.Check("values", "every value can be read")
	in.positions = audit.Check("positions", "no position is beyond what its journal has counted")
	in.events = audit.Check("events", "the events of a stream are numbered from 1 without a gap")
	in.states = audit.Check("states", "a stored state folds no more events than there are")
	in.feeds = audit.Check("feeds", "along a feed no arrival is before the one before it")
	in.records = audit.Check("record-places", "each message of a feed has its record where its reader looks, with its position")
	in.unseen = audit.Check("unseen", "a message of a feed is either noted as not carried yet or has marks, never both; a copy has no note, and marks where it is passed over")
	in.trays = audit.Check("trays", "words wait for streams that exist")
	in.timers = audit.Check("timers", "timers are set for streams that exist")
	in.outboxOrder = audit.Check("lanes", "parcels of a lane follow each other and what their target has applied")
	in.places = in.records.Multiset()
	in.copies = audit.Check("copies", "each copy of a broadcast is listed where it is looked for, as it is in its reader's feed, and the broadcast's record is there")
	in.copied = in.copies.Multiset()
	return in
}

// checkEngine has the storage engine check itself.
func (in *inspection) checkEngine() {
	in.audit.Tell("storage engine", 0)
	var stats pebble.CheckLevelsStats
	err := in.store.db.CheckLevels(&stats)
	in.engine.Checked += uint64(stats.NumPoints)
	if err != nil {
		in.engine.Fault("storage engine", "%v: restore a backup", err)
	}
}

// read goes once through all keys.
func (in *inspection) read() {
	in.damaged("counters and lanes", in.prepare())
	rows := uint64(0)
	for low := []byte(nil); ; {
		last, err := in.readFrom(low, &rows)
		if err == nil {
			break
		}
		// Damage: what lies beyond is read from the next slot on.
		slot, _ := layout.FamilyOf(append(last, 0, 0, 0))
		in.damaged(fmt.Sprintf("slot %d", slot), err)
		if slot >= parley.Slots {
			break
		}
		low = layout.Key(slot+1, 0, 0)[:2]
	}
	in.damaged("feeds and marks", in.readMarks())
}

// damaged notes that reading went no further.
func (in *inspection) damaged(where string, err error) {
	if err != nil {
		in.engine.Fault(where, "reading stops: %v: what lies there is lost, restore a backup", err)
	}
}

// readFrom reads from low on, and gives the last key read before an error.
func (in *inspection) readFrom(low []byte, rows *uint64) (last []byte, err error) {
	last = append(last, low...)
	iter, err := in.rows.NewIter(&pebble.IterOptions{LowerBound: low})
	if err != nil {
		return last, err
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return last, errors.Join(err, iter.Close())
		}
		in.row(iter.Key(), value)
		last = append(last[:0], iter.Key()...)
		if *rows++; *rows%(1<<17) == 0 {
			in.audit.Tell("keys and values", *rows)
		}
	}
	return last, errors.Join(iter.Error(), iter.Close())
}

// prepare reads what rows are judged by: counters, and what begins in lanes.
func (in *inspection) prepare() error {
	var bad error
	for n := range int(in.store.homes) {
		value, _, err := in.storeView.get(layout.MetaKey(layout.CounterFamily, n, 0))
		bad = errors.Join(bad, err)
		in.counters = append(in.counters, layout.NumberAt(value, 0))
		in.arrivals = append(in.arrivals, int64(layout.NumberAt(value, 8)))
	}
	if bad != nil {
		return bad
	}
	return in.Underway(func(w journal.Effect) error {
		switch w := w.(type) {
		case journal.CreateStream:
			in.born[w.Stream] = true
		case journal.Fanout:
			for _, seat := range w.To {
				if w.Kind == journal.CopyEntry {
					in.oweElsewhere(parley.Copy(parley.MessageID(w.Ref), seat.Number), seat.Agent)
				}
			}
		case journal.AppendFeed, journal.AddToList, journal.RecordReceipt, journal.PutRow, journal.EnqueueFor: // what they make is judged when it is there
		}
		return nil
	})
}

func (in *inspection) row(k, value []byte) {
	in.keys.Checked++
	in.values.Checked++
	slot, family := layout.FamilyOf(k)
	switch {
	case slot == layout.MetaSlot:
		in.metaRow(family, k, value)
	case slot >= parley.Slots:
		in.keys.Fault(fmt.Sprintf("key %x", k), "no slot has this number: the row belongs to nobody")
	default:
		in.slotRow(slot, family, k, value)
	}
}

// shapes are the lengths of keys and the least and greatest lengths of values, by family; -1 is any.
var shapes = map[byte]struct{ keys, least, most int }{
	layout.EventFamily: {28, 9, -1}, layout.StateFamily: {20, 8, -1}, layout.RecordFamily: {19, 8, -1}, layout.FeedFamily: {27, 25, -1},
	layout.CopiesFamily:        {19, 8 + layout.SeatBytes, -1},
	layout.UntransferredFamily: {27, 16, 16}, layout.ReceiptFamily: {-1, layout.ReceiptBytes, layout.AnnouncedReceiptBytes}, layout.QueueFamily: {28, 0, -1}, layout.RowFamily: {-1, 0, -1},
}

func (in *inspection) slotRow(slot parley.Slot, family byte, k, value []byte) {
	shape, known := shapes[family]
	if !known || shape.keys >= 0 && len(k) != shape.keys || len(k) < 4 || family == layout.ReceiptFamily && len(k) != 19 && len(k) != 27 {
		in.keys.Fault(fmt.Sprintf("key %x", k), "no family has such keys: the row is read by nobody")
		return
	}
	if len(value) < shape.least || shape.most >= 0 && len(value) > shape.most {
		in.values.Fault(fmt.Sprintf("key %x", k), "a value of %d bytes cannot be read", len(value))
		return
	}
	switch family {
	case layout.EventFamily:
		in.event(slot, layout.StreamOf(k), layout.Number(k[20:]))
	case layout.StateFamily:
		in.state(slot, layout.StreamOf(k), layout.Number(value))
	case layout.RecordFamily:
		in.record(slot, parley.IDFromBytes[parley.MessageID](k[3:]), layout.Number(value))
	case layout.FeedFamily:
		in.feedEntry(slot, k, value)
	case layout.CopiesFamily:
		in.chunk(slot, k, value)
	case layout.QueueFamily:
		in.tray(slot, layout.StreamOf(k), layout.Number(k[20:]))
	case layout.RowFamily:
		in.member(slot, k, value)
	default:
		in.placed(slot, k)
	}
}

func (in *inspection) owned(slot, owner parley.Slot, where string) {
	if slot != owner {
		in.keys.Fault(where, "it lies in slot %d and belongs to slot %d, where it is looked for", slot, owner)
	}
}

func (in *inspection) position(slot parley.Slot, n uint64, where string) {
	in.positions.Checked++
	if home := in.Home(slot); n > in.counters[home] {
		in.positions.Fault(where, "number %d, but journal %d has counted to %d only: the number will be given again", n, home, in.counters[home])
	}
}

func (in *inspection) event(slot parley.Slot, s journal.Stream, seq uint64) {
	in.events.Checked++
	if s != in.stream {
		in.stream, in.seq = s, 0
		in.owned(slot, s.Slot(), streamName(s))
	}
	if seq != in.seq+1 {
		in.events.Fault(streamName(s), "event %d follows %d: %d events are missing, and its state cannot be trusted", seq, in.seq, seq-in.seq-1)
	}
	in.seq = seq
}

func (in *inspection) state(slot parley.Slot, s journal.Stream, seq uint64) {
	in.states.Checked++
	in.owned(slot, s.Slot(), "state of "+streamName(s))
	if _, found, err := in.storeView.get(layout.EventKey(s, seq)); err == nil && (!found || seq == 0) {
		in.states.Fault(streamName(s), "its stored state folds %d events, and there are fewer: what it shows did not happen", seq)
	}
}

func (in *inspection) record(slot parley.Slot, id parley.MessageID, position uint64) {
	where := fmt.Sprintf("record of message %s", id)
	if slot != id.Slot() && in.store.homes.Same(slot, id.Slot()) {
		in.owned(slot, id.Slot(), where)
	}
	if position != 0 {
		in.position(slot, position, where)
		in.place(slot, id, position, in.places.Find)
	}
}

// place enters where a message's record is read in one of the two accounts.
func (in *inspection) place(slot parley.Slot, id parley.MessageID, position uint64, enter func(parley.Slot, uint64, ...[]byte)) {
	var b [26]byte
	binary.BigEndian.PutUint16(b[:], uint16(slot))
	copy(b[2:], id[:])
	binary.BigEndian.PutUint64(b[18:], position)
	enter(slot, 1, b[:])
}

func (in *inspection) feedEntry(slot parley.Slot, k, value []byte) {
	agent, position := parley.IDFromBytes[parley.AgentID](k[3:19]), layout.Number(k[19:])
	in.feeds.Checked++
	in.placed(slot, k)
	if agent != in.feed {
		in.feed, in.arrival = agent, 0
	}
	at, latest := int64(layout.NumberAt(value, 1)), in.arrivals[in.Home(slot)]
	switch {
	case at < in.arrival:
		in.feeds.Fault(feedName(agent, position), "it arrived %d ms before the entry before it: counts since an instant are wrong", in.arrival-at)
	case at > latest:
		in.feeds.Fault(feedName(agent, position), "it arrived %d ms after the last arrival its journal knows", at-latest)
	}
	in.arrival = at
	switch kind := journal.FeedKind(value[0]); kind {
	case journal.MessageEntry:
		id := parley.IDFromBytes[parley.MessageID](value[9:25])
		in.place(in.store.homes.Residence(slot, id), id, position, in.places.Expect)
	case journal.CopyEntry:
		id := parley.IDFromBytes[parley.MessageID](value[9:25])
		in.copyAt(in.store.homes.BroadcastSlot(in.Home(slot), id), id, agent, position, in.copied.Expect)
		in.oweElsewhere(id, agent)
	case journal.StatusEntry, journal.GroupEntry, journal.ReceiptEntry:
	default:
		in.values.Fault(feedName(agent, position), "an entry of unknown kind %d", kind)
	}
}

// placed judges a row that belongs to a place in a feed.
func (in *inspection) placed(slot parley.Slot, k []byte) {
	if len(k) == 19 {
		in.owned(slot, parley.IDFromBytes[parley.MessageID](k[3:]).Slot(), fmt.Sprintf("marks of message %x", k[3:]))
		return
	}
	agent, position := parley.IDFromBytes[parley.AgentID](k[3:19]), layout.Number(k[19:])
	in.owned(slot, agent.Slot(), feedName(agent, position))
	in.position(slot, position, feedName(agent, position))
}

func (in *inspection) exists(s journal.Stream) bool {
	_, found, err := in.storeView.get(layout.EventKey(s, 1))
	return found || err != nil || in.born[s]
}

func (in *inspection) tray(slot parley.Slot, s journal.Stream, n uint64) {
	in.trays.Checked++
	where := "tray of " + streamName(s)
	in.owned(slot, s.Slot(), where)
	in.position(slot, n, where)
	if !in.exists(s) {
		in.trays.Fault(where, "word %d waits for a stream that does not exist: nobody will ever hear it", n)
	}
}

// member judges a row of a set. Only the list of conversations has places that
// the journal itself gives.
func (in *inspection) member(slot parley.Slot, k, value []byte) {
	if journal.Table(k[3]) != journal.ConversationTable {
		return
	}
	where := fmt.Sprintf("list of conversations, key %x", k[4:])
	if len(k) != 28 || len(value) != 16 {
		in.values.Fault(where, "it cannot be read")
		return
	}
	in.owned(slot, parley.IDFromBytes[parley.AgentID](k[4:20]).Slot(), where)
	in.position(slot, layout.Number(k[20:]), where)
}

// readMarks holds feeds against what was carried of them: three families in one
// order, read side by side.
func (in *inspection) readMarks() error {
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
		if at, _ := layout.FamilyOf(rows[0].Key()); at > slot { // nothing lives between
			if at >= parley.Slots {
				break
			}
			slot = at
		}
		err = in.marksOf(slot, rows)
	}
	for _, iter := range rows {
		err = errors.Join(err, iter.Close())
	}
	return err
}

// marksOf does so for one slot.
func (in *inspection) marksOf(slot parley.Slot, rows [3]*pebble.Iterator) error {
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
		in.carried(place, has, rows)
		for i := range at {
			if has[i] {
				show(i, rows[i].Next())
			}
		}
	}
}

// carried judges one place of a feed: its entry, its marks, its unseen row.
func (in *inspection) carried(place []byte, has [3]bool, rows [3]*pebble.Iterator) {
	in.unseen.Checked++
	where := feedName(parley.IDFromBytes[parley.AgentID](place), layout.Number(place[16:]))
	entry, marked, waits := has[0], has[1], has[2]
	if entry {
		value := rows[0].Value()
		message := len(value) >= 25 && journal.FeedKind(value[0]).BringsMessage()
		had := marked && !announcedOnly(rows[1].Value()) // a webhook's mark alone is none of carriage
		copied := message && journal.FeedKind(value[0]) == journal.CopyEntry
		switch {
		case copied && waits:
			in.unseen.Fault(where, "a copy is noted as not carried yet")
		case copied && !had && layout.Number(place[16:]) <= in.passed(parley.AgentID(place[:16])):
			in.unseen.Fault(where, "a copy has no marks and counts as carried: a stream that resumes passes over it")
		case copied:
		case message && had && waits:
			in.unseen.Fault(where, "the message has marks and counts as not carried yet: it is carried once more")
		case message && !had && !waits:
			in.unseen.Fault(where, "the message has no marks and is not noted as not carried yet: a stream that resumes passes over it")
		case message && waits && !bytes.Equal(value[9:25], rows[2].Value()):
			in.unseen.Fault(where, "what is noted as not carried yet is another message")
		case !message && (marked || waits):
			in.unseen.Fault(where, "what is noted here is no message")
		}
		return
	}
	in.unseen.Fault(where, "marks or a note of a message that the feed does not have")
}

// passed is the position up to which an agent's copies count as carried.
func (in *inspection) passed(agent parley.AgentID) uint64 {
	value, _, _ := layout.Get(in.rows, layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:])) // what cannot be read is told of elsewhere
	return layout.Number(value)
}
