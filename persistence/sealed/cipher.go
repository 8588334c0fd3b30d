package sealed

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/seal"
)

// ErrDamaged is the error of a read: the content cannot be opened although its owners
// have their keys.
var ErrDamaged = errors.New("stored content is damaged")

// Families of rows, which envelopes are bound to. The letters are stored: they never
// change.
const (
	eventFamily  = 'E'
	stateFamily  = 'S'
	recordFamily = 'B'
	rowFamily    = 'T'
)

// sealedTag marks the tag of an event that is sealed.
const sealedTag = 0x80

// hashes of the Sealer are made for these purposes. The words are stored: they never
// change.
const (
	rowPurpose      = "row"
	slugPurpose     = "slug"
	workloadPurpose = "workload"
)

// cipher seals, opens and hashes for one sealer.
type cipher struct{ sealer *seal.Sealer }

// identity names what a content is about.
type identity struct {
	bytes [1 + 16 + 8 + 1]byte
	size  int
}

func (x *identity) slice() []byte { return x.bytes[:x.size] }

// ofState includes the number of events in a state, which is stored in the clear.
func ofState(s journal.Stream, seq uint64) (x identity) {
	x.bytes[0] = byte(s.Kind)
	copy(x.bytes[1:], s.ID[:])
	binary.BigEndian.PutUint64(x.bytes[17:], seq)
	x.size = 25
	return x
}

// ofEvent includes the number of the event's type, which is stored in the clear.
func ofEvent(s journal.Stream, seq uint64, tag byte) identity {
	x := ofState(s, seq)
	x.bytes[x.size] = tag
	x.size++
	return x
}

// ofRecord includes the header, which is stored in the clear.
func ofRecord(id parley.MessageID, header []byte) []byte {
	return append(append(make([]byte, 0, len(id)+len(header)), id[:]...), header...)
}

func ofRow(table journal.Table, key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), byte(table)), key...)
}

func ownersOf(o journal.Owners) seal.Owners {
	if o.B.Zero() {
		return seal.Single(o.A)
	}
	return seal.Pair(o.A, o.B)
}

// errNobody rejects an entry whose content would be stored in the clear, which is a
// defect of the code that built it.
var errNobody = errors.New("an entry has content that belongs to nobody")

// seal appends the envelope of a content to dst. The error is journal.ErrErased, or a
// defect.
func (c cipher) seal(dst, content []byte, owners journal.Owners, family byte, identity []byte) ([]byte, error) {
	if owners.A.Zero() {
		return nil, errNobody
	}
	sealed, err := c.sealer.AppendSealed(dst, content, ownersOf(owners), family, identity)
	if errors.Is(err, seal.ErrErased) {
		return nil, journal.ErrErased
	}
	return sealed, err
}

// open appends the content of an envelope to dst. The error is journal.ErrErased or
// wraps ErrDamaged.
func (c cipher) open(dst, envelope []byte, family byte, identity []byte) ([]byte, error) {
	content, err := c.sealer.AppendOpened(dst, envelope, family, identity)
	switch {
	case err == nil:
		return content, nil
	case errors.Is(err, seal.ErrErased):
		return nil, journal.ErrErased
	}
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

// openEvent opens an event in place.
func (c cipher) openEvent(s journal.Stream, seq uint64, f *journal.StoredEvent) (err error) {
	if f.Tag&sealedTag == 0 {
		return nil
	}
	f.Tag &^= sealedTag
	id := ofEvent(s, seq, f.Tag)
	f.Data, err = c.openParts(nil, f.Data, s.Kind, eventFamily, id.slice())
	return err
}

// sealParts seals a state or an event of a kind of stream. If the kind has headers, it
// returns the length of the header (uvarint), the header, and the envelope of the content,
// unless there is no content.
func (c cipher) sealParts(data []byte, owners journal.Owners, kind journal.StreamKind, family byte, identity []byte) ([]byte, error) {
	if !kind.HasHeader() {
		return c.seal(nil, data, owners, family, identity)
	}
	header := data[:journal.HeaderLen(data)]
	stored := append(binary.AppendUvarint(nil, uint64(len(header))), header...)
	if len(header) == len(data) {
		return stored, nil
	}
	return c.seal(stored, data[len(header):], owners, family, append(identity, header...))
}

// openParts appends what sealParts sealed to dst. If the content was erased, it appends
// the header alone; the error is journal.ErrErased only for a kind without headers.
func (c cipher) openParts(dst, stored []byte, kind journal.StreamKind, family byte, identity []byte) ([]byte, error) {
	if !kind.HasHeader() {
		return c.open(dst, stored, family, identity)
	}
	header, envelope, err := split(stored)
	if err != nil {
		return nil, err
	}
	dst = append(dst, header...)
	if len(envelope) == 0 {
		return dst, nil
	}
	opened, err := c.open(dst, envelope, family, append(identity, header...))
	if errors.Is(err, journal.ErrErased) {
		return dst, nil
	}
	return opened, err
}

// hide returns the key of a row as it is stored: a name in it is replaced by its hash,
// which differs from table to table and from owner to owner, but not from day to day.
func (c cipher) hide(table journal.Table, key []byte) []byte {
	at := table.NameIn(key)
	if at == len(key) {
		return key
	}
	owner := key[:at]
	if table == journal.OnceTable {
		owner = key[4:at]
	}
	hash := c.sealer.MAC(rowPurpose, []byte{byte(table)}, owner, key[at:])
	return append(key[:at:at], hash[:]...)
}

// hideStream returns a stream as it is stored. The id of a stream that claims a name
// follows from the name; its hash keeps the slot.
func (c cipher) hideStream(s journal.Stream) journal.Stream {
	var purpose string
	switch s.Kind {
	case journal.SlugStream:
		purpose = slugPurpose
	case journal.WorkloadStream:
		purpose = workloadPurpose
	default:
		return s
	}
	hash := parley.AnyID(c.sealer.MAC(purpose, s.ID[:]))
	copy(hash[6:8], s.ID[6:8])
	s.ID = hash
	return s
}
