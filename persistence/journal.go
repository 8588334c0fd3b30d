package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/admission"
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
	store  *Store
	lead   *leadership
	number int
	*feedPositions
	queue     *queue
	admission *admission.Limiter
	inFlight  chan *flight
	// idle has an element if nothing of the leadership was under way for a moment.
	idle chan struct{}

	// state and rows are the input of the evaluator. Only the writer uses them.
	state *apply.State
	rows  *pendingRows
	// outboxes are the journal's, by target.
	outboxes []outboxProgress

	// committing is since when the writer is in a commit, syncing since when the
	// acknowledger waits for the disk, as ages of the disk monitor; 0 means not.
	committing, syncing atomic.Int64
	// fired is the key of the timer at which the last tick stopped. Only
	// housekeeping uses it.
	fired []byte
	// wrote counts what the journal has written.
	wrote tally
	// flights counts the batches that were evaluated. appliedFlights is the last of those
	// that a replica proposed which was applied.
	flights        uint64
	appliedFlights atomic.Uint64
}

// flight is a batch between its commit and its sync; of a replica, between its proposal and
// its application.
type flight struct {
	journal *journalState
	// number counts the flights of the journal.
	number uint64
	// feeds are the agents whose feeds the batch changes.
	feeds []parley.AgentID
	batch *pebble.Batch
	// proposal is the content of a replica's batch, nil if that is empty. It lies in the
	// memory of the batch, which the sequencer reads until the batch is to be applied.
	proposal []byte
	head     disk.Head // of the commit; zero if nothing was written
	position uint64
	items    []*item
}

func openJournal(l *leadership, number int) (*journalState, error) {
	s := l.store
	state, arrived, err := apply.Load(s.db, s.homes, number)
	if err != nil {
		return nil, err
	}
	j := &journalState{
		store: s, lead: l, number: number, feedPositions: s.positions[number], queue: newQueue(),
		inFlight: make(chan *flight, inFlightMax-2), idle: make(chan struct{}, 1),
		state: state, outboxes: make([]outboxProgress, len(arrived)),
	}
	j.rows = &pendingRows{stored: apply.Stored{Reader: s.db}, applied: &j.appliedFlights}
	for target, n := range arrived {
		j.outboxes[target].arrived.Store(n)
	}
	j.admission = admission.New(int64(float64(s.opts.QueueEntries)*clientShare), int64(float64(s.opts.QueueBytes)*clientShare))
	return j, nil
}

func (j *journalState) append(it *item) {
	it.cost += entryCost(it.Entry)
	if !j.queue.push(it) && it.Release != nil {
		it.Release(j.lead.closed())
	}
}

// write drains the queue into batches until the journal closes. A batch takes what
// arrived while the one before was being committed; only entries that gather, and those of a
// replica that has others under way, wait for more.
func (j *journalState) write() {
	defer close(j.inFlight)
	var items []*item
	for {
		began := j.store.disk.Age()
		taken, more := j.queue.take(items[:0], batchEntriesMax, batchBytesMax)
		if !more {
			return
		}
		f, ev, err := j.evaluate(taken)
		if err == nil {
			err = j.hand(f, ev)
		}
		if err != nil {
			j.store.opts.Fatal(err)
			return
		}
		items = make([]*item, 0, len(taken))
		j.gather(time.Duration(j.store.disk.Age() - began))
	}
}

// evaluate applies items to one batch.
func (j *journalState) evaluate(items []*item) (*flight, *apply.Evaluator, error) {
	batch := j.store.db.NewBatch()
	ev := j.state.Begin(j.rows, batch)
	for _, it := range items {
		if err := ev.Apply(&it.Item); err != nil {
			return nil, nil, err
		}
		for _, m := range it.Outgoing {
			j.outboxes[m.Target].depth.Add(1)
			j.outboxes[m.Target].sent.Store(m.Number)
		}
	}
	if err := ev.Finish(j.arrived); err != nil {
		return nil, nil, err
	}
	j.flights++
	return &flight{journal: j, number: j.flights, batch: batch, feeds: ev.Feeds(), items: items, position: j.state.Position()}, ev, nil
}

// hand commits a batch, or proposes it to the other replicas.
func (j *journalState) hand(f *flight, ev *apply.Evaluator) error {
	if j.lead.term == 0 {
		if err := j.commit(f); err != nil {
			return err
		}
		f.notifyApplied()
		j.inFlight <- f
		return nil
	}
	j.rows.note(ev.Lengths(), ev.Told(), f.number)
	j.wrote.batch(len(f.items), f.batch.Len())
	if !f.batch.Empty() {
		f.proposal = f.batch.Repr()
	}
	if err := j.lead.propose(f); err != nil {
		f.refuse(journal.ErrNotLeader)
	}
	return nil
}

// commit commits a batch without waiting for the disk.
func (j *journalState) commit(f *flight) error {
	j.assigned.Store(f.position)
	if f.batch.Empty() {
		return nil
	}
	j.committing.Store(j.store.disk.Age())
	defer j.committing.Store(0)
	h, bytes, err := j.store.commitBatch(f.batch, f.feeds)
	f.head = h
	j.wrote.batch(len(f.items), bytes)
	return err
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
	for f := range j.inFlight {
		if f.head.Number != 0 {
			if err := j.sync(f); err != nil {
				j.store.opts.Fatal(err)
				return
			}
			// All journals share one log: earlier commits are durable too.
			j.store.durable.Raise(f.head.Number)
			j.store.witness.Note(f.head)
		}
		j.durable.Raise(f.position)
		j.releaseAll(f)
		_ = f.batch.Close()
	}
}

// releaseAll releases the entries of a flight in order.
func (j *journalState) releaseAll(f *flight) {
	for _, it := range f.items {
		j.release(it)
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
	j.wrote.syncs.Note(time.Duration(j.store.disk.Age() - began))
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
	if it.Refusal == nil {
		j.store.observers.Report(it.Entry)
	}
	for _, s := range it.Queued {
		j.store.onQueue(s)
	}
	if it.arrived != nil {
		for _, m := range it.Outgoing {
			j.send(m, nobodyWaits)
		}
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
func (s writer) Admit(slot parley.Slot, size int) (func(), error) {
	l := s.lead.Load()
	if l == nil {
		return nil, journal.ErrNotLeader
	}
	j := l.home(slot)
	if trouble := s.Trouble(); trouble != nil {
		return nil, trouble
	}
	if j.outboxesFull() || !j.admission.Admit(size) {
		return nil, parley.ErrOverloaded
	}
	came := s.disk.Age()
	return func() { j.admission.Leave(size, came, s.disk.Age()) }, nil
}

// Overloaded is a refusal if no journal would admit an entry of a client now, else
// nil. With it a server rejects a request before reading it.
func (s health) Overloaded() *parley.Refusal {
	if trouble := s.Trouble(); trouble != nil {
		return trouble
	}
	l := s.lead.Load()
	if l == nil {
		return nil
	}
	for _, j := range l.journals {
		if !j.admission.Full() {
			return nil
		}
	}
	for _, j := range l.journals {
		j.admission.Press()
	}
	return parley.ErrOverloaded
}
