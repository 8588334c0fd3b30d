package persistence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// A Sequencer decides the one order in which all replicas of a store apply batches, and
// which of them leads. It drives each of them through its Replica. Its methods are called
// from any goroutine.
type Sequencer interface {
	// Propose adds a batch to the order. The batch's memory, with the spare room behind it,
	// belongs to the sequencer until Replica.Apply gets a copy of the batch; if that never
	// happens, for ever. Propose fails if the term that Replica.Lead began is over, or is
	// ended by the failure: then the batch will never be applied. It must not wait for
	// Replica.Apply.
	Propose(term uint64, batch []byte) error
	// Fence returns an index at or after every batch that had been applied anywhere when
	// the call began. It ends within seconds.
	Fence(ctx context.Context) (index uint64, err error)
	// Confirm returns nil if this replica led in the term at some instant after the call.
	Confirm(ctx context.Context, term uint64) error
}

// Committed is one place of the order.
type Committed struct {
	// Index counts places, without gaps. Term is that of the leader that proposed.
	Index, Term uint64
	// Batch is empty where the order holds something else. Its memory is shared, must not
	// change, and is not that of the proposal.
	Batch []byte
}

// GroupPosition is how far a replica has applied the order, with the sequencer's note.
type GroupPosition = layout.GroupPosition

// Replica is a store as its Sequencer uses it. All batches of a replica are those of the
// order: nothing else is written.
type Replica struct {
	store *Store
	// mu serializes all methods.
	mu   sync.Mutex
	last layout.GroupPosition
}

// openReplica reads where the store of a replica stands. It does not lead yet.
func (s opening) openReplica() error {
	last, err := layout.ReadGroupPosition(s.db)
	if err != nil {
		return err
	}
	s.replica = &Replica{store: s.Store, last: last}
	s.applied.Store(last.Number)
	s.visible.Store(last.Number)
	s.durable.Raise(last.Number)
	return nil
}

// errNotReplica is returned for a store that was opened without a Sequencer.
var errNotReplica = errors.New("persistence: the store orders its own batches")

// Replica is the sequencer's side of a store that was opened with one.
func (s *Store) Replica() (*Replica, error) {
	if s.replica == nil {
		return nil, errNotReplica
	}
	return s.replica, nil
}

// Applied is the last place that was applied.
func (r *Replica) Applied() layout.GroupPosition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Visible is the last place that new views show.
func (r *Replica) Visible() uint64 { return r.store.visible.Load() }

// Await returns once views show a place.
func (r *Replica) Await(ctx context.Context, index uint64) error {
	if !r.store.durable.Wait(ctx, index, durablePatience) {
		return journal.ErrBehind
	}
	return nil
}

// Durable is the last place that would survive a crash: the next ones are applied again.
func (r *Replica) Durable() (index uint64, err error) {
	iter, err := r.store.db.NewIter(&pebble.IterOptions{
		OnlyReadGuaranteedDurable: true, LowerBound: layout.GroupKey(), UpperBound: layout.After(layout.GroupKey()),
	})
	if err != nil {
		return 0, err
	}
	if iter.First() {
		var p layout.GroupPosition
		var value []byte
		if value, err = iter.ValueAndErr(); err == nil {
			p, err = layout.DecodeGroupPosition(value)
		}
		index = p.Number
	}
	return index, errors.Join(err, iter.Close())
}

// Flush makes durable what was applied.
func (r *Replica) Flush() error {
	defer r.store.endOfEngine()
	return r.store.db.Flush()
}

// finish makes durable what a replica has applied, so that its log has little to replay. r is
// nil for a store that is none.
func (r *Replica) finish() error {
	if r == nil || r.store.Trouble() != nil {
		return nil
	}
	return r.Flush()
}

