package raftlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

const (
	headerBytes = 32
	// entryBytes bounds what the encoding of an entry takes in addition to its data.
	entryBytes = 1 + 2*binary.MaxVarintLen64
	// turnBytes bounds what the encoding of a turn takes in addition to its entries.
	turnBytes = 2 + 8*binary.MaxVarintLen64
)

// The kinds of payloads are their first byte. A change of the format takes a new kind.
const (
	kindBase = 1
	kindTurn = 2
)

// The second byte of a turn says which parts it has.
const (
	hasHard = 1 << iota
	hasCut
	hasReset
	hasEntries
	hasNote
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Position identifies an entry.
type Position struct{ Index, Term uint64 }

// hardState is a raftpb.HardState that can be compared.
type hardState struct{ term, vote, commit uint64 }

// turn is one decoded record: a cut, then entries, and a note.
type turn struct {
	hard  hardState
	cut   Position
	parts byte
	first uint64 // of the entries
	// entries have consecutive indexes.
	entries []*raftpb.Entry
	note    string
}

// summary is what a base record says: the state before it.
type summary struct {
	hard hardState
	cut  Position
	last uint64
	note string
}

// seedOf begins the checksums of a segment, so that bytes of another segment or of
// another log are not taken for its records.
func seedOf(id, segment uint64) uint32 {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, id), segment)
	return crc32.Checksum(b, castagnoli)
}

// frame fills in the header of the record b, which follows prior, and returns its head.
func frame(b []byte, prior disk.Head, synced uint64, seed uint32) disk.Head {
	binary.BigEndian.PutUint32(b, uint32(len(b)-headerBytes))
	prior.Append(b[8:8])
	binary.BigEndian.PutUint64(b[24:], synced)
	binary.BigEndian.PutUint32(b[4:], checksum(b, seed))
	return prior.Next(b[:headerBytes])
}

func checksum(b []byte, seed uint32) uint32 {
	return crc32.Update(crc32.Update(seed, castagnoli, b[:4]), castagnoli, b[8:])
}

// stored is a record as it was read; its checksum is right.
type stored struct {
	prior, head disk.Head
	synced      uint64
	payload     []byte
}

// recordBytes is the size of the record that begins with header. 0 says that there is none.
func recordBytes(header []byte) int64 {
	if n := binary.BigEndian.Uint32(header); n > 0 {
		return headerBytes + int64(n)
	}
	return 0
}

// unframe reads the record that is all of b.
func unframe(b []byte, seed uint32) (stored, bool) {
	if binary.BigEndian.Uint32(b[4:]) != checksum(b, seed) {
		return stored{}, false
	}
	prior, err := disk.DecodeHead(b[8:24])
	return stored{prior, prior.Next(b[:headerBytes]), binary.BigEndian.Uint64(b[24:]), b[headerBytes:]}, err == nil
}

func (h hardState) append(b []byte) []byte { return appendNumbers(b, h.term, h.vote, h.commit) }

func (p Position) append(b []byte) []byte { return appendNumbers(b, p.Index, p.Term) }

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func (s summary) append(b []byte) []byte {
	b = appendNumbers(s.cut.append(s.hard.append(append(b, kindBase))), s.last)
	return append(b, s.note...)
}

func decodeBase(b []byte) (summary, bool) {
	d := decoder{b: b}
	kind := d.byte()
	s := summary{hard: d.hard(), cut: d.position(), last: d.number()}
	s.note = string(d.bytes(uint64(len(d.b))))
	return s, kind == kindBase && d.done()
}

func (t turn) append(b []byte) []byte {
	b = append(b, kindTurn, t.parts)
	if t.parts&hasHard != 0 {
		b = t.hard.append(b)
	}
	if t.parts&hasCut != 0 {
		b = t.cut.append(b)
	}
	if t.parts&hasNote != 0 {
		b = append(appendNumbers(b, uint64(len(t.note))), t.note...)
	}
	if t.parts&hasEntries == 0 {
		return b
	}
	b = appendNumbers(b, t.first, uint64(len(t.entries)))
	for _, e := range t.entries {
		// Unset fields differ from zero ones: both survive.
		kind, size := byte(0), uint64(0)
		if e.Type != nil {
			kind = byte(e.GetType()) + 1
		}
		if e.Data != nil {
			size = uint64(len(e.Data)) + 1
		}
		b = append(appendNumbers(append(b, kind), e.GetTerm(), size), e.Data...)
	}
	return b
}

// decodeTurn reads what append wrote. The data of the entries lies in b.
func decodeTurn(b []byte) (turn, error) {
	d := decoder{b: b}
	kind := d.byte()
	t := turn{parts: d.byte()}
	if t.parts&hasHard != 0 {
		t.hard = d.hard()
	}
	if t.parts&hasCut != 0 {
		t.cut = d.position()
	}
	if t.parts&hasNote != 0 {
		t.note = string(d.bytes(d.number()))
	}
	if t.parts&hasEntries != 0 {
		t.first = d.number()
		count := d.number()
		d.bad = d.bad || count == 0 || count > uint64(len(d.b)) // each takes a few bytes
		for i := uint64(0); i < count && !d.bad; i++ {
			t.entries = append(t.entries, d.entry(t.first+i))
		}
	}
	if kind != kindTurn || !d.done() {
		return turn{}, fmt.Errorf("%w: a record with a right checksum cannot be decoded", disk.ErrDamaged)
	}
	return t, nil
}

// decoder reads numbers. After the first error it is bad and returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) done() bool { return !d.bad && len(d.b) == 0 }

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) hard() hardState { return hardState{d.number(), d.number(), d.number()} }

func (d *decoder) position() Position { return Position{d.number(), d.number()} }

func (d *decoder) entry(index uint64) *raftpb.Entry {
	kind, term, size := d.byte(), d.number(), d.number()
	e := &raftpb.Entry{Index: new(index), Term: new(term)}
	if kind > 0 {
		e.Type = raftpb.EntryType(kind - 1).Enum()
	}
	if size > 0 {
		e.Data = d.bytes(size - 1)
	}
	return e
}
