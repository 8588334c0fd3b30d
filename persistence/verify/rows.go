package verify

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// Source is a store to verify, whether a server has it open or not.
// persistence.Archive is one.
type Source interface {
	// Reader shows all rows as they were at one instant; nil if the store is
	// closed.
	Reader() pebble.Reader
	// CheckLevels has the storage engine check itself.
	CheckLevels(*pebble.CheckLevelsStats) error
	// Homes is the number of journals.
	Homes() layout.Homes
	// Witness is the commit in the durability witness of a directory that no server
	// has open, or why the witness cannot be read. It is nil for an open store, whose
	// witness lags.
	Witness() (*disk.Head, error)
	// Underway calls fn with the effects in outboxes that their targets have not
	// applied yet.
	Underway(fn func(journal.Effect) error) error
}

// inspection is one pass over the rows of a source.
type inspection struct {
	source  Source
	rows    pebble.Reader
	homes   layout.Homes
	witness *disk.Head
	// unwitnessed says why the witness cannot be read.
	unwitnessed error
	report      *report.Verification
	applied     []layout.Applied // of each journal
	own         *ownRows
	// born are streams whose creation is in an outbox.
	born map[journal.Stream]bool

	// The stream and the feed that are being read, and their last event and
	// arrival.
	stream     journal.Stream
	seq        uint64
	feed       parley.AgentID
	feedFamily byte
	arrival    int64

	engine, keys, values, positions, events, states, feeds, records *report.Check
	untransferred, queues, timers, outboxOrder, format              *report.Check
	// places compares where feeds say that their messages are with where records
	// are.
	places *report.Multiset
	// copied compares where feeds say that their copies of broadcasts are listed
	// with where lists are.
	copies *report.Check
	copied *report.Multiset
}

// Rows reads every key of a store and checks it against the rules of the journal,
// without knowing what the rows mean. It records faults in r; the only error is
// journal.ErrClosed.
//
// Every check holds at every instant of an open store, also while entries are under
// way, and after every crash. Damage of the disk is recorded as a fault, and
// everything that can be read is checked.
func Rows(source Source, r *report.Verification) error {
	if source.Reader() == nil {
		return journal.ErrClosed
	}
	in := newInspection(source, r)
	in.checkEngine()
	in.read()
	in.own.checkOutboxes()
	in.own.checkHeads()
	places, copied := in.places.Reread(), in.copied.Reread()
	if !places && !copied {
		return nil
	}
	again := newInspection(source, &report.Verification{})
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

func newInspection(source Source, r *report.Verification) *inspection {
	in := &inspection{source: source, rows: source.Reader(), homes: source.Homes(), report: r, born: map[journal.Stream]bool{}}
	in.own = &ownRows{in, map[layout.Outbox]*outboxRows{}}
	if in.witness, in.unwitnessed = source.Witness(); in.witness != nil {
		r.Check("witness", "the journal holds every commit that was acknowledged")
	}
	in.engine = r.Check("engine", "every table, block and level of the storage engine is intact")
	in.format = r.Check("format", "the rows of the directory itself are complete, and its commits follow each other")
	in.keys = r.Check("keys", "every key is of a known family and lies in the slot of its owner")
	in.values = r.Check("values", "every value can be read")
	in.positions = r.Check("positions", "no position is beyond what its journal has counted")
	in.events = r.Check("events", "the events of a stream are numbered from 1 without a gap")
	in.states = r.Check("states", "a stored state folds no more events than there are")
	in.feeds = r.Check("feeds", "along a feed no arrival is before the one before it")
	in.records = r.Check("record-places", "each message of a feed has its record where its reader looks, with its position")
	in.untransferred = r.Check("untransferred", "receipts are those of messages in the feed, and every message up to the position that counts as transferred has them")
	in.queues = r.Check("queues", "queued messages wait for streams that exist")
	in.timers = r.Check("timers", "timers are set for streams that exist")
	in.outboxOrder = r.Check("outboxes", "the messages of an outbox follow each other and what their target has applied")
	in.places = in.records.Multiset()
	in.copies = r.Check("copies", "each copy of a broadcast is listed where it is looked for, as it is in its reader's feed, and the broadcast's record is there")
	in.copied = in.copies.Multiset()
	return in
}

// checkEngine has the storage engine check itself.
func (in *inspection) checkEngine() {
	in.report.Tell("storage engine", 0)
	var stats pebble.CheckLevelsStats
	err := in.source.CheckLevels(&stats)
	in.engine.Checked += uint64(stats.NumPoints)
	if err != nil {
		in.engine.Fault("storage engine", "%v: restore a backup", err)
	}
}

// read reads all keys once.
func (in *inspection) read() {
	in.damaged("counters and outboxes", in.prepare())
	rows := uint64(0)
	for low := []byte(nil); ; {
		last, err := in.readFrom(low, &rows)
		if err == nil {
			break
		}
		// Damage: continue with the next slot.
		slot, _ := layout.FamilyOf(append(last, 0, 0, 0))
		in.damaged(fmt.Sprintf("slot %d", slot), err)
		if slot >= parley.Slots {
			break
		}
		low = layout.Key(slot+1, 0, 0)[:2]
	}
	in.damaged("feeds and receipts", (&receiptRows{inspection: in}).read())
}

// damaged records that reading could not continue.
func (in *inspection) damaged(where string, err error) {
	if err != nil {
		in.engine.Fault(where, "reading stops: %v: what lies there is lost, restore a backup", err)
	}
}

// readFrom reads from low on. It returns the last key that it read before an error.
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
			in.report.Tell("keys and values", *rows)
		}
	}
	return last, errors.Join(iter.Error(), iter.Close())
}

