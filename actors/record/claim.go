package record

import (
	"encoding/binary"

	"parley/client/parley"
)

// claimLen is the length of a claim: no message, the holder, a number.
const claimLen = 40

// Claim returns the value of a row in journal.OnceTable that says which agent of an
// organization sends with a key, and how often the key was claimed.
func Claim(holder parley.AgentID, turn uint64) []byte {
	b := append(make([]byte, 16, claimLen), holder[:]...)
	return binary.BigEndian.AppendUint64(b, turn)
}

// ReadClaim reads a claim; ok is false for every other value.
func ReadClaim(value []byte) (holder parley.AgentID, turn uint64, ok bool) {
	if len(value) != claimLen || [16]byte(value) != [16]byte{} {
		return holder, 0, false
	}
	return parley.IDFromBytes[parley.AgentID](value[16:32]), binary.BigEndian.Uint64(value[32:]), true
}
