package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"parley/client/parley"
)

// KeyPackageHash identifies an MLS KeyPackage: the first 16 bytes of its SHA-256.
type KeyPackageHash [16]byte

// HashKeyPackage returns the hash of a KeyPackage without an MLSMessage around it.
func HashKeyPackage(bare []byte) (h KeyPackageHash) {
	sum := sha256.Sum256(bare)
	copy(h[:], sum[:])
	return h
}

// KeyPackageKey is the key of a row of journal.KeyPackageTable. In the order of the rows,
// KeyPackages that expire earlier come first.
type KeyPackageKey struct {
	Agent parley.AgentID
	// LastResort: it is the agent's KeyPackage of last resort.
	LastResort bool
	// NotAfter is the end of its lifetime, in Unix seconds.
	NotAfter uint64
	// Suite is the number of its cipher suite.
	Suite uint16
	Hash  KeyPackageHash
}

// keyPackageKeyLen is the length of an encoded KeyPackageKey, and handedOutKeyLen that of
// the key of a row of journal.HandedOutTable.
const (
	keyPackageKeyLen = 16 + 1 + 8 + 2 + 16
	handedOutKeyLen  = 16 + 8 + 16
)

// KeyPackagesOf returns the beginning of the keys of an agent's KeyPackages: of that of
// last resort, or of all others.
func KeyPackagesOf(agent parley.AgentID, lastResort bool) []byte {
	key := append(make([]byte, 0, keyPackageKeyLen), agent[:]...)
	if lastResort {
		return append(key, 1)
	}
	return append(key, 0)
}

// Bytes encodes the key.
func (k KeyPackageKey) Bytes() []byte {
	key := binary.BigEndian.AppendUint64(KeyPackagesOf(k.Agent, k.LastResort), k.NotAfter)
	return append(binary.BigEndian.AppendUint16(key, k.Suite), k.Hash[:]...)
}

// ParseKeyPackageKey decodes a key. It reports false for one that Bytes does not write.
func ParseKeyPackageKey(key []byte) (k KeyPackageKey, ok bool) {
	if len(key) != keyPackageKeyLen || key[16] > 1 {
		return k, false
	}
	k = KeyPackageKey{
		Agent: parley.IDFromBytes[parley.AgentID](key[:16]), LastResort: key[16] == 1,
		NotAfter: binary.BigEndian.Uint64(key[17:]), Suite: binary.BigEndian.Uint16(key[25:]),
	}
	copy(k.Hash[:], key[27:])
	return k, true
}

// HandedOut returns the key of the row of journal.HandedOutTable that says that the
// KeyPackage was claimed.
func (k KeyPackageKey) HandedOut() []byte {
	key := append(make([]byte, 0, handedOutKeyLen), k.Agent[:]...)
	return append(binary.BigEndian.AppendUint64(key, k.NotAfter), k.Hash[:]...)
}

// IsKeyPackageKey reports whether a key has the form of those of journal.KeyPackageTable.
func IsKeyPackageKey(key []byte) bool {
	_, ok := ParseKeyPackageKey(key)
	return ok
}

// IsHandedOutKey reports whether a key has the form of those of journal.HandedOutTable.
func IsHandedOutKey(key []byte) bool {
	_, ok := HandedOutUntil(key)
	return ok
}

// HandedOutUntil returns the end of the lifetime of a KeyPackage that was claimed, in Unix
// seconds. It reports false for a key that HandedOut does not write.
func HandedOutUntil(key []byte) (notAfter uint64, ok bool) {
	if len(key) != handedOutKeyLen {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[16:]), true
}

// Of reports whether stored is the KeyPackage that the key is of, bare or in an
// MLSMessage, which is four bytes longer. source: RFC 9420 6
func (k KeyPackageKey) Of(stored []byte) bool {
	inMessage, message := bytes.CutPrefix(stored, []byte{0, 1, 0, 5})
	return HashKeyPackage(stored) == k.Hash || message && HashKeyPackage(inMessage) == k.Hash
}
