package layout

import "parley/client/parley"

// Homes is the number of journals of a directory, from 1 to parley.Slots. It alone
// decides which journal is the home of a slot, and so where a row is stored. Each
// journal is the home of a contiguous range of slots; the ranges differ in size by at
// most one slot.
type Homes int

// Of is the journal that is the home of a slot.
func (h Homes) Of(slot parley.Slot) int { return int(slot) * int(h) / parley.Slots }

// First is the first slot of a journal's range. First of the number of journals is
// parley.Slots, the end of the last range.
func (h Homes) First(journal int) parley.Slot {
	return parley.Slot((journal*parley.Slots + int(h) - 1) / int(h))
}

// Same reports whether two slots have the same home.
func (h Homes) Same(a, b parley.Slot) bool { return h.Of(a) == h.Of(b) }

// Residence is the slot under which a message is stored for a reader at slot: the
// message's own if both have the same home.
func (h Homes) Residence(slot parley.Slot, m parley.MessageID) parley.Slot {
	if h.Same(slot, m.Slot()) {
		return m.Slot()
	}
	return slot
}

// BroadcastSlot is the slot under which a journal stores a broadcast and the list
// of its copies: the message's own if the journal is its home, else one slot for
// all broadcasts.
func (h Homes) BroadcastSlot(journal int, broadcast parley.MessageID) parley.Slot {
	if h.Of(broadcast.Slot()) == journal {
		return broadcast.Slot()
	}
	return h.First(journal)
}
