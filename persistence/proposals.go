package persistence

import (
	"bytes"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
)

// propose hands a batch to the sequencer. Flights without a batch keep their place among
// those that have one. After a failure nothing more is proposed in the term: the next batch
// would build on one that is not in the order.
func (l *leadership) propose(f *flight) error {
	select {
	case l.slots <- struct{}{}:
	case <-l.over:
		return journal.ErrNotLeader
	}
	l.proposing.Lock()
	defer l.proposing.Unlock()
	switch {
	case l.ended:
		<-l.slots
		return journal.ErrNotLeader
	case f.proposal != nil:
		if err := l.store.opts.Sequencer.Propose(l.term, f.proposal); err != nil {
			l.ended = true
			<-l.slots
			return err
		}
	case len(l.proposed) == 0:
		<-l.slots
		l.noteIdle()
		f.journal.releaseAll(f)
		return nil
	}
	l.proposed = append(l.proposed, f)
	return nil
}

// gather lets entries gather for the next batch while others are under way: every batch costs
// all nodes a sync and several messages, whatever it holds. It returns gatherFor after an instant
// that is some time ago, or once nothing is under way.
func (j *journalState) gather(ago time.Duration) {
	select {
	case <-j.idle: // that was before
	default:
	}
	if len(j.lead.slots) == 0 || ago >= gatherFor {
		return
	}
	late := time.NewTimer(gatherFor - ago)
	defer late.Stop()
	select {
	case <-late.C:
	case <-j.idle:
	case <-j.lead.over:
	}
}

// noteIdle ends the gathering of all journals.
func (l *leadership) noteIdle() {
	for _, j := range l.journals {
		select {
		case j.idle <- struct{}{}:
		default:
		}
	}
}

// flightOf is the flight of a place of the order, which follows those of ahead flights: nil if
// another leader proposed it, or if it holds no batch.
func (l *leadership) flightOf(c *Committed, ahead int) (*flight, error) {
	if l == nil || c.Term != l.term || len(c.Batch) == 0 {
		return nil, nil
	}
	l.proposing.Lock()
	defer l.proposing.Unlock()
	for _, f := range l.proposed {
		if f.proposal == nil {
			continue
		}
		if ahead--; ahead < 0 && bytes.Equal(c.Batch, f.proposal) {
			return f, nil
		} else if ahead < 0 {
			break
		}
	}
	return nil, fmt.Errorf("it holds a batch of term %d that was not proposed in it", c.Term)
}

// applied releases a flight whose batch was applied, and those without a batch behind it.
func (j *journalState) applied(f *flight) {
	j.appliedFlights.Store(f.number)
	f.notifyApplied()
	l := j.lead
	for next := f; next != nil; next = l.pop() {
		next.journal.releaseAll(next)
	}
}

// pop takes the oldest flight away, and returns the next one if that has no batch.
func (l *leadership) pop() *flight {
	l.proposing.Lock()
	defer l.proposing.Unlock()
	l.proposed = l.proposed[1:]
	<-l.slots
	if len(l.proposed) == 0 {
		l.noteIdle()
		return nil
	}
	if l.proposed[0].proposal != nil {
		return nil
	}
	return l.proposed[0]
}

// end releases everything that is under way. The last batches, as many as counted says, will
// never be in the order, so nothing was done for their flights, nor for those behind the first of
// them.
func (l *leadership) end(counted func() int) {
	close(l.over)
	l.proposing.Lock()
	l.ended = true
	left := l.proposed
	l.proposed = nil
	l.proposing.Unlock()
	made, unproposed := len(left), 0
	if counted != nil && made > 0 {
		unproposed = counted()
	}
	for ; unproposed > 0 && made > 0; made-- {
		if left[made-1].proposal != nil {
			unproposed--
		}
	}
	for i, f := range left {
		if i < made {
			f.refuse(parley.ErrOutcomeUnknown)
		} else {
			f.refuse(journal.ErrNotLeader)
		}
	}
	for _, j := range l.journals {
		j.queue.close()
	}
	l.loops.Wait()
}

// pendingRows shows what flights have written that are not applied yet, over what is
// stored. Only the writer uses it.
type pendingRows struct {
	stored  apply.Stored
	applied *atomic.Uint64 // the last flight that is stored
	lengths map[journal.Stream]pendingLength
	told    map[string]pendingKinds
}

// pendingLength is the length of a stream after a flight.
type pendingLength struct{ events, flight uint64 }

// pendingKinds are the kinds of which senders are told up to a flight.
type pendingKinds struct {
	kinds  journal.ReceiptKinds
	flight uint64
}

// note keeps what the next flights have to know of a flight, until it is stored.
func (r *pendingRows) note(lengths map[journal.Stream]uint64, told map[string]journal.ReceiptKinds, flight uint64) {
	stored := r.applied.Load()
	maps.DeleteFunc(r.lengths, func(_ journal.Stream, p pendingLength) bool { return p.flight <= stored })
	maps.DeleteFunc(r.told, func(_ string, p pendingKinds) bool { return p.flight <= stored })
	if r.lengths == nil {
		r.lengths = map[journal.Stream]pendingLength{}
	}
	for s, n := range lengths {
		r.lengths[s] = pendingLength{n, flight}
	}
	if r.told == nil && len(told) > 0 {
		r.told = map[string]pendingKinds{}
	}
	for key, kinds := range told {
		r.told[key] = pendingKinds{kinds | r.told[key].kinds, flight}
	}
}

// Kinds implements apply.Rows.
func (r *pendingRows) Kinds(key []byte) (journal.ReceiptKinds, error) {
	pending := r.told[string(key)]
	if pending.flight <= r.applied.Load() {
		pending.kinds = 0
	}
	stored, err := r.stored.Kinds(key)
	return pending.kinds | stored, err
}

// Length implements apply.Rows.
func (r *pendingRows) Length(s journal.Stream) (uint64, error) {
	if p, ok := r.lengths[s]; ok && p.flight > r.applied.Load() {
		return p.events, nil
	}
	return r.stored.Length(s)
}

// Ends implements apply.Rows.
func (r *pendingRows) Ends(s journal.Stream, n uint64) (bool, error) {
	if p, ok := r.lengths[s]; ok && p.flight > r.applied.Load() {
		return p.events == n, nil
	}
	return r.stored.Ends(s, n)
}

// refuse releases the entries of a flight with a reason. Nothing was done for those that the
// journal has refused, perhaps because of batches that will not be applied.
func (f *flight) refuse(reason error) {
	for _, it := range f.items {
		if it.Refusal == nil {
			it.Refusal = reason
		} else {
			it.Refusal = journal.ErrNotLeader
		}
		switch {
		case it.arrived != nil: // the message stays in its outbox; the next leader sends it
		case it.Release != nil:
			it.Release(it.Refusal)
		}
	}
}
