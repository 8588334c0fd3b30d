package persistence

import (
	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Broadcast calls read with the record of a broadcast as stored at reader's home.
// The record is only valid during the call. Without a record, read is not called.
func (v messagesAt) Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error) {
	if v.rows == nil {
		return false, journal.ErrClosed
	}
	return v.record(v.store.homes.BroadcastSlot(v.store.homes.Of(reader), id), id, func(_ uint64, record []byte) error { return read(record) })
}

// Copies calls fn with the recipients of a broadcast's copies, as stored at
// reader's home, chunk by chunk, until it returns false. The broadcast's home lists
// all copies, another home those of its own agents. The seats are only valid during
// the call.
func (v messagesAt) Copies(reader parley.Slot, broadcast parley.MessageID, fn func(to []parley.Seat) bool) error {
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

// Copy returns the recipient of a copy and its position in that agent's feed, as
// stored at reader's home. The position is 0 if the agent lives in another journal.
func (v messagesAt) Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error) {
	if v.rows == nil {
		return to, 0, false, journal.ErrClosed
	}
	broadcast, seat := id.Broadcast(), id.Seat()
	if seat == 0 { // seats are counted from 1
		return to, 0, false, nil
	}
	slot := v.store.homes.BroadcastSlot(v.store.homes.Of(reader), broadcast)
	low := layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(broadcast, layout.Chunk(seat)*journal.FanoutChunk+1))
	high := layout.After(layout.MessageKey(layout.CopiesFamily, slot, id))
	// A chunk has one row for the agents of this home, and perhaps one for the
	// others.
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
