package seal

import (
	"bytes"
	"encoding/binary"

	"parley/client/parley"
)

// The first byte of an envelope: the version in the upper four bits, and in the lower
// ones who owns the content. docs/decisions/0017-keys.md shows the whole layout.
const (
	formSingle = 0x11 // one organization: its id
	formInner  = 0x12 // a pair within one organization: its id
	formPair   = 0x13 // two organizations: the lower id, the higher id
)

const idBytes = len(parley.OrgID{})

// Owners says under whose keys content is sealed: those of one organization, or of a
// pair. Values are comparable. The zero Owners has no keys.
type Owners struct {
	form      byte
	low, high parley.OrgID
}

// Single returns the owners of content that belongs to one organization.
func Single(org parley.OrgID) Owners {
	return Owners{form: formSingle, low: org, high: org}
}

// Pair returns the owners of content that two organizations share, such as a message
// from one to the other. The order does not matter. Both may be the same organization,
// which is different from Single.
func Pair(a, b parley.OrgID) Owners {
	switch bytes.Compare(a[:], b[:]) {
	case 0:
		return Owners{form: formInner, low: a, high: a}
	case 1:
		a, b = b, a
	}
	return Owners{form: formPair, low: a, high: b}
}

// OwnersOf reads the owners of an envelope, without a key and without authenticating
// them. The only error is ErrDamaged.
func OwnersOf(envelope []byte) (Owners, error) {
	owners, _, _, err := parse(envelope)
	return owners, err
}

// Orgs returns the ids of the owners in ascending order. They are equal unless the
// owners are two organizations.
func (o Owners) Orgs() (low, high parley.OrgID) { return o.low, o.high }

// Has reports whether an organization is one of the owners.
func (o Owners) Has(org parley.OrgID) bool { return o.form != 0 && (o.low == org || o.high == org) }

// SealedLen returns the length of the envelope of n bytes of plaintext.
func (o Owners) SealedLen(n int) int { return o.headerLen() + nonceBytes + n + tagBytes }

func (o Owners) headerLen() int {
	if o.form == formPair {
		return 1 + 2*idBytes
	}
	return 1 + idBytes
}

// appendHeader appends what an envelope begins with.
func (o Owners) appendHeader(b []byte) []byte {
	b = append(append(b, o.form), o.low[:]...)
	if o.form == formPair {
		b = append(b, o.high[:]...)
	}
	return b
}

// info is the input that separates the derived keys of different owners.
func (o Owners) info() string {
	if o.form == formSingle {
		return "single" + string(o.low[:])
	}
	return "pair" + string(o.low[:]) + string(o.high[:])
}

// shard is the part of the cache that holds the cipher of the owners. It depends on the
// random halves of both ids.
func (o Owners) shard() uint64 {
	h := binary.BigEndian.Uint64(o.low[8:])*0x9E3779B97F4A7C15 + binary.BigEndian.Uint64(o.high[8:])*0xC2B2AE3D27D4EB4F
	return h >> (64 - cacheShardBits)
}

// parse divides an envelope into owners, nonce and ciphertext with tag. Each owners
// has one spelling. The only error is ErrDamaged.
func parse(envelope []byte) (owners Owners, nonce, sealed []byte, err error) {
	if len(envelope) == 0 {
		return Owners{}, nil, nil, ErrDamaged
	}
	owners.form = envelope[0]
	header := owners.headerLen()
	if len(envelope) < owners.SealedLen(0) || len(envelope) > owners.SealedLen(PlaintextMax) {
		return Owners{}, nil, nil, ErrDamaged
	}
	owners.low = parley.OrgID(envelope[1:])
	switch owners.form {
	case formSingle, formInner:
		owners.high = owners.low
	case formPair:
		owners.high = parley.OrgID(envelope[1+idBytes:])
		if bytes.Compare(owners.low[:], owners.high[:]) >= 0 {
			return Owners{}, nil, nil, ErrDamaged
		}
	default:
		return Owners{}, nil, nil, ErrDamaged
	}
	return owners, envelope[header:][:nonceBytes], envelope[header+nonceBytes:], nil
}
