package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/disk"
)

const (
	batchEntriesMax = 1024
	batchBytesMax   = 1 << 20
	// At most inFlightMax batches are committed and not yet synced, including the
	// one that the writer holds.
	inFlightMax = 4
	// Clients may use clientShare of the bounds. The rest is reserved for outboxes
	// and timers, so that client load cannot starve deliveries.
	clientShare = 0.75
)

// journalState is one journal: a writer and an acknowledger for a share of the
// slots.
type journalState struct {
	store     *Store
	number    int
	queue     *queue
	admission *admissionLimiter
	inFlight  chan *flight

	// state and rows are the input of the evaluator. Only the writer uses them.
	state *apply.State
	rows  apply.Rows
	// outboxes are the journal's, by target.
	outboxes []outboxProgress

	// committing is since when the writer is in a commit, syncing since when the
	// acknowledger waits for the disk, as ages of the disk monitor; 0 means not.
	committing, syncing atomic.Int64
	// fired is the key of the timer at which the last tick stopped. Only
	// housekeeping uses it.
	fired []byte
	// durable is the last durable position. It is raised before entries are
	// published.
	durable watermark
	// assigned is the last position assigned. It is set before the row is visible.
	assigned atomic.Uint64
	// wrote counts what the journal has written.
	wrote tally
}

// flight is a batch between commit and sync.
type flight struct {
	batch    *pebble.Batch
	head     disk.Head // of the commit; zero if nothing was written
	position uint64
	items    []*item
}

func openJournal(s *Store, number int) (*journalState, error) {
	state, arrived, err := apply.Load(s.db, s.homes, number)
	if err != nil {
		return nil, err
	}
	j := &journalState{
		store: s, number: number, queue: newQueue(),
		inFlight: make(chan *flight, inFlightMax-2),
		state:    state, rows: apply.Stored{Reader: s.db}, outboxes: make([]outboxProgress, len(arrived)),
	}
	for target, n := range arrived {
		j.outboxes[target].arrived.Store(n)
	}
	j.admission = newAdmissionLimiter(int64(float64(s.opts.QueueEntries)*clientShare), int64(float64(s.opts.QueueBytes)*clientShare))
	j.durable.raise(state.Position())
	j.assigned.Store(state.Position())
	return j, nil
}

func (j *journalState) append(it *item) {
	it.cost += entryCost(it.Entry)
	if !j.queue.push(it) && it.Release != nil {
		it.Release(journal.ErrClosed)
	}
}

// write drains the queue into batches until the journal closes. A batch takes what
// arrived while the one before was being committed; only entries that gather wait for
// others.
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
	batch := j.store.db.NewBatch()
	ev := j.state.Begin(j.rows, batch)
	for _, it := range items {
		if err := ev.Apply(&it.Item); err != nil {
			return nil, err
		}
		for _, m := range it.Outgoing {
			j.outboxes[m.Target].depth.Add(1)
			j.outboxes[m.Target].sent.Store(m.Number)
		}
	}
	if err := ev.Finish(j.arrived); err != nil {
		return nil, err
	}
	f := &flight{batch: batch, items: items, position: j.state.Position()}
	j.assigned.Store(f.position)
	if batch.Empty() {
		return f, nil
	}
	j.committing.Store(j.store.disk.Age())
	defer j.committing.Store(0)
	h, bytes, err := j.store.commitBatch(batch, ev.Feeds())
	f.head = h
	j.wrote.batch(len(items), bytes)
	return f, err
}

// notifyApplied calls Applied of the accepted entries, which are visible now.
func (f *flight) notifyApplied() {
	for _, it := range f.items {
		if it.Applied != nil && it.Refusal == nil {
			it.Applied()
		}
	}
}

// acknowledge waits for each batch to be synced and then releases its entries, in
// order. It blocks on nothing but the disk.
func (j *journalState) acknowledge() {
	defer j.store.loops.Done()
	for f := range j.inFlight {
		if f.head.Number != 0 {
			if err := j.sync(f); err != nil {
				j.store.opts.Fatal(err)
				return
			}
			// All journals share one log: earlier commits are durable too.
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

// sync waits for the disk and lets Trouble see since when.
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

// release publishes the feed entries of a durable item and releases its entry.
func (j *journalState) release(it *item) {
	j.store.hub.publishItem(it)
	for _, w := range it.Effects {
		if dropped, ok := w.(journal.DropFeed); ok {
			j.store.hub.reread(dropped.Of)
		}
	}
	j.store.observers.report(it)
	for _, s := range it.Queued {
		j.store.onQueue(s)
	}
	if it.arrived != nil {
		it.arrived()
		return
	}
	if len(it.Outgoing) > 0 {
		j.dispatch(it)
		return
	}
	if it.Release != nil {
		it.Release(it.Refusal)
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

// Overloaded is a refusal if no journal would admit an entry of a client now, else
// nil. With it a server rejects a request before reading it.
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
