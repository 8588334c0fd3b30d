package journaltest

import (
	"math/bits"

	"parley/client/parley"
)

// SpreadSlot is the n-th of parley.Slots slots in an order that spreads neighbours
// over the homes: with 2 homes, n has home n%2; with 4 homes, 0 to 3 have the homes 0,
// 2, 1, 3.
func SpreadSlot(n int) parley.Slot {
	return parley.Slot(bits.Reverse16(uint16(n%parley.Slots)) >> 4)
}
