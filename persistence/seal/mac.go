package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// MACBytes is the length of a keyed hash.
const MACBytes = 16

// keptBytesMax is the size of the buffers that are kept for the next hash.
const keptBytesMax = 4096

// MAC returns a keyed hash of the parts, for use in row keys in place of idempotency
// keys, names and slugs: HMAC-SHA256 under the server key, cut to 16 bytes. Hashes of
// different purposes have nothing in common, and ("ab", "c") differs from ("a", "bc").
// It is the same in every process that has the server key, for ever.
func (s *Sealer) MAC(purpose string, parts ...[]byte) [MACBytes]byte {
	h := s.hashes.get()
	defer s.hashes.put(h)
	h.input = appendPart(h.input[:0], purpose)
	for _, part := range parts {
		h.input = appendPart(h.input, part)
	}
	h.mac.Reset()
	h.mac.Write(h.input)
	return [MACBytes]byte(h.mac.Sum(h.sum[:0]))
}

// appendPart appends a text with its length in front, so that two lists of parts never
// give the same bytes.
func appendPart[T string | []byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

// hashes keeps HMACs that have processed their key.
type hashes struct {
	key  [keyBytes]byte
	pool sync.Pool
}

type keyedHash struct {
	mac   hash.Hash
	input []byte
	sum   [sha256.Size]byte
}

func (p *hashes) get() *keyedHash {
	if h, ok := p.pool.Get().(*keyedHash); ok {
		return h
	}
	return &keyedHash{mac: hmac.New(sha256.New, p.key[:])}
}

func (p *hashes) put(h *keyedHash) {
	if cap(h.input) <= keptBytesMax {
		p.pool.Put(h)
	}
}