// prepare reads what rows are checked against: counters, and streams whose creation
// is in an outbox.
func (in *inspection) prepare() error {
	var bad error
	for n := range int(in.homes) {
		applied, err := in.homes.ReadApplied(in.rows, n)
		bad = errors.Join(bad, err)
		in.applied = append(in.applied, applied)
	}
	if bad != nil {
		return bad
	}
	return in.source.Underway(func(w journal.Effect) error {
		switch w := w.(type) {
		case journal.CreateStream:
			in.born[w.Stream] = true
		case journal.Fanout:
			for _, seat := range w.To {
				if w.Kind == journal.CopyEntry {
					in.expectListed(parley.Copy(parley.MessageID(w.Ref), seat.Number), seat.Agent)
				}
			}
		case journal.AppendFeed, journal.AddToList, journal.DropFeed, journal.RecordReceipt, journal.PutRow, journal.EnqueueFor: // their rows are checked where they exist
		}
		return nil
	})
}

func (in *inspection) row(k, value []byte) {
	in.keys.Checked++
	in.values.Checked++
	slot, family := layout.FamilyOf(k)
	switch {
	case slot == layout.StoreSlot:
		in.own.directoryRow(family, k, value)
	case slot >= parley.Slots:
		in.keys.Fault(fmt.Sprintf("key %x", k), "no slot has this number: the row belongs to nobody")
	case family >= 'a':
		in.own.journalRow(slot, family, k, value)
	default:
		in.slotRow(slot, family, k, value)
	}
}

