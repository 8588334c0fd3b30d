package apply

import (
	"fmt"
	"slices"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// pack adds an effect to the item's message for target: to the first one, except
// that an AppendFeed goes to the last, behind everything that the entry appends to
// feeds there before.
func (it *Item) pack(source, target int, w journal.Effect) {
	feed, isFeed := w.(journal.AppendFeed)
	var m *Message
	for _, have := range it.Outgoing {
		if have.Target != target || m != nil && !isFeed {
			continue
		}
		if m != nil {
			m.open = false
		}
		m = have
	}
	if m == nil {
		m = it.newMessage(source, target, true)
	}
	m.Effects = append(m.Effects, w)
	if isFeed && feed.Kind == journal.MessageEntry {
		it.enclose(m, parley.MessageID(feed.Ref))
	}
}

// packPart adds a part of a fan-out, all of one chunk, to the item's message of that
// chunk for target.
func (it *Item) packPart(source, target int, chunk uint32, w journal.Fanout) {
	var m, last *Message
	enclose := true // no earlier message brings the record
	for _, have := range it.Outgoing {
		if have.Target != target {
			continue
		}
		if last = have; have.open && have.chunk == chunk {
			m = have
		}
		enclose = enclose && !have.brings(parley.MessageID(w.Ref))
	}
	switch {
	case m != nil:
	case last == nil:
		// The answer waits for the first chunk: for this message, unless that chunk
		// is written in the entry's own batch.
		m = it.newMessage(source, target, source != target || !it.direct)
	case !last.open && last.Awaited && !last.hasFanout():
		m = last
	default:
		m = it.newMessage(source, target, false)
	}
	m.chunk, m.open = chunk, true
	m.Effects = append(m.Effects, w)
	if w.Kind == journal.CopyEntry {
		m.broadcast = it.text(parley.MessageID(w.Ref))
		if enclose && source != target {
			it.enclose(m, parley.MessageID(w.Ref))
		}
	}
}

func (it *Item) newMessage(source, target int, awaited bool) *Message {
	m := &Message{Source: source, Target: target, Awaited: awaited}
	it.Outgoing = append(it.Outgoing, m)
	return m
}

// packed reports whether the item has a message for target.
func (it *Item) packed(target int) bool {
	return slices.ContainsFunc(it.Outgoing, func(m *Message) bool { return m.Target == target })
}

// enclose adds a record to an outbox message, unless it is there.
func (it *Item) enclose(m *Message, id parley.MessageID) {
	if r := it.record(id); r != nil && !m.brings(id) {
		m.Records = append(m.Records, *r)
	}
}

// brings reports whether the outbox message brings a record.
func (m *Message) brings(id parley.MessageID) bool {
	return slices.ContainsFunc(m.Records, func(r journal.Record) bool { return r.ID == id })
}

// hasFanout reports whether the message carries a part of a fan-out.
func (m *Message) hasFanout() bool {
	return slices.ContainsFunc(m.Effects, func(w journal.Effect) bool { _, ok := w.(journal.Fanout); return ok })
}

// writeOutgoing writes the item's messages into their outboxes.
func (ev *Evaluator) writeOutgoing(it *Item, at int64) error {
	s := ev.state
	for _, m := range it.Outgoing {
		s.outboxes[m.Target]++
		m.Number, m.At = s.outboxes[m.Target], at
		if m.Target == s.journal {
			m.stream = it.Stream
			s.ownOutbox[it.Stream] = m.Number
		}
		if err := ev.batch.Set(s.homes.OutboxKey(m.Source, m.Target, m.Number), layout.EncodeOutboxMessage(&m.OutboxMessage), nil); err != nil {
			return err
		}
	}
	return nil
}

// applyMessage applies a message from an outbox, unless it was applied before.
func (ev *Evaluator) applyMessage(it *Item) error {
	s, m := ev.state, it.Message
	switch last := s.received[m.Source]; {
	case m.Number <= last:
		return nil
	case m.Number != last+1:
		return fmt.Errorf("persistence: outbox %d to %d: message %d follows %d", m.Source, m.Target, m.Number, last)
	}
	s.received[m.Source] = m.Number
	s.applied.Entries++
	if ev.received == nil {
		ev.received = make([]bool, len(s.received))
	}
	ev.received[m.Source] = true
	at := ev.state.arrival(time.UnixMilli(m.At))
	if m.Source == m.Target && s.ownOutbox[m.stream] == m.Number {
		delete(s.ownOutbox, m.stream)
	}
	it.Effects, it.Records = m.Effects, m.Records
	for _, w := range m.Effects {
		if err := ev.perform(it, w, at); err != nil {
			return err
		}
	}
	for _, x := range it.Appended {
		if x.Entry.Kind != journal.MessageEntry {
			continue
		}
		id := parley.MessageID(x.Entry.Ref)
		r := it.record(id)
		if r == nil {
			continue
		}
		if err := ev.writeRecord(s.homes.Residence(x.Agent.Slot(), id), r, x.Entry.Position); err != nil {
			return err
		}
	}
	return ev.writeOutgoing(it, at)
}

// finishOutboxes writes the numbers of the messages that this batch applied, and
// deletes messages that arrived at their targets.
func (ev *Evaluator) finishOutboxes(arrived func(target int) uint64) error {
	s := ev.state
	for source, touched := range ev.received {
		if !touched {
			continue
		}
		value := layout.EncodeNumber(s.received[source])
		if err := ev.batch.Set(s.homes.OutboxReceivedKey(s.journal, source), value, nil); err != nil {
			return err
		}
	}
	if ev.batch.Empty() {
		return nil // deletions alone are not worth a commit
	}
	for target := range s.deleted {
		for last := arrived(target); s.deleted[target] < last; {
			s.deleted[target]++
			if err := ev.batch.Delete(s.homes.OutboxKey(s.journal, target, s.deleted[target]), nil); err != nil {
				return err
			}
		}
	}
	return nil
}
