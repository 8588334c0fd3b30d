package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

const (
	batchEntriesMax = 1024
	batchBytesMax   = 1 << 20
	// inFlightMax batches are committed and not yet synced at any time, the
	// writer's own included.
	inFlightMax = 4
	// clientShare of the bounds is open to clients; the rest is reserved for outboxes
	// and timers, so that client load cannot starve deliveries.
	clientShare = 0.75
)

// journal is one writer and one acker over a share of the slots.
type journalState struct {
	store     *Store
	number    int
	queue     *queue
	admission *admissionLimiter
	inFlight  chan *flight

	// The writer's own. Nobody else touches these.
	counter     uint64                        // last position given
	arrival     int64                         // last arrival stamped, milliseconds
	activations map[journal.Stream]activation // the one that may append to a stream
	outboxes    []uint64                      // per target: last number given
	received    []uint64                      // per source: last number applied
	acked       []outboxAck                   // per target: applied there, rows not yet deleted
	// outboxed streams have feed entries for agents here under way in the journal's
	// outbox to itself: up to that number. Up to resumed, any stream may have.
	outboxed map[journal.Stream]uint64
	resumed  uint64

	// committing is since when the writer is at a commit, syncing since when the
	// acker waits for the disk, as ages of the disk monitor; 0 if they do not.
	committing, syncing atomic.Int64
	// fired is the timer at which the last tick stopped. Housekeeping's own.
	fired []byte
	// edge is the last position that is durable, set before it is published.
	durable watermark
	// tip is the last position given, set before its row shows.
	assigned atomic.Uint64
	// wrote counts what the journal has written.
	wrote tally
}

// activation is the incarnation of an actor that may append to a stream. Its
// sequence is unknown until it creates the stream or first appends to it.
type activation struct {
	number  uint64
	seq     uint64
	unknown bool
}

// flight is a batch between commit and sync.
type flight struct {
	batch    *pebble.Batch
	head     disk.Head // of the commit; zero if nothing was written
	position uint64
	items    []*item
}

func openJournal(s *Store, number int) (*journalState, error) {
	j := &journalState{
		store: s, number: number, queue: newQueue(),
		inFlight:    make(chan *flight, inFlightMax-2),
		activations: map[journal.Stream]activation{},
		outboxed:    map[journal.Stream]uint64{},
	}
	j.admission = newAdmissionLimiter(int64(float64(s.opts.QueueEntries)*clientShare), int64(float64(s.opts.QueueBytes)*clientShare))
	value, found, err := layout.Get(s.db, layout.MetaKey(layout.CounterFamily, number, 0))
	if err != nil {
		return nil, err
	}
	if found {
		j.counter, j.arrival = layout.NumberAt(value, 0), int64(layout.NumberAt(value, 8))
	}
	j.durable.raise(j.counter)
	j.assigned.Store(j.counter)
	return j, j.openOutboxes()
}

func (j *journalState) append(it *item) {
	it.cost += entryCost(it.Entry)
	if !j.queue.push(it) && it.Release != nil {
		it.Release(journal.ErrClosed)
	}
}

func entryCost(e *journal.Entry) int {
	n := len(e.State)
	for _, f := range e.Events {
		n += len(f.Data)
	}
	for _, c := range e.Hosted {
		n += 64*len(c.Events) + len(c.State)
		for _, f := range c.Events {
			n += len(f.Data)
		}
	}
	for _, r := range e.Records {
		n += len(r.Data)
	}
	for _, r := range e.Rows {
		n += len(r.Key) + len(r.Value)
	}
	for _, w := range e.Effects {
		switch w := w.(type) {
		case journal.EnqueueFor:
			n += len(w.Data)
		case journal.PutRow:
			n += len(w.Key) + len(w.Value)
		case journal.Fanout:
			// The first chunk is written with the entry, the others as outbox messages.
			n += copyCost*min(len(w.To), journal.FanoutChunk) + layout.SeatBytes*len(w.To)
		case journal.CreateStream:
			n += len(w.State)
			for _, f := range w.Events {
				n += len(f.Data)
			}
		case journal.AppendFeed, journal.AddToList, journal.RecordReceipt: // as much as any effect
		}
	}
	return n + 64*(1+len(e.Events)+len(e.Rows)+len(e.Effects))
}