// shapes are the lengths of keys and the least and greatest lengths of values, by family; -1 is any.
var shapes = map[byte]struct{ keys, least, most int }{
	layout.EventFamily: {28, 9, -1}, layout.StateFamily: {20, 8, -1}, layout.RecordFamily: {19, 8, -1}, layout.FeedFamily: {27, 25, -1}, layout.NoticeFamily: {27, 25, -1},
	layout.CopiesFamily:  {19, 8 + layout.SeatBytes, -1},
	layout.ReceiptFamily: {-1, layout.ReceiptBytes, layout.AnnouncedReceiptBytes}, layout.QueueFamily: {28, 0, -1}, layout.RowFamily: {-1, 0, -1},
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
	case layout.FeedFamily, layout.NoticeFamily:
		in.feedEntry(slot, family, k, value)
	case layout.CopiesFamily:
		in.chunk(slot, k, value)
	case layout.QueueFamily:
		in.queued(slot, layout.StreamOf(k), layout.Number(k[20:]))
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
	if home := in.homes.Of(slot); n > in.applied[home].Position {
		in.positions.Fault(where, "number %d, but journal %d has counted to %d only: the number will be given again", n, home, in.applied[home].Position)
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
	if _, found, err := layout.Get(in.rows, layout.EventKey(s, seq)); err == nil && (!found || seq == 0) {
		in.states.Fault(streamName(s), "its stored state folds %d events, and there are fewer: what it shows did not happen", seq)
	}
}

func (in *inspection) record(slot parley.Slot, id parley.MessageID, position uint64) {
	where := fmt.Sprintf("record of message %s", id)
	if slot != id.Slot() && in.homes.Same(slot, id.Slot()) {
		in.owned(slot, id.Slot(), where)
	}
	if position != 0 {
		in.position(slot, position, where)
		in.place(slot, id, position, in.places.Find)
	}
}

// place adds the slot under which a message's record is read to one side of the
// comparison of feeds and records.
func (in *inspection) place(slot parley.Slot, id parley.MessageID, position uint64, enter func(parley.Slot, uint64, ...[]byte)) {
	var b [26]byte
	binary.BigEndian.PutUint16(b[:], uint16(slot))
	copy(b[2:], id[:])
	binary.BigEndian.PutUint64(b[18:], position)
	enter(slot, 1, b[:])
}

func (in *inspection) feedEntry(slot parley.Slot, family byte, k, value []byte) {
	agent, position := parley.IDFromBytes[parley.AgentID](k[3:19]), layout.Number(k[19:])
	in.feeds.Checked++
	in.placed(slot, k)
	if agent != in.feed || family != in.feedFamily {
		in.feed, in.feedFamily, in.arrival = agent, family, 0
	}
	at, latest := int64(layout.NumberAt(value, 1)), in.applied[in.homes.Of(slot)].Arrival
	switch {
	case layout.Dropped(value): // at is when it was dropped
		at = in.arrival
	case at < in.arrival:
		in.feeds.Fault(feedName(agent, position), "it arrived %d ms before the entry before it: counts since an instant are wrong", in.arrival-at)
	case at > latest:
		in.feeds.Fault(feedName(agent, position), "it arrived %d ms after the last arrival its journal knows", at-latest)
	}
	in.arrival = at
	kind := layout.FeedKindOf(value)
	if kind != journal.FeedKind(value[0]) && !kind.BringsMessage() {
		in.values.Fault(feedName(agent, position), "an entry that is not a message begins a conversation")
	}
	if family != layout.FeedFamilyOf(kind) {
		in.values.Fault(feedName(agent, position), "a message among the entries that bring none, or the reverse: inboxes do not show the messages")
	}
	switch kind {
	case journal.MessageEntry:
		id := parley.IDFromBytes[parley.MessageID](value[9:25])
		in.place(in.homes.Residence(slot, id), id, position, in.places.Expect)
	case journal.CopyEntry:
		id := parley.IDFromBytes[parley.MessageID](value[9:25])
		in.copyAt(in.homes.BroadcastSlot(in.homes.Of(slot), id), id, agent, position, in.copied.Expect)
		in.expectListed(id, agent)
	case journal.StatusEntry, journal.GroupEntry, journal.ReceiptEntry, journal.WebhookEntry, journal.CredentialEntry:
	default:
		in.values.Fault(feedName(agent, position), "an entry of unknown kind %d", kind)
	}
}

// placed checks a row that belongs to a position in a feed.
func (in *inspection) placed(slot parley.Slot, k []byte) {
	if len(k) == 19 {
		in.owned(slot, parley.IDFromBytes[parley.MessageID](k[3:]).Slot(), fmt.Sprintf("receipts of message %x", k[3:]))
		return
	}
	agent, position := parley.IDFromBytes[parley.AgentID](k[3:19]), layout.Number(k[19:])
	in.owned(slot, agent.Slot(), feedName(agent, position))
	in.position(slot, position, feedName(agent, position))
}

func (in *inspection) exists(s journal.Stream) bool {
	_, found, err := layout.Get(in.rows, layout.EventKey(s, 1))
	return found || err != nil || in.born[s]
}

func (in *inspection) queued(slot parley.Slot, s journal.Stream, n uint64) {
	in.queues.Checked++
	where := "queue of " + streamName(s)
	in.owned(slot, s.Slot(), where)
	in.position(slot, n, where)
	if !in.exists(s) && s.Kind != journal.KeyLogStream { // whose first message begins it
		in.queues.Fault(where, "message %d waits for a stream that does not exist: no actor will ever handle it", n)
	}
}

// member checks a row of a set that has a position of its journal.
func (in *inspection) member(slot parley.Slot, k, value []byte) {
	table, where := journal.Table(k[3]), fmt.Sprintf("table %d, key %x", k[3], k[4:])
	keys, values, position := 20, 8, value
	switch table {
	case journal.ConversationTable:
		keys, values, position = 28, 16, k[20:]
	case journal.TransferredTable, journal.ReadTable, journal.ListedTable, journal.TaskedTable:
	default:
		return
	}
	if len(k) != keys || len(value) != values {
		in.values.Fault(where, "it cannot be read")
		return
	}
	in.owned(slot, parley.IDFromBytes[parley.AgentID](k[4:20]).Slot(), where)
	in.position(slot, layout.Number(position), where)
}
