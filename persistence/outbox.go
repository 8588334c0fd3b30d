package persistence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

const (
	// outboxDepthMax is how many messages may be under way in one outbox before
	// Admit refuses entries of its source.
	outboxDepthMax = 8192
	// selfDepthMax is that for the outbox of a journal to itself, which holds the
	// later chunks of fan-outs: about as many as arrive within a second.
	selfDepthMax = 1024
)

// outboxProgress is how far the messages of an outbox have come.
type outboxProgress struct {
	// sent is the number of the last message, applied or not yet committed.
	sent atomic.Uint64
	// arrived is the number of the last message that is durable at the target.
	arrived atomic.Uint64
	// depth is how many messages are under way.
	depth atomic.Int64
}

// arrived is the number of the last message that is durable at a target.
func (j *journalState) arrived(target int) uint64 { return j.outboxes[target].arrived.Load() }

// crossJournalLatch releases an entry when all its awaited messages have arrived, or
// after parley.SettleWait: then the effects follow later.
type crossJournalLatch struct {
	once    sync.Once
	left    atomic.Int32
	timer   *time.Timer
	release func(error)
}

func (l *crossJournalLatch) done() { l.once.Do(func() { l.release(nil) }) }

func (l *crossJournalLatch) arrived() {
	if l.left.Add(-1) == 0 {
		l.timer.Stop()
		l.done()
	}
}

// dispatch sends a durable item's messages to their targets and releases the item
// when the awaited ones have arrived.
func (j *journalState) dispatch(it *item) {
	latch := &crossJournalLatch{release: it.Release}
	if latch.release == nil {
		latch.release = func(error) {}
	}
	for _, m := range it.Outgoing {
		if m.Awaited {
			latch.left.Add(1)
		}
	}
	if latch.left.Load() == 0 {
		latch.done()
	} else {
		latch.timer = time.AfterFunc(parley.SettleWait, latch.done)
	}
	for _, m := range it.Outgoing {
		if m.Awaited {
			j.send(m, latch.arrived)
		} else {
			j.send(m, nobodyWaits)
		}
	}
}

// nobodyWaits is called for messages that no answer waits for.
func nobodyWaits() {}

// send hands a durable message to its target; arrived is called when it is durable
// there. A target that is closing takes no more: the message stays in its outbox and
// is sent again at the next opening.
func (j *journalState) send(m *apply.Message, arrived func()) {
	progress := &j.outboxes[m.Target]
	it := &item{Item: apply.Item{Entry: &journal.Entry{}, Message: m}, late: !m.Awaited, cost: 64}
	it.arrived = func() {
		progress.arrived.Store(m.Number)
		progress.depth.Add(-1)
		arrived()
	}
	for _, r := range m.Records {
		it.cost += len(r.Data)
	}
	for _, w := range m.Effects {
		if many, ok := w.(journal.Fanout); ok {
			it.cost += copyCost * len(many.To)
		}
	}
	if !j.lead.journals[m.Target].queue.push(it) {
		arrived()
	}
}

// resumeOutboxes sends again the messages that were under way when the directory was
// closed. Called before anything new is appended.
func (j *journalState) resumeOutboxes() error {
	for target := range j.outboxes {
		if j.store.opts.forgetful && target == j.number {
			continue
		}
		if err := j.resumeOutbox(target); err != nil {
			return err
		}
	}
	return nil
}

func (j *journalState) resumeOutbox(target int) error {
	prefix := j.store.homes.OutboxPrefix(j.number, target)
	iter, err := j.store.db.NewIter(&pebble.IterOptions{
		LowerBound: j.store.homes.OutboxKey(j.number, target, j.arrived(target)+1), UpperBound: layout.After(prefix),
	})
	if err != nil {
		return err
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		n := layout.Number(iter.Key()[len(prefix):])
		value, err := iter.ValueAndErr()
		var content *layout.OutboxMessage
		if err == nil {
			content, err = layout.DecodeOutboxMessage(value)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("outbox %d to %d, message %d: %w", j.number, target, n, err), iter.Close())
		}
		j.outboxes[target].depth.Add(1)
		j.outboxes[target].sent.Store(n)
		j.send(&apply.Message{Source: j.number, Target: target, Number: n, OutboxMessage: *content}, nobodyWaits)
	}
	return iter.Close()
}

