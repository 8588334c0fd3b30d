package rows

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Message calls read with a message's record as stored for a reader at slot, and
// returns the message's position in the feed of a recipient who lives there. The
// record is only valid during the call. Without a record, read is not called.
func (v MessageReader) Message(slot parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error) {
	if v.Reader == nil {
		return 0, journal.ErrClosed
	}
	_, err = v.record(v.Homes.Residence(slot, id), id, func(at uint64, record []byte) error {
		position = at
		return read(record)
	})
	return position, err
}

// record calls read with the record of a message that is stored under slot, if
// there is one.
func (v MessageReader) record(slot parley.Slot, id parley.MessageID, read func(position uint64, record []byte) error) (found bool, err error) {
	value, closer, err := v.Reader.Get(layout.MessageKey(layout.RecordFamily, slot, id))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case len(value) < 8: // or it could not be fetched: then Close says why
		return true, cmp.Or(closer.Close(), fmt.Errorf("record of %d bytes", len(value)))
	}
	err = read(layout.Number(value), value[8:])
	return true, errors.Join(err, closer.Close())
}

// Broadcast calls read with the record of a broadcast as stored at reader's home.
// The record is only valid during the call. Without a record, read is not called.
func (v MessageReader) Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error) {
	if v.Reader == nil {
		return false, journal.ErrClosed
	}
	return v.record(v.Homes.BroadcastSlot(v.Homes.Of(reader), id), id, func(_ uint64, record []byte) error { return read(record) })
}

// Copies calls fn with the recipients of a broadcast's copies, as stored at
// reader's home, chunk by chunk, until it returns false. The broadcast's home lists
// all copies, another home those of its own agents. The seats are only valid during
// the call.
func (v MessageReader) Copies(reader parley.Slot, broadcast parley.MessageID, fn func(to []parley.Seat) bool) error {
	if v.Reader == nil {
		return journal.ErrClosed
	}
	slot := v.Homes.BroadcastSlot(v.Homes.Of(reader), broadcast)
	low := layout.MessageKey(layout.CopiesFamily, slot, broadcast)
	high := layout.After(layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(broadcast, ^uint32(0))))
	seats := make([]parley.Seat, 0, journal.FanoutChunk)
	return v.Scan(low, high, false, func(_, value []byte) (bool, error) {
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
func (v MessageReader) Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error) {
	if v.Reader == nil {
		return to, 0, false, journal.ErrClosed
	}
	broadcast, seat := id.Broadcast(), id.Seat()
	if seat == 0 { // seats are counted from 1
		return to, 0, false, nil
	}
	slot := v.Homes.BroadcastSlot(v.Homes.Of(reader), broadcast)
	low := layout.MessageKey(layout.CopiesFamily, slot, parley.Copy(broadcast, layout.Chunk(seat)*journal.FanoutChunk+1))
	high := layout.After(layout.MessageKey(layout.CopiesFamily, slot, id))
	// A chunk has one row for the agents of this home, and perhaps one for the
	// others.
	err = v.Scan(low, high, true, func(_, value []byte) (bool, error) {
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
