package verify

import (
	"encoding/binary"
	"fmt"

	"parley"
	"parley/persistence/layout"
)

// copyAt enters a copy of a broadcast in one of the two accounts: its place in
// its reader's feed, and the slot under which it is listed.
func (in *inspection) copyAt(slot parley.Slot, id parley.MessageID, agent parley.AgentID, position uint64, enter func(parley.Slot, uint64, ...[]byte)) {
	var b [42]byte
	binary.BigEndian.PutUint16(b[:], uint16(slot))
	copy(b[2:], id[:])
	copy(b[18:], agent[:])
	binary.BigEndian.PutUint64(b[34:], position)
	enter(slot, 1, b[:])
}

// oweElsewhere demands of the broadcast's home that it knows of a copy that went
// to another.
func (in *inspection) oweElsewhere(id parley.MessageID, agent parley.AgentID) {
	if !in.homes.Same(id.Slot(), agent.Slot()) {
		in.copyAt(id.Slot(), id, agent, 0, in.copied.Expect)
	}
}

// chunk judges a list of copies: where it lies, what is in it, and that the
// broadcast's record lies beside it.
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
		in.copies.Fault(where, "the broadcast's record is not there: those who live here cannot read their copies")
	}
	last := first.Seat()
	for i := range c.Len() {
		seat := c.Seat(i)
		if i == 0 != (seat.Number == last) || seat.Number < last || layout.Chunk(seat.Number) != layout.Chunk(first.Seat()) {
			in.copies.Fault(where, "seat %d stands at place %d: it is not found where it is looked for", seat.Number, i)
		}
		last = seat.Number
		if c.First != 0 {
			in.position(slot, c.Position(i), where)
		}
		in.copyAt(slot, parley.Copy(broadcast, seat.Number), seat.Agent, c.Position(i), in.copied.Find)
	}
}

// settleCopies names the copies that are on one account only.
func (in *inspection) settleCopies() {
	in.copied.Settle(func(member []byte, n int64) (where, means string) {
		slot, position := binary.BigEndian.Uint16(member), layout.Number(member[34:])
		id, agent := parley.IDFromBytes[parley.MessageID](member[2:18]), parley.IDFromBytes[parley.AgentID](member[18:34])
		where = fmt.Sprintf("copy %s for agent %s, slot %d", id, agent, slot)
		switch {
		case n > 0 && position != 0:
			return where, fmt.Sprintf("a feed has it at position %d, and it is not listed so: whoever names it does not find it", position)
		case n > 0:
			return where, "it went to another home, and where the broadcast lives it is not listed: its sender does not find it"
		case position != 0:
			return where, fmt.Sprintf("it is listed at position %d, and the feed does not have it there: it was never delivered", position)
		default:
			return where, "it is listed as sent to another home, and neither is it there nor on its way: it was never delivered"
		}
	})
}
