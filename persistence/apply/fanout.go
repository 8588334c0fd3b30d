package apply

import (
	"slices"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// FanoutPart is a part of a fan-out that was appended to feeds of this journal, at
// consecutive positions in the order of seats.
type FanoutPart struct {
	journal.Fanout
	first  uint64 // position of the first
	at     int64
	record []byte // of the broadcast, nil if it is not at hand
}

// First is the position of the first agent's entry. The others follow without a gap.
func (f *FanoutPart) First() uint64 { return f.first }

// Entry is the entry in the feed of the agent To[i].
func (f *FanoutPart) Entry(i int) journal.FeedEntry {
	return journal.FeedEntry{
		Position: f.first + uint64(i), Kind: f.Kind, Ref: refOf(&f.Fanout, f.To[i]), Note: f.Note, At: f.at,
		Begins: f.Begins, Record: f.record,
	}
}

func refOf(w *journal.Fanout, seat parley.Seat) parley.AnyID {
	if w.Kind == journal.CopyEntry {
		return parley.AnyID(parley.Copy(parley.MessageID(w.Ref), seat.Number))
	}
	return w.Ref
}

// firstChunk is how many of the seats, from the first on, are of one chunk.
func firstChunk(to []parley.Seat) int {
	for i := range to {
		if layout.Chunk(to[i].Number) != layout.Chunk(to[0].Number) {
			return i
		}
	}
	return len(to)
}

// fanOut applies the first chunk of the agents of this journal in this batch, and
// sends the others through outboxes, chunk by chunk.
func (ev *Evaluator) fanOut(it *Item, w journal.Fanout, at int64) error {
	s := ev.state
	for to := w.To; len(to) > 0; {
		n := firstChunk(to)
		chunk := layout.Chunk(to[0].Number)
		for home, seats := range ev.split(to[:n]) {
			if len(seats) == 0 {
				continue
			}
			part := w
			part.To = seats
			if home != s.journal || !it.appliesChunk(chunk) {
				it.packPart(s.journal, home, chunk, part)
				continue
			}
			if err := ev.appendPart(it, part, at); err != nil {
				return err
			}
		}
		if w.Kind == journal.CopyEntry && s.homes > 1 {
			if err := ev.writeFarCopies(parley.MessageID(w.Ref), to[:n]); err != nil {
				return err
			}
		}
		to = to[n:]
	}
	return nil
}

// split sorts seats by the homes of their agents.
func (ev *Evaluator) split(to []parley.Seat) [][]parley.Seat {
	homes := ev.state.homes
	if ev.parts == nil {
		ev.parts = make([][]parley.Seat, homes)
	}
	if homes == 1 {
		ev.parts[0] = to
		return ev.parts
	}
	sizes := make([]int, homes)
	for i := range to {
		sizes[homes.Of(to[i].Agent.Slot())]++
	}
	all := make([]parley.Seat, len(to))
	for home, n := range sizes {
		ev.parts[home], all = all[:0:n], all[n:]
	}
	for _, seat := range to {
		home := homes.Of(seat.Agent.Slot())
		ev.parts[home] = append(ev.parts[home], seat)
	}
	return ev.parts
}

// appliesChunk reports whether a chunk for agents of this journal is written in the
// entry's own batch: the first one is, unless feed entries go through the outbox.
func (it *Item) appliesChunk(chunk uint32) bool {
	if it.viaOutbox {
		return false
	}
	if !it.direct {
		it.direct, it.directChunk = true, chunk
	}
	return chunk == it.directChunk
}

// appendPart appends one chunk of a fan-out to feeds of this journal.
func (ev *Evaluator) appendPart(it *Item, w journal.Fanout, at int64) error {
	s := ev.state
	f := FanoutPart{Fanout: w, first: s.applied.Position + 1, at: at}
	s.applied.Position += uint64(len(w.To))
	if w.Kind == journal.CopyEntry {
		if err := ev.writeCopies(it, &f); err != nil {
			return err
		}
	}
	for _, i := range ev.bySlot(w.To) {
		if err := ev.appendCopy(&f, int(uint16(i))); err != nil {
			return err
		}
	}
	it.Fanouts = append(it.Fanouts, f)
	return nil
}

// bySlot returns the indexes of seats, in the low halves of the numbers, in the
// order of their feeds' keys: the engine inserts neighbours with less search.
func (ev *Evaluator) bySlot(to []parley.Seat) []uint32 {
	ev.order = ev.order[:0]
	for i := range to {
		ev.order = append(ev.order, uint32(to[i].Agent.Slot())<<16|uint32(i))
	}
	slices.Sort(ev.order)
	return ev.order
}

// appendCopy writes the feed entry of one seat.
func (ev *Evaluator) appendCopy(f *FanoutPart, i int) error {
	e := f.Entry(i)
	return ev.writeFeed(f.To[i].Agent, &e)
}

// writeCopies writes the list of the copies that are appended to feeds here, and
// the broadcast's record if it came with an outbox message.
func (ev *Evaluator) writeCopies(it *Item, f *FanoutPart) error {
	id := parley.MessageID(f.Ref)
	slot := ev.state.homes.BroadcastSlot(ev.state.journal, id)
	f.record = it.text(id)
	if it.Message != nil {
		if r := it.record(id); r != nil {
			if err := ev.writeRecord(slot, r, 0); err != nil {
				return err
			}
		} else {
			f.record = it.Message.broadcast
		}
	}
	return ev.writeCopyList(slot, id, f.first, f.To)
}

// writeFarCopies writes, at the home of a broadcast, the list of one chunk's copies
// for agents of other homes.
func (ev *Evaluator) writeFarCopies(id parley.MessageID, chunk []parley.Seat) error {
	s := ev.state
	var far []parley.Seat
	for _, seat := range chunk {
		if s.homes.Of(seat.Agent.Slot()) != s.journal {
			far = append(far, seat)
		}
	}
	if len(far) == 0 {
		return nil
	}
	return ev.writeCopyList(s.homes.BroadcastSlot(s.journal, id), id, 0, far)
}
