package directory

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// termTable numbers the terms of a checkpoint. A term is at the slot of its hash or after
// it. The number of slots is a power of two, and at least half of them are empty. Most
// terms have up to eight bytes; for them a slot tells all, so that finding one reads
// memory in one place.
type termTable struct {
	seed   maphash.Seed
	secret [2]uint64
	slots  []termSlot
	texts  []string
}

// termSlot is empty if size is 0.
type termSlot struct {
	hash, begin uint64 // begin is the first eight bytes
	number      uint32
	size        uint32
}

func newTermTable() termTable {
	return termTable{seed: maphash.MakeSeed(), secret: [2]uint64{rand.Uint64(), rand.Uint64()}, slots: make([]termSlot, 1<<12)}
}

// number returns the number of a term, which is not empty and has room for eight bytes
// behind it. A new term gets the next number.
func (t *termTable) number(text []byte) uint32 {
	size := uint32(len(text))
	begin := binary.LittleEndian.Uint64(text[:8:cap(text)])
	var hash uint64
	if size <= 8 {
		begin &= ^uint64(0) >> (64 - 8*size)
		high, low := bits.Mul64(begin^t.secret[0], uint64(size)^t.secret[1])
		hash = high ^ low
	} else {
		hash = maphash.Bytes(t.seed, text)
	}
	last := uint64(len(t.slots) - 1)
	for i := hash; ; i++ {
		slot := &t.slots[i&last]
		if slot.size == 0 {
			*slot = termSlot{hash, begin, uint32(len(t.texts)), size}
			t.texts = append(t.texts, string(text))
			if 2*len(t.texts) > len(t.slots) {
				t.grow()
			}
			return uint32(len(t.texts) - 1)
		}
		if slot.hash == hash && slot.begin == begin && slot.size == size && (size <= 8 || t.texts[slot.number] == string(text)) {
			return slot.number
		}
	}
}

func (t *termTable) grow() {
	former := t.slots
	t.slots = make([]termSlot, 4*len(former))
	last := uint64(len(t.slots) - 1)
	for _, s := range former {
		if s.size == 0 {
			continue
		}
		i := s.hash
		for t.slots[i&last].size != 0 {
			i++
		}
		t.slots[i&last] = s
	}
}

// carver takes short lists from longer pieces of memory, which costs the collector less
// than an allocation for each.
type carver struct{ free []byte }

const (
	carvedBytes    = 32 << 10
	carvedBytesMax = 1 << 10
)

// take returns an empty list with room for n bytes.
func (c *carver) take(n int) []byte {
	if n > carvedBytesMax {
		return make([]byte, 0, n)
	}
	if n > len(c.free) {
		c.free = make([]byte, carvedBytes)
	}
	b := c.free[:0:n]
	c.free = c.free[n:]
	return b
}
