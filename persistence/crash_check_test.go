package persistence

import (
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/crashtest"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// imageCheck is the complete content of an opened image.
type imageCheck struct {
	store *Store
	view  journal.View
	read  pebble.Reader // what the view reads
	// events are the streams of the operations whose events exist.
	events  map[uint64]journal.Stream
	queue   map[uint64]int // per operation: its messages in queues
	handled map[uint64]int // per operation: events that handled its messages
	rows    map[uint64]int
	farRows map[uint64]int
	feeds   map[parley.AgentID]map[uint64]parley.AnyID
	refs    map[parley.AnyID]int
	hosted  map[uint64]int // per operation: its events in hosted streams
	faults  []string
	settled bool
}

func (s *imageCheck) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// checkImage checks an image against what clients were promised when it was
// recorded. settled means that outboxes are empty: effects on other homes must
// exist too.
func checkImage(w *workload, s *Store, known []promise, settled bool) []string {
	v := s.view()
	defer v.Close()
	x := &imageCheck{
		store: s, view: v.parts(), read: v.Reader, settled: settled,
		events: map[uint64]journal.Stream{}, queue: map[uint64]int{}, handled: map[uint64]int{},
		rows: map[uint64]int{}, farRows: map[uint64]int{},
		feeds: map[parley.AgentID]map[uint64]parley.AnyID{}, refs: map[parley.AnyID]int{}, hosted: map[uint64]int{},
	}
	operations := w.issued()
	for _, stream := range w.streams {
		x.readStream(stream, operations)
		x.readHosted(w.hosted[stream])
	}
	for n := range 8 {
		slot := journaltest.SpreadSlot(n)
		x.readRows(slot, journal.RosterTable, x.rows)
		x.readRows(slot, journal.ClientTable, x.farRows)
	}
	for _, a := range w.agents {
		x.readFeed(a, operations)
	}
	present := int64(0)
	for _, d := range operations {
		if d != nil {
			x.checkOperation(w, d)
			if _, ok := x.events[d.number]; ok {
				present++
			}
		}
	}
	if used, err := x.view.Used(w.org, 1); err != nil || used.Messages != present {
		x.fault("counted %d, there are %d operations (%v)", used, present, err)
	}
	for _, c := range known {
		x.checkPromise(c)
	}
	return x.faults
}

// readStream reads a stream: its events have no gap, and its state is not ahead of
// them.
func (s *imageCheck) readStream(stream journal.Stream, operations []*operation) {
	last := uint64(0)
	err := s.view.Events(stream, 1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
		if seq != last+1 {
			s.fault("event %d follows event %d", seq, last)
		}
		last = seq
		n := layout.Number(f.Data)
		if n >= uint64(len(operations)) || operations[n] == nil || operations[n].stream != stream {
			s.fault("event %d is of operation %d, which is not of this stream", seq, n)
			return true
		}
		if _, twice := s.events[n]; twice {
			s.fault("operation %d has two events", n)
		}
		s.events[n] = stream
		if operations[n].fromQueue {
			s.handled[operations[n].handles]++
		}
		return true
	})
	seq, state, stateErr := s.view.State(stream)
	if err != nil || stateErr != nil || seq > last || (state != nil && layout.Number(state) != seq) {
		s.fault("state of %d events says %v, the last event is %d (%v, %v)", seq, state, last, err, stateErr)
	}
	err = s.view.Queue(stream, 0, func(r journal.QueuedMessage) bool {
		s.queue[layout.Number(r.Data)]++
		if durable := s.store.lead.Load().home(stream.Slot()).durable.Level(); r.Number > durable {
			s.fault("queued message %d is beyond the durable position %d", r.Number, durable)
		}
		return true
	})
	if err != nil {
		s.fault("queue: %v", err)
	}
}

// readHosted reads a hosted stream.
func (s *imageCheck) readHosted(stream journal.Stream) {
	last := uint64(0)
	err := s.view.Events(stream, 1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
		if last++; seq != last {
			s.fault("event %d of a hosted stream stands at place %d", seq, last)
		}
		s.hosted[layout.Number(f.Data)]++
		return true
	})
	seq, state, stateErr := s.view.State(stream)
	if err != nil || stateErr != nil || seq != last || state != nil && layout.Number(state) != last {
		s.fault("state of %d events of a hosted stream says %v, there are %d (%v, %v)", seq, state, last, err, stateErr)
	}
}

