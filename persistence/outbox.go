package persistence

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
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

// outboxMessage carries effects of one entry to another home. The messages of an
// outbox are numbered densely; the target applies each number once, in order.
type outboxMessage struct {
	source, target int
	number         uint64
	layout.OutboxMessage
	// awaited: the answer to the sender waits for it.
	awaited bool
	// block is the chunk of a fan-out that it carries; open: it takes more of that
	// chunk.
	block uint32
	open  bool
	// sender and text, the record of the broadcast whose copies it carries, are not
	// stored: they are unknown after the next opening.
	sender journal.Stream
	text   []byte
	// arrived is called when the target has it on stable storage.
	arrived func()
}

// outboxAck is how far the target of an outbox has applied it.
type outboxAck struct {
	// arrived is the last number on stable storage at the target.
	arrived atomic.Uint64
	// swept is the last number whose row is deleted here. The writer's own.
	swept uint64
	depth atomic.Int64
}

// crossJournalLatch releases an entry when all its awaited messages have arrived, or
// after parley.SettleWait: then the effects follow later.
type crossJournalLatch struct {
	once    sync.Once
	left    atomic.Int32
	timer   *time.Timer
	release func(error)
}

func (s *crossJournalLatch) done() { s.once.Do(func() { s.release(nil) }) }

func (s *crossJournalLatch) arrived() {
	if s.left.Add(-1) == 0 {
		s.timer.Stop()
		s.done()
	}
}

// pack adds a word to the item's parcel for target: to the first, but for what
// goes to a feed, which comes after all that was said to feeds there before.
func (it *item) pack(source, target int, w journal.Effect) {
	say, feeds := w.(journal.AppendFeed)
	var p *outboxMessage
	for _, have := range it.outgoing {
		if have.target != target || p != nil && !feeds {
			continue
		}
		if p != nil {
			p.open = false
		}
		p = have
	}
	if p == nil {
		p = it.newOutboxMessage(source, target, true)
	}
	p.Effects = append(p.Effects, w)
	if feeds && say.Kind == journal.MessageEntry {
		it.enclose(p, parley.MessageID(say.Ref))
	}
}

// packMany adds a part of a word to many, all of one block, to the item's parcel
// of that block for target.
func (it *item) packMany(source, target int, block uint32, w journal.Fanout) {
	var p, last *outboxMessage
	text := true // must be enclosed: nothing before it has brought the record
	for _, have := range it.outgoing {
		if have.target != target {
			continue
		}
		if last = have; have.open && have.block == block {
			p = have
		}
		text = text && !have.has(parley.MessageID(w.Ref))
	}
	switch {
	case p != nil:
	case last == nil:
		// Nothing at this home was written with the entry, so this is awaited;
		// else it is what follows.
		p = it.newOutboxMessage(source, target, source != target || !it.began)
	case !last.open && last.awaited && !last.many():
		p = last
	default:
		p = it.newOutboxMessage(source, target, false)
	}
	p.block, p.open = block, true
	p.Effects = append(p.Effects, w)
	if w.Kind == journal.CopyEntry {
		p.text = it.record(parley.MessageID(w.Ref))
		if text && source != target {
			it.enclose(p, parley.MessageID(w.Ref))
		}
	}
}

func (it *item) newOutboxMessage(source, target int, awaited bool) *outboxMessage {
	p := &outboxMessage{source: source, target: target, awaited: awaited}
	it.outgoing = append(it.outgoing, p)
	return p
}

// packed reports whether the item has something for target.
func (it *item) packed(target int) bool {
	return slices.ContainsFunc(it.outgoing, func(p *outboxMessage) bool { return p.target == target })
}

// enclose has the parcel bring a message's record.
func (it *item) enclose(p *outboxMessage, id parley.MessageID) {
	if !p.has(id) {
		p.Records = append(p.Records, journal.Record{ID: id, Data: it.record(id)})
	}
}

