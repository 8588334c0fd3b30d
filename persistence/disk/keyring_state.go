package disk

import (
	"encoding/binary"
	"fmt"
)

// KeyringName is the name of the keyring's directory in a store's directory.
const KeyringName = "keyring"

// KeyringShards is the number of shards of every keyring.
const KeyringShards = 256

// keyringStateMax is the size of the longest state in the witness.
const keyringStateMax = 16 + KeyringShards*binary.MaxVarintLen64

// KeyringState is what a keyring holds, without its keys: which keyring it is, and how
// often each shard was written. The zero value says nothing.
type KeyringState struct {
	// Identity is a random number that the keyring was made with.
	Identity [16]byte
	// Generations rise by at least 1 with every change of their shard, from 1.
	Generations [KeyringShards]uint64
}

// Known reports whether the state says anything.
func (s *KeyringState) Known() bool { return s.Identity != [16]byte{} }

// Check compares s, which was recorded as durable, with the state that was found. Shards
// may be newer, because the record lags. The error is ErrDamaged, and names the first
// shard that is older or lost: somebody put an old file back, and keys are missing or
// destroyed ones are there again. A state that says nothing accepts everything.
func (s *KeyringState) Check(found KeyringState) error {
	if !s.Known() {
		return nil
	}
	if s.Identity != found.Identity {
		return fmt.Errorf("%w: the keyring is not the one that belongs to this data directory", ErrDamaged)
	}
	first, older := -1, 0
	for i, generation := range s.Generations {
		if found.Generations[i] < generation {
			if older++; first < 0 {
				first = i
			}
		}
	}
	if older == 0 {
		return nil
	}
	more := ""
	if older > 1 {
		more = fmt.Sprintf("; %d more shards are too old", older-1)
	}
	return fmt.Errorf("%w: shard %02x of the keyring has generation %d, and generation %d was acknowledged: an old file is in its place%s",
		ErrDamaged, first, found.Generations[first], s.Generations[first], more)
}

// raise adds what another state of the same keyring has more. A state of another keyring
// takes its place.
func (s *KeyringState) raise(to KeyringState) (news bool) {
	if s.Identity != to.Identity {
		*s = to
		return true
	}
	for i, generation := range to.Generations {
		if generation > s.Generations[i] {
			s.Generations[i], news = generation, true
		}
	}
	return news
}

// append adds the state to a record of the witness: the identity, and, unless it is zero,
// the generations as varints, two bytes each up to 16,383 changes of a shard.
func (s *KeyringState) append(b []byte) []byte {
	b = append(b, s.Identity[:]...)
	if s.Known() {
		for _, generation := range s.Generations {
			b = binary.AppendUvarint(b, generation)
		}
	}
	return b
}

// decode reads what append wrote and returns the bytes after it.
func (s *KeyringState) decode(b []byte) (rest []byte, ok bool) {
	if len(b) < len(s.Identity) {
		return nil, false
	}
	b = b[copy(s.Identity[:], b):]
	if !s.Known() {
		return b, true
	}
	for i := range s.Generations {
		generation, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		s.Generations[i], b = generation, b[n:]
	}
	return b, true
}