func (s *imageCheck) readRows(slot parley.Slot, table journal.Table, into map[uint64]int) {
	err := s.view.Rows(slot, table, nil, nil, false, func(k, value []byte) bool {
		if layout.Number(k) != ^layout.Number(value) {
			s.fault("row %x has value %x", k, value)
		}
		into[layout.Number(k)]++
		return true
	})
	if err != nil {
		s.fault("rows: %v", err)
	}
}

// readFeed reads an agent's feed. A message has either receipts or an untransferred
// row: both are written together.
func (s *imageCheck) readFeed(agent parley.AgentID, operations []*operation) {
	last := map[journal.Stream]uint64{}
	untransferred := map[uint64]parley.MessageID{}
	_, _, err := s.view.Untransferred(agent, 0, math.MaxInt, func(position uint64, id parley.MessageID) bool {
		untransferred[position] = id
		return true
	})
	feed := map[uint64]parley.AnyID{}
	s.feeds[agent] = feed
	arrival := int64(0)
	feedErr := s.view.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		feed[e.Position] = e.Ref
		s.refs[e.Ref]++
		if e.At < arrival || e.Position > s.store.DurablePosition(agent) {
			s.fault("entry %d of %d arrived at %d, durable position %d", e.Position, e.At, arrival, s.store.DurablePosition(agent))
		}
		arrival = e.At
		by := operations[layout.Number(e.Note)].stream
		if n := layout.Number(e.Note); n < last[by] {
			s.fault("entry %d: operation %d after operation %d of the same stream", e.Position, n, last[by])
		}
		last[by] = layout.Number(e.Note)
		record, position, err := s.recordOf(agent, e)
		if err != nil || len(record) < 8 || layout.Number(record) != layout.Number(e.Note) || position != e.Position {
			s.fault("entry %d: record of %d bytes at %d (%v)", e.Position, len(record), position, err)
		}
		receipts, err := s.view.Receipts(journal.RecordReceipt{Recipient: agent, Position: e.Position})
		if _, waits := untransferred[e.Position]; waits == (receipts.TransferredAt != 0) || err != nil {
			s.fault("entry %d: untransferred %v with receipts %v (%v)", e.Position, waits, receipts, err)
		}
		delete(untransferred, e.Position)
		return true
	})
	if err != nil || feedErr != nil || len(untransferred) > 0 {
		s.fault("%d messages are untransferred and not in the feed (%v, %v)", len(untransferred), err, feedErr)
	}
}

// recordOf reads the record that a feed entry refers to: of a message, or of the
// broadcast whose copy it is.
func (s *imageCheck) recordOf(agent parley.AgentID, e journal.FeedEntry) (record []byte, position uint64, err error) {
	id := parley.MessageID(e.Ref)
	if e.Kind != journal.CopyEntry {
		return recordOf(s.view, agent.Slot(), id)
	}
	for _, reader := range []parley.Slot{agent.Slot(), id.Slot()} {
		to, at, found, err := s.view.Copy(reader, id)
		if err != nil || !found || to != agent || at != e.Position && (at != 0 || s.store.SameHome(reader, agent.Slot())) {
			s.fault("copy %v of agent %v, slot %d: agent %v at %d, found %v (%v)", id, agent, reader, to, at, found, err)
		}
	}
	_, err = s.view.Broadcast(agent.Slot(), id.Broadcast(), func(b []byte) error { record = append(record, b...); return nil })
	return record, e.Position, err
}

