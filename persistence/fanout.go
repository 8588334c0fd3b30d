package persistence

import (
	"encoding/binary"
	"slices"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

const (
	// copyCost is what one reader of a word to many counts for in a batch: about
	// as many bytes as are written in the time that its rows take.
	copyCost = 512
)

// fanned is what a part of a word to many has put into feeds: from the position
// first on, in the order of seats.
type fanned struct {
	journal.Fanout
	first  uint64
	at     int64
	record []byte // of the broadcast, where it is at hand
}

// entry is the line in the feed of the reader of the seat at place i.
func (f *fanned) entry(i int) journal.FeedEntry {
	return journal.FeedEntry{
		Position: f.first + uint64(i), Kind: f.Kind, Ref: refOf(&f.Fanout, f.To[i]), Note: f.Note, At: f.at, Record: f.record,
	}
}

func refOf(w *journal.Fanout, seat parley.Seat) parley.AnyID {
	if w.Kind == journal.CopyEntry {
		return parley.AnyID(parley.Copy(parley.MessageID(w.Ref), seat.Number))
	}
	return w.Ref
}

// blockIn is how many of the first seats are of one block.
func blockIn(to []parley.Seat) int {
	for i := range to {
		if layout.Chunk(to[i].Number) != layout.Chunk(to[0].Number) {
			return i
		}
	}
	return len(to)
}

// fanOut carries out a word to many: the first block of those who live here in
// this batch, all else by lanes, block by block.
func (a *application) fanOut(it *item, w journal.Fanout, at int64) error {
	broadcast := w.Kind == journal.CopyEntry
	for to := w.To; len(to) > 0; {
		n := blockIn(to)
		block := layout.Chunk(to[0].Number)
		for home, seats := range a.split(to[:n]) {
			if len(seats) == 0 {
				continue
			}
			part := w
			part.To = seats
			if home != a.j.number || !it.directly(block) {
				it.packMany(a.j.number, home, block, part)
				continue
			}
			if err := a.fan(it, part, at); err != nil {
				return err
			}
		}
		if broadcast && a.j.store.homes > 1 {
			if err := a.noteElsewhere(parley.MessageID(w.Ref), to[:n]); err != nil {
				return err
			}
		}
		to = to[n:]
	}
	return nil
}

// split sorts seats by the homes of their agents.
func (a *application) split(to []parley.Seat) [][]parley.Seat {
	s := a.j.store
	if a.parts == nil {
		a.parts = make([][]parley.Seat, s.homes)
	}
	if s.homes == 1 {
		a.parts[0] = to
		return a.parts
	}
	sizes := make([]int, s.homes)
	for i := range to {
		sizes[s.homes.Of(to[i].Agent.Slot())]++
	}
	all := make([]parley.Seat, len(to))
	for home, n := range sizes {
		a.parts[home], all = all[:0:n], all[n:]
	}
	for _, seat := range to {
		home := s.homes.Of(seat.Agent.Slot())
		a.parts[home] = append(a.parts[home], seat)
	}
	return a.parts
}

// directly reports whether a block of those who live here is written in the
// entry's own batch: the first, if nothing that the stream said is under way to
// this home still.
func (it *item) directly(block uint32) bool {
	if it.behind {
		return false
	}
	if !it.began {
		it.began, it.block = true, block
	}
	return block == it.block
}

// fan writes what a part of a word to many is for those who live here: all of
// one block.
func (a *application) fan(it *item, w journal.Fanout, at int64) error {
	f := fanned{Fanout: w, first: a.counter + 1, at: at}
	a.counter += uint64(len(w.To))
	if w.Kind == journal.CopyEntry {
		if err := a.keepBroadcast(it, &f); err != nil {
			return err
		}
	}
	for _, i := range a.bySlot(w.To) {
		if err := a.fanOne(&f, int(uint16(i))); err != nil {
			return err
		}
	}
	it.fanned = append(it.fanned, f)
	if w.AddToList.Zero() {
		return nil
	}
	for i := range w.To {
		if err := a.addToList(w.To[i].Agent, w.AddToList); err != nil {
			return err
		}
	}
	return nil
}

// bySlot gives the places of seats, in the low halves of numbers, in the order in
// which their feeds lie: neighbours go into the engine's memory with less search.
func (a *application) bySlot(to []parley.Seat) []uint32 {
	a.order = a.order[:0]
	for i := range to {
		a.order = append(a.order, uint32(to[i].Agent.Slot())<<16|uint32(i))
	}
	slices.Sort(a.order)
	return a.order
}

// fanOne writes the feed entry of one seat. That a copy was not carried yet is
// noted nowhere: it has no marks.
func (a *application) fanOne(f *fanned, i int) error {
	agent, position, ref := f.To[i].Agent, f.first+uint64(i), refOf(&f.Fanout, f.To[i])
	op := a.batch.SetDeferred(layout.FeedKeyBytes, layout.FeedBytes+len(f.Note))
	layout.PutFeedKey(op.Key, layout.FeedFamily, agent, position)
	layout.PutFeed(op.Value, f.Kind, f.at, ref, f.Note)
	return op.Finish()
}

// keepBroadcast writes the chunk row of copies that go into feeds here, and the
// broadcast's record if it came with them by lane.
func (a *application) keepBroadcast(it *item, f *fanned) error {
	id := parley.MessageID(f.Ref)
	slot := a.j.store.homes.BroadcastSlot(a.j.number, id)
	f.record = it.record(id)
	if it.outbox != nil {
		if f.record != nil {
			if err := a.writeRecord(slot, journal.Record{ID: id, Data: f.record}, 0); err != nil {
				return err
			}
		} else {
			f.record = it.outbox.text
		}
	}
	return a.writeChunk(slot, id, f.first, f.To)
}

// noteElsewhere keeps, where a broadcast lives, to whom its copies went that live
// elsewhere: of one block.
func (a *application) noteElsewhere(id parley.MessageID, block []parley.Seat) error {
	var far []parley.Seat
	for _, seat := range block {
		if a.j.store.home(seat.Agent.Slot()) != a.j {
			far = append(far, seat)
		}
	}
	if len(far) == 0 {
		return nil
	}
	return a.writeChunk(a.j.store.homes.BroadcastSlot(a.j.number, id), id, 0, far)
}

func (a *application) writeChunk(slot parley.Slot, id parley.MessageID, first uint64, to []parley.Seat) error {
	k := layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(id, to[0].Number))
	op := a.batch.SetDeferred(len(k), 8+layout.SeatBytes*len(to))
	copy(op.Key, k)
	binary.BigEndian.PutUint64(op.Value, first)
	layout.AppendSeats(op.Value[:8], to)
	return op.Finish()
}