func (j *journalState) outboxesFull() bool {
	for i := range j.outboxes {
		if j.outboxes[i].depth.Load() > outboxDepthMax {
			return true
		}
	}
	return j.outboxes[j.number].depth.Load() > selfDepthMax
}

// settlePause is the pause between two looks at the outboxes.
const settlePause = time.Millisecond

// Settle returns once everything that was appended before the call is on stable storage
// and has been applied in every journal: an empty entry in each journal is released
// after everything before it, and then the messages that are in outboxes have to arrive.
func (s writer) Settle(ctx context.Context) error {
	l := s.lead.Load()
	if l == nil {
		return journal.ErrNotLeader
	}
	released := make(chan error, len(l.journals))
	for _, j := range l.journals {
		j.append(&item{Item: apply.Item{Entry: &journal.Entry{Release: func(err error) { released <- err }}}})
	}
	for range l.journals {
		select {
		case err := <-released:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sent := make([][]uint64, len(l.journals))
	for i, j := range l.journals {
		for target := range j.outboxes {
			sent[i] = append(sent[i], j.outboxes[target].sent.Load())
		}
	}
	for !l.haveArrived(sent) {
		select {
		case <-time.After(settlePause):
		case <-l.over:
			return l.closed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Arrived returns once the messages that are under way from the journal of one slot to
// that of another have arrived. An outbox keeps its order, so what views show of the
// source by now has then been applied at the target.
func (s writer) Arrived(ctx context.Context, from, to parley.Slot) error {
	l := s.lead.Load()
	if l == nil {
		return s.arrivedInRows(ctx, s.homes.Of(from), s.homes.Of(to))
	}
	progress := &l.home(from).outboxes[l.home(to).number]
	for sent := progress.sent.Load(); progress.arrived.Load() < sent; {
		select {
		case <-time.After(settlePause):
		case <-l.over:
			return l.closed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// arrivedInRows is Arrived for a store that does not lead.
func (s writer) arrivedInRows(ctx context.Context, source, target int) error {
	if !s.enter() {
		return journal.ErrClosed
	}
	defer s.readers.Add(-1)
	sent, err := s.lastSent(source, target)
	for err == nil {
		var value []byte
		if value, _, err = layout.Get(s.db, s.homes.OutboxReceivedKey(target, source)); layout.Number(value) >= sent {
			break
		}
		select {
		case <-time.After(settlePause):
		case <-s.closing:
			return journal.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// lastSent is the number of the last message that is stored in an outbox, 0 if there is none.
func (s writer) lastSent(source, target int) (number uint64, err error) {
	prefix := s.homes.OutboxPrefix(source, target)
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, err
	}
	if iter.Last() {
		number = layout.Number(iter.Key()[len(prefix):])
	}
	return number, iter.Close()
}

// haveArrived reports whether the messages up to these numbers, by source and target,
// are durable at their targets.
func (l *leadership) haveArrived(sent [][]uint64) bool {
	for i, j := range l.journals {
		for target, last := range sent[i] {
			if j.arrived(target) < last {
				return false
			}
		}
	}
	return true
}

// drainOutboxes waits up to a second until all messages have arrived. The rest is
// sent again at the next opening.
func (l *leadership) drainOutboxes() {
	for range 200 {
		busy := false
		for _, j := range l.journals {
			for i := range j.outboxes {
				busy = busy || j.outboxes[i].depth.Load() > 0
			}
		}
		if !busy {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