// Apply applies the next places of the order, in one step with a note of the sequencer's, and
// publishes them. They are durable later, see Durable. After an error the replica must not
// go on.
func (r *Replica) Apply(places []Committed, note []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, next := r.store.lead.Load(), r.last
	next.Note = note
	changes := &batchChanges{homes: r.store.homes}
	var own []*flight
	for i := range places {
		c := &places[i]
		if c.Index != next.Number+1 {
			return fmt.Errorf("persistence: place %d of the order follows %d", c.Index, next.Number)
		}
		next = next.Next(c.Term, c.Batch)
		f, err := l.flightOf(c, len(own))
		switch {
		case f != nil:
			own, err = append(own, f), changes.addOwn(f)
		case err == nil:
			err = changes.add(r.store.db, c.Batch)
		}
		if err != nil {
			return fmt.Errorf("persistence: place %d of the order: %w", c.Index, err)
		}
	}
	batch := changes.batch
	if batch == nil {
		batch = r.store.db.NewBatch()
	}
	if err := batch.Set(layout.GroupKey(), next.Encode(), nil); err != nil {
		return err
	}
	if err := r.applyOrdered(batch, next.Number, changes); err != nil {
		return err
	}
	r.last = next
	for _, f := range own {
		f.journal.applied(f)
	}
	r.publish(changes)
	r.store.durable.Raise(next.Number) // a caller that waits for it finds everything published
	return nil
}

// Begin makes the first place of a new order: it holds no batch. All replicas begin alike.
func (r *Replica) Begin(note []byte) error {
	if at := r.Applied(); at.Number != 0 {
		return fmt.Errorf("persistence: the order has begun; %d places are applied", at.Number)
	}
	return r.Apply([]Committed{{Index: 1, Term: 1}}, note)
}

// applyOrdered applies the batch of a place, which then is committed and so durable.
func (r *Replica) applyOrdered(batch *pebble.Batch, index uint64, changes *batchChanges) error {
	s := r.store
	s.commit.Lock()
	defer s.commit.Unlock()
	defer s.endOfEngine()
	for n, position := range changes.positions {
		s.positions[n].assigned.Store(position)
	}
	if err := s.write(batch, index, changes.feeds, false); err != nil {
		return err
	}
	for n, position := range changes.positions {
		s.positions[n].durable.Raise(position)
	}
	return batch.Close()
}

// Lead begins the leadership of a term. Everything that earlier terms put into the order
// must have been applied here. The store must have been started.
func (r *Replica) Lead(term uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.store
	if s.lead.Load() != nil || s.onQueue == nil {
		return fmt.Errorf("persistence: term %d begins while another one lasts, or before Start", term)
	}
	l, err := s.newLeadership(term)
	if err != nil {
		return err
	}
	for begun := false; !begun; {
		last := s.activation.Load()
		l.first = max(last, term<<activationBits)
		begun = s.activation.CompareAndSwap(last, l.first)
	}
	s.lead.Store(l)
	if err := l.start(); err != nil {
		s.lead.Store(nil)
		return err
	}
	return nil
}

// StepDown ends the leadership, if there is one. Of the batches that Propose took, the last ones
// will never be in the order: as many as unproposed says, which is called once nothing is proposed
// any more, or none if it is nil. Their entries, and those that Propose did not
// get, are released with journal.ErrNotLeader, because nothing was done. The outcome of the
// other batches that are not applied is not known here.
func (r *Replica) StepDown(unproposed func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.store.lead.Swap(nil); l != nil {
		l.end(unproposed)
	}
}

// Fence implements journal.Reader.
func (s reader) Fence(ctx context.Context) error {
	if s.opts.Sequencer == nil {
		return nil
	}
	index, err := s.opts.Sequencer.Fence(ctx)
	if err != nil {
		return journal.ErrBehind
	}
	return s.replica.Await(ctx, index)
}

// Confirm implements journal.Writer.
func (s writer) Confirm(activation uint64, release func(error)) {
	if s.opts.Sequencer == nil {
		release(nil)
		return
	}
	l := s.lead.Load()
	if l == nil || activation <= l.first { // it began in another term
		release(journal.ErrNotLeader)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), durablePatience)
		defer cancel()
		if err := s.opts.Sequencer.Confirm(ctx, l.term); err != nil {
			release(journal.ErrNotLeader)
			return
		}
		release(nil)
	}()
}