// Broadcast calls read with a broadcast's record as kept at reader's home. The
// record is only valid during the call, which is not made where there is none.
func (v *storeView) Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error) {
	if v.rows == nil {
		return false, journal.ErrClosed
	}
	return v.record(v.store.homes.BroadcastSlot(v.store.homes.Of(reader), id), id, func(_ uint64, record []byte) error { return read(record) })
}

// Copies calls fn with those to whom copies of a broadcast went, as kept at
// reader's home, block by block, until it returns false. The broadcast's home
// knows of all copies. The seats are only valid during the call.
func (v *storeView) Copies(reader parley.Slot, broadcast parley.MessageID, fn func(to []parley.Seat) bool) error {
	if v.rows == nil {
		return journal.ErrClosed
	}
	slot := v.store.homes.BroadcastSlot(v.store.homes.Of(reader), broadcast)
	low := layout.MessageKey(layout.CopiesFamily, slot, broadcast)
	high := layout.After(layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(broadcast, ^uint32(0))))
	seats := make([]parley.Seat, 0, journal.FanoutChunk)
	return v.scan(low, high, false, func(_, value []byte) (bool, error) {
		c, err := layout.DecodeCopies(value)
		if err != nil {
			return false, err
		}
		seats = seats[:0]
		for i := range c.Len() {
			seats = append(seats, c.Seat(i))
		}
		return fn(seats), nil
	})
}

// Copy tells to whom a copy of a broadcast went, as kept at reader's home, and
// where it is in that agent's feed: position 0 if that lives elsewhere. The
// broadcast's home knows of all copies, others of those to who lives there.
func (v *storeView) Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error) {
	if v.rows == nil {
		return to, 0, false, journal.ErrClosed
	}
	broadcast, seat := id.Broadcast(), id.Seat()
	if seat == 0 { // which nobody has
		return to, 0, false, nil
	}
	slot := v.store.homes.BroadcastSlot(v.store.homes.Of(reader), broadcast)
	low := layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(broadcast, layout.Chunk(seat)*journal.FanoutChunk+1))
	high := layout.After(layout.MessageKey(layout.CopiesFamily, slot, id))
	// Of one block there is a row of those who live here and perhaps another.
	err = v.scan(low, high, true, func(_, value []byte) (bool, error) {
		c, err := layout.DecodeCopies(value)
		if err != nil {
			return false, err
		}
		if i := c.Find(seat); i >= 0 {
			to, position, found = c.Seat(i).Agent, c.Position(i), true
		}
		return !found, nil
	})
	return to, position, found, err
}
