package verify

import (
	"encoding/binary"
	"fmt"

	"parley/client/parley"
	"parley/persistence/layout"
)

// copyAt adds a copy of a broadcast, with its position in the recipient's feed and
// the slot under which it is listed, to one side of the comparison of feeds and
// lists.
func (in *inspection) copyAt(slot parley.Slot, id parley.MessageID, agent parley.AgentID, position uint64, enter func(parley.Slot, uint64, ...[]byte)) {
	var b [42]byte
	binary.BigEndian.PutUint16(b[:], uint16(slot))
	copy(b[2:], id[:])
	copy(b[18:], agent[:])
	binary.BigEndian.PutUint64(b[34:], position)
	enter(slot, 1, b[:])
}

// expectListed expects the broadcast's home to list a copy that went to another
// home.
func (in *inspection) expectListed(id parley.MessageID, agent parley.AgentID) {
	if !in.homes.Same(id.Slot(), agent.Slot()) {
		in.copyAt(id.Slot(), id, agent, 0, in.copied.Expect)
	}
}

// chunk checks a list of copies: its slot, its seats, and that the broadcast's
// record is stored with it.
func (in *inspection) chunk(slot parley.Slot, k, value []byte) {
	first := parley.IDFromBytes[parley.MessageID](k[3:])
	broadcast := first.Broadcast()
	where := fmt.Sprintf("copies of broadcast %s, slot %d, from seat %d", broadcast, slot, first.Seat())
	c, err := layout.DecodeCopies(value)
	if err != nil {
		in.values.Fault(where, "%v cannot be read", err)
		return
	}
	in.owned(slot, in.homes.BroadcastSlot(in.homes.Of(slot), broadcast), where)
	if _, found, err := layout.Get(in.rows, layout.MessageKey(layout.RecordFamily, slot, broadcast)); err == nil && !found {
		in.copies.Fault(where, "the broadcast's record is missing: agents of this home cannot read their copies")
	}
	last := first.Seat()
	for i := range c.Len() {
		seat := c.Seat(i)
		if i == 0 != (seat.Number == last) || seat.Number < last || layout.Chunk(seat.Number) != layout.Chunk(first.Seat()) {
			in.copies.Fault(where, "seat %d is at place %d: a search does not find it", seat.Number, i)
		}
		last = seat.Number
		if c.First != 0 {
			in.position(slot, c.Position(i), where)
		}
		in.copyAt(slot, parley.Copy(broadcast, seat.Number), seat.Agent, c.Position(i), in.copied.Find)
	}
}

// settleCopies reports the copies that only a feed or only a list has.
func (in *inspection) settleCopies() {
	in.copied.Settle(func(member []byte, n int64) (where, means string) {
		slot, position := binary.BigEndian.Uint16(member), layout.Number(member[34:])
		id, agent := parley.IDFromBytes[parley.MessageID](member[2:18]), parley.IDFromBytes[parley.AgentID](member[18:34])
		where = fmt.Sprintf("copy %s for agent %s, slot %d", id, agent, slot)
		switch {
		case n > 0 && position != 0:
			return where, fmt.Sprintf("a feed has it at position %d, but the list of copies does not: it cannot be found by its id", position)
		case n > 0:
			return where, "it went to another home, but the broadcast's home does not list it: its sender cannot find it"
		case position != 0:
			return where, fmt.Sprintf("it is listed at position %d, but the feed does not have it there: it was never delivered", position)
		default:
			return where, "it is listed as sent to another home, but it is neither there nor under way: it was never delivered"
		}
	})
}