// has reports whether the parcel brings a message's record.
func (p *outboxMessage) has(id parley.MessageID) bool {
	return slices.ContainsFunc(p.Records, func(r journal.Record) bool { return r.ID == id })
}

// many reports whether the parcel brings a part of a word to many.
func (p *outboxMessage) many() bool {
	return slices.ContainsFunc(p.Effects, func(w journal.Effect) bool { _, ok := w.(journal.Fanout); return ok })
}

// ship writes the item's messages into their outboxes.
func (a *application) ship(it *item, at int64) error {
	for _, p := range it.outgoing {
		a.j.outboxes[p.target]++
		p.number, p.At = a.j.outboxes[p.target], at
		if p.target == a.j.number {
			p.sender = it.Stream
			a.j.outboxed[it.Stream] = p.number
		}
		a.j.acked[p.target].depth.Add(1)
		if err := a.batch.Set(layout.OutboxKey(p.source, p.target, p.number), layout.EncodeOutboxMessage(&p.OutboxMessage), nil); err != nil {
			return err
		}
	}
	return nil
}

// dispatch sends a durable item's messages to their targets and releases the item
// when the awaited ones have arrived.
func (j *journalState) dispatch(it *item) {
	s := &crossJournalLatch{release: it.Release}
	if s.release == nil {
		s.release = func(error) {}
	}
	for _, p := range it.outgoing {
		if p.awaited {
			s.left.Add(1)
		}
	}
	if s.left.Load() == 0 {
		s.done()
	} else {
		s.timer = time.AfterFunc(parley.SettleWait, s.done)
	}
	for _, p := range it.outgoing {
		if p.awaited {
			j.send(p, s.arrived)
		} else {
			j.send(p, follows)
		}
	}
}

// follows is called for messages that no answer waits for.
func follows() {}

// send hands a durable message to its target. A target that is closing takes no
// more: the message stays in its outbox and is sent again at the next opening.
func (j *journalState) send(p *outboxMessage, settled func()) {
	ack := &j.acked[p.target]
	p.arrived = func() {
		ack.arrived.Store(p.number)
		ack.depth.Add(-1)
		settled()
	}
	cost := 64
	for _, r := range p.Records {
		cost += len(r.Data)
	}
	for _, w := range p.Effects {
		if many, ok := w.(journal.Fanout); ok {
			cost += copyCost * len(many.To)
		}
	}
	if !j.store.journals[p.target].queue.push(&item{Entry: &journal.Entry{}, outbox: p, late: !p.awaited, cost: cost}) {
		settled()
	}
}

// applyOutboxMessage applies a message, unless it was applied before.
func (a *application) applyOutboxMessage(it *item) error {
	p := it.outbox
	switch last := a.j.received[p.source]; {
	case p.number <= last:
		return nil
	case p.number != last+1:
		return fmt.Errorf("persistence: outbox %d to %d: message %d follows %d", p.source, p.target, p.number, last)
	}
	a.j.received[p.source] = p.number
	if a.received == nil {
		a.received = make([]bool, len(a.j.received))
	}
	a.received[p.source] = true
	at := a.arrival(time.UnixMilli(p.At))
	if p.source == p.target && a.j.outboxed[p.sender] == p.number {
		delete(a.j.outboxed, p.sender)
	}
	it.Effects, it.Records = p.Effects, p.Records
	for _, w := range p.Effects {
		if err := a.perform(it, w, at); err != nil {
			return err
		}
	}
	for _, x := range it.announced {
		if x.entry.Record == nil {
			continue
		}
		id := parley.MessageID(x.entry.Ref)
		slot := a.j.store.homes.Residence(x.agent.Slot(), id)
		if err := a.writeRecord(slot, journal.Record{ID: id, Data: x.entry.Record}, x.entry.Position); err != nil {
			return err
		}
	}
	return nil
}