// checkOperation checks that an operation exists completely, exactly once, or not at all.
func (s *imageCheck) checkOperation(w *workload, d *operation) {
	stream, done := s.events[d.number]
	if done && d.refusal != nil {
		s.fault("operation %d was refused and is there", d.number)
	}
	home := s.store.lead.Load().home(d.stream.Slot())
	if done && stream != d.stream {
		s.fault("operation %d is in another stream", d.number)
	}
	s.expect(d, "its own row", done, true, s.rows[d.number])
	if d.hasRow {
		s.expect(d, "the row elsewhere", done, s.store.lead.Load().home(d.rowSlot) == home, s.farRows[d.number])
	}
	if !d.message.Zero() {
		s.expect(d, "the feed entry", done, s.store.lead.Load().home(d.agent.Slot()) == home && !broadcasts(d.stream), s.refs[parley.AnyID(d.message)])
		record, _, err := recordOf(s.view, d.message.Slot(), d.message)
		s.expect(d, "the record", done, true, count(err == nil && len(record) > 8 && layout.Number(record) == d.number))
	}
	for _, seat := range w.seats {
		if !d.broadcast.Zero() {
			s.expect(d, fmt.Sprintf("the copy for seat %d", seat.Number), done, false, s.refs[parley.AnyID(parley.Copy(d.broadcast, seat.Number))])
		}
	}
	if d.hosted {
		s.expect(d, "the chapter", done, true, s.hosted[d.number])
	}
	if !d.queueOf.Zero() {
		s.expect(d, "the message in the queue or handled", done, s.store.lead.Load().home(d.queueOf.Slot()) == home, s.queue[d.number]+s.handled[d.number])
	}
	if !d.created.Zero() {
		n := 0
		err := s.view.Events(d.created, 1, false, func(uint64, int64, journal.StoredEvent) bool { n++; return true })
		seq, state, stateErr := s.view.State(d.created)
		s.expect(d, "the stream it began", done, s.store.lead.Load().home(d.created.Slot()) == home, n)
		if err != nil || stateErr != nil || int(seq) != n || (n > 0 && layout.Number(state) != d.number) {
			s.fault("operation %d: began a stream of %d events with state %d %v (%v, %v)", d.number, n, seq, state, err, stateErr)
		}
	}
	if !d.due.IsZero() {
		_, found, err := layout.Get(s.read, s.store.homes.TimerKey(home.number, uint64(d.due.UnixMilli()), d.stream))
		s.expect(d, "the timer", done, true, count(found && err == nil))
	}
}

func count(there bool) int {
	if there {
		return 1
	}
	return 0
}

// expect checks one part of an operation. A part on the same home exists exactly if
// the operation does; one on another home may follow later, but never exists
// without it or twice.
func (s *imageCheck) expect(d *operation, part string, done, near bool, n int) {
	if n == count(done) || n == 0 && done && !near && !s.settled {
		return
	}
	s.fault("operation %d (done %v): %s is there %d times, near %v, settled %v", d.number, done, part, n, near, s.settled)
}

// recordOf copies the record of a message as stored for reader.
func recordOf(v journal.View, reader parley.Slot, id parley.MessageID) (record []byte, position uint64, err error) {
	position, err = v.Message(reader, id, func(b []byte) error {
		record = append([]byte{}, b...)
		return nil
	})
	return record, position, err
}

// checkPromise checks that the image contains what a client was promised.
func (s *imageCheck) checkPromise(c promise) {
	if c.released {
		if _, ok := s.events[c.operation]; !ok {
			s.fault("lost: operation %d was answered", c.operation)
		}
		return
	}
	if ref, ok := s.feeds[c.agent][c.entry.Position]; !ok || ref != c.entry.Ref {
		s.fault("lost: entry %d was shown", c.entry.Position)
	}
	if c.message.Zero() {
		return
	}
	of := []journal.RecordReceipt{{Recipient: c.agent, Position: c.entry.Position}}
	if s.settled && !c.isCopy && !s.store.SameHome(c.agent.Slot(), c.message.Slot()) {
		of = append(of, journal.RecordReceipt{Message: c.message})
	}
	for _, m := range of {
		if receipts, err := s.view.Receipts(m); err != nil || receipts.TransferredAt != 1000 {
			s.fault("lost: receipts of message at %d are %v (%v)", c.entry.Position, receipts, err)
		}
	}
}

// checkReopened opens an image and checks it, then waits until outboxes are empty
// and checks it again.
func checkReopened(w *workload, x crashRun, i crashtest.Image) []string {
	known := w.known(i.Known)
	opts := testOptions(i.FS, x.journals)
	opts.forgetful = x.forgetful
	s, err := Open(crashDir, opts)
	if err != nil {
		return []string{"lost: " + err.Error()}
	}
	faults := checkImage(w, s, known, false)
	if err := startQuietly(s); err != nil {
		faults = append(faults, err.Error())
	}
	for deadline := 0; outboxesBusy(s); deadline++ {
		if deadline > 10000 {
			faults = append(faults, "outboxes do not become empty")
			break
		}
		time.Sleep(200 * time.Microsecond)
	}
	faults = append(faults, checkImage(w, s, known, true)...)
	if err := s.Close(); err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

func outboxesBusy(s *Store) bool {
	for _, j := range s.lead.Load().journals {
		for i := range j.outboxes {
			if j.outboxes[i].depth.Load() > 0 {
				return true
			}
		}
	}
	return false
}