// write drains the queue into batches while the journal is open. A batch has no
// linger time: the next one takes what arrived while this one was being committed.
func (j *journalState) write() {
	defer j.store.loops.Done()
	defer close(j.inFlight)
	var items []*item
	for {
		taken, more := j.queue.take(items[:0], batchEntriesMax, batchBytesMax)
		if !more {
			return
		}
		f, err := j.commit(taken)
		if err != nil {
			j.store.opts.Fatal(err)
			return
		}
		f.notifyApplied()
		j.inFlight <- f
		items = make([]*item, 0, len(taken))
	}
}

// commit applies items to one batch and commits it without waiting for the disk.
func (j *journalState) commit(items []*item) (*flight, error) {
	a := newApplication(j)
	for _, it := range items {
		if err := a.apply(it); err != nil {
			return nil, err
		}
	}
	if err := a.finish(); err != nil {
		return nil, err
	}
	f := &flight{batch: a.batch, items: items, position: j.counter}
	j.assigned.Store(j.counter)
	if a.batch.Empty() {
		return f, nil
	}
	j.committing.Store(j.store.disk.Age())
	defer j.committing.Store(0)
	h, bytes, err := j.store.commitBatch(a.batch)
	f.head = h
	j.wrote.batch(len(items), bytes)
	return f, err
}

// tell calls Applied of the entries: they are visible now.
func (f *flight) notifyApplied() {
	for _, it := range f.items {
		if it.Applied != nil && it.err == nil {
			it.Applied()
		}
	}
}

// acknowledge waits for each batch to be synced and then releases its entries, in
// order. It never blocks on anything but the disk.
func (j *journalState) acknowledge() {
	defer j.store.loops.Done()
	for f := range j.inFlight {
		if f.head.Number != 0 {
			if err := j.sync(f); err != nil {
				j.store.opts.Fatal(err)
				return
			}
			// One write-ahead log: what was committed before is durable too.
			j.store.durable.raise(f.head.Number)
			j.store.witness.Note(f.head)
		}
		j.durable.raise(f.position)
		for _, it := range f.items {
			j.release(it)
		}
		_ = f.batch.Close()
	}
}

// sync waits for the disk. Trouble sees since when.
func (j *journalState) sync(f *flight) error {
	if j.store.opts.Unsynced {
		return nil
	}
	began := j.store.disk.Age()
	j.syncing.Store(began)
	defer j.syncing.Store(0)
	err := f.batch.SyncWait()
	j.wrote.syncs.note(time.Duration(j.store.disk.Age() - began))
	return err
}

// release publishes the feed entries of a durable item and answers its sender.
func (j *journalState) release(it *item) {
	for _, a := range it.announced {
		j.store.hub.publish(a.agent, a.entry)
	}
	for i := range it.fanned {
		j.store.hub.publishMany(&it.fanned[i])
	}
	for _, s := range it.queued {
		j.store.onQueue(s)
	}
	if it.outbox != nil {
		it.outbox.arrived()
		return
	}
	if len(it.outgoing) > 0 {
		j.dispatch(it)
		return
	}
	if it.Release != nil {
		it.Release(it.err)
	}
}

// Admit reserves space for one entry of about size bytes in the journal of slot, and
// returns the function that frees it. The error is a refusal: nothing has happened.
func (s *Store) Admit(slot parley.Slot, size int) (func(), error) {
	j := s.home(slot)
	if trouble := s.Trouble(); trouble != nil {
		return nil, trouble
	}
	if s.outboxesFull(j) || !j.admission.admit(size) {
		return nil, parley.ErrOverloaded
	}
	came := s.disk.Age()
	return func() { j.admission.leave(size, came, s.disk.Age()) }, nil
}

// Overloaded is a refusal if no journal has space for one more entry of a client at
// present, nil if one has. It spares reading a request that Admit would refuse.
func (s *Store) Overloaded() *parley.Refusal {
	if trouble := s.Trouble(); trouble != nil {
		return trouble
	}
	for _, j := range s.journals {
		if !j.admission.full() {
			return nil
		}
	}
	for _, j := range s.journals {
		j.admission.press()
	}
	return parley.ErrOverloaded
}