// finishOutboxes records what this batch applied and deletes messages that their
// targets have.
func (a *application) finishOutboxes() error {
	for source, touched := range a.received {
		if !touched {
			continue
		}
		value := layout.EncodeNumber(a.j.received[source])
		if err := a.batch.Set(layout.OutboxReceivedKey(a.j.number, source), value, nil); err != nil {
			return err
		}
	}
	if a.batch.Empty() {
		return nil // nothing to ride along with
	}
	for target := range a.j.acked {
		ack := &a.j.acked[target]
		for arrived := ack.arrived.Load(); ack.swept < arrived; {
			ack.swept++
			if err := a.batch.Delete(layout.OutboxKey(a.j.number, target, ack.swept), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// openOutboxes reads how far this journal's outboxes have come.
func (j *journalState) openOutboxes() error {
	n := int(j.store.homes)
	j.received, j.outboxes, j.acked = make([]uint64, n), make([]uint64, n), make([]outboxAck, n)
	for other := range n {
		value, _, err := layout.Get(j.store.db, layout.OutboxReceivedKey(j.number, other))
		if err != nil {
			return err
		}
		j.received[other] = layout.Number(value)
		value, _, err = layout.Get(j.store.db, layout.OutboxReceivedKey(other, j.number))
		if err != nil {
			return err
		}
		// What the target has may have been swept: the next number is beyond
		// both what it applied and what still lies in the lane.
		applied := layout.Number(value)
		j.acked[other].arrived.Store(applied)
		j.acked[other].swept = applied
		last, err := lastOutboxMessage(j.store.db, j.number, other)
		if err != nil {
			return err
		}
		j.outboxes[other] = max(applied, last)
	}
	j.resumed = j.outboxes[j.number]
	return nil
}

// behind reports whether feed entries of a stream for agents here are under way in
// the journal's outbox to itself.
func (j *journalState) behind(s journal.Stream) bool {
	return max(j.resumed, j.outboxed[s]) > j.received[j.number]
}

func lastOutboxMessage(r pebble.Reader, source, target int) (uint64, error) {
	prefix := layout.OutboxKey(source, target, 0)[:7]
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	if iter.Last() {
		last = layout.Number(iter.Key()[len(prefix):])
	}
	return last, iter.Close()
}

// resumeOutboxes sends again what was under way when the directory was closed, and
// drops what had arrived. Called before anything new is appended.
func (j *journalState) resumeOutboxes() error {
	for target := range j.acked {
		if j.store.opts.forgetful && target == j.number {
			continue
		}
		prefix := layout.OutboxKey(j.number, target, 0)[:7]
		iter, err := j.store.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			return err
		}
		applied := j.acked[target].arrived.Load()
		for ok := iter.First(); ok; ok = iter.Next() {
			n := layout.Number(iter.Key()[len(prefix):])
			if n <= applied {
				j.acked[target].swept = min(j.acked[target].swept, n-1)
				continue
			}
			content, err := layout.DecodeOutboxMessage(iter.Value())
			if err != nil {
				return fmt.Errorf("outbox %d to %d, message %d: %w", j.number, target, n, err)
			}
			p := &outboxMessage{source: j.number, target: target, number: n, OutboxMessage: *content}
			j.acked[target].depth.Add(1)
			j.send(p, follows)
		}
		if err := iter.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) outboxesFull(j *journalState) bool {
	for i := range j.acked {
		if j.acked[i].depth.Load() > outboxDepthMax {
			return true
		}
	}
	return j.acked[j.number].depth.Load() > selfDepthMax
}

// drainOutboxes waits up to a second until all messages have arrived. The rest is
// sent again at the next opening.
func (s *Store) drainOutboxes() {
	for range 200 {
		busy := false
		for _, j := range s.journals {
			for i := range j.acked {
				busy = busy || j.acked[i].depth.Load() > 0
			}
		}
		if !busy {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
