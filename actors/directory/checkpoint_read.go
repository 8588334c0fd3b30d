package directory

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"math"
	"slices"

	"parley"
)

// ReadCheckpoint returns the index that WriteCheckpoint wrote, and its mark. It leaves
// out vectors of another embedder or dimension than o names. open gets what seal
// returned; if it returns nil and no error, the cards of the block are left out: their
// organization is erased. Damage, also in what open returns, is ErrCheckpoint.
func ReadCheckpoint(from io.Reader, o Options, open func(parley.OrgID, []byte) ([]byte, error)) (*Index, []byte, error) {
	l := &loader{from: bufio.NewReaderSize(from, 1<<16), index: New(o), open: open, known: newTermTable()}
	mark, err := l.header()
	if err != nil {
		return nil, nil, err
	}
	for {
		more, err := l.block()
		if err != nil {
			return nil, nil, err
		}
		if !more {
			break
		}
	}
	l.next.settle()
	l.index.state.Store(l.next)
	return l.index, mark, nil
}

// loader reads a checkpoint into an index that no reader has.
type loader struct {
	from    *bufio.Reader
	index   *Index
	open    func(parley.OrgID, []byte) ([]byte, error)
	next    *state
	dim     int // of the stored vectors
	keep    bool
	cards   uint64
	content []byte
	// The rest is memory that records share.
	term     []byte
	numbered []uint64
	known    termTable
}

// termTable finds terms faster than the vocabulary does: one array, in which a term is at
// its hash or after it. The array's length is a power of two, and at least half of it is
// empty.
type termTable struct {
	seed  maphash.Seed
	slots []termSlot
	n     int
}

type termSlot struct {
	hash uint64
	term *term
}

func newTermTable() termTable {
	return termTable{seed: maphash.MakeSeed(), slots: make([]termSlot, 1<<10)}
}

// find returns a term, or nil, and where it is or belongs.
func (t *termTable) find(text []byte) (*term, *termSlot) {
	hash := maphash.Bytes(t.seed, text)
	for i := hash; ; i++ {
		slot := &t.slots[i&uint64(len(t.slots)-1)]
		if slot.term == nil {
			slot.hash = hash
			return nil, slot
		}
		if slot.hash == hash && slot.term.text == string(text) {
			return slot.term, slot
		}
	}
}

// add puts a term into the slot that find returned for it.
func (t *termTable) add(slot *termSlot, added *term) {
	slot.term = added
	if t.n++; 2*t.n < len(t.slots) {
		return
	}
	former := t.slots
	t.slots = make([]termSlot, 4*len(former))
	for _, s := range former {
		if s.term == nil {
			continue
		}
		i, last := s.hash, uint64(len(t.slots)-1)
		for t.slots[i&last].term != nil {
			i++
		}
		t.slots[i&last] = s
	}
}

// read returns n bytes and checks the checksum that follows them. sum is that of what
// precedes them in the part.
func (l *loader) read(n int, sum uint32) ([]byte, error) {
	l.content = slices.Grow(l.content[:0], n+4)[:n+4]
	if _, err := io.ReadFull(l.from, l.content); err != nil {
		return nil, notWhole(err)
	}
	if crc32.Update(sum, castagnoli, l.content[:n]) != binary.BigEndian.Uint32(l.content[n:]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrCheckpoint)
	}
	return l.content[:n], nil
}

func notWhole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: not whole", ErrCheckpoint)
	}
	return err
}

func (l *loader) header() ([]byte, error) {
	var fixed [len(checkpointMagic) + 6]byte
	if _, err := io.ReadFull(l.from, fixed[:]); err != nil {
		return nil, notWhole(err)
	}
	if string(fixed[:len(checkpointMagic)]) != checkpointMagic {
		return nil, fmt.Errorf("%w: another kind of file", ErrCheckpoint)
	}
	if version := binary.BigEndian.Uint16(fixed[len(checkpointMagic):]); version != checkpointVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrCheckpoint, version, checkpointVersion)
	}
	n := binary.BigEndian.Uint32(fixed[len(checkpointMagic)+2:])
	if n > blockBytesMax {
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrCheckpoint, n)
	}
	header, err := l.read(int(n), crc32.Checksum(fixed[:], castagnoli))
	if err != nil {
		return nil, err
	}
	r := reader{data: header}
	embedder, dim, mark := string(r.text()), r.uvarint(), bytes.Clone(r.text())
	if r.failed || dim > 1<<16 {
		return nil, fmt.Errorf("%w: bad header", ErrCheckpoint)
	}
	l.dim = int(dim)
	l.keep = embedder == l.index.options.Embedder && l.dim == l.index.options.Dim
	l.next = l.index.state.Load().next()
	return mark, nil
}

func (l *loader) block() (more bool, err error) {
	var fixed [24]byte
	if _, err := io.ReadFull(l.from, fixed[:4]); err != nil {
		return false, notWhole(err)
	}
	n := binary.BigEndian.Uint32(fixed[:4])
	if n == 0 {
		end, err := l.read(8, crc32.Checksum(fixed[:4], castagnoli))
		if err == nil && binary.BigEndian.Uint64(end) != l.cards {
			err = fmt.Errorf("%w: cards are missing", ErrCheckpoint)
		}
		return false, err
	}
	if n > blockBytesMax {
		return false, fmt.Errorf("%w: a block of %d bytes", ErrCheckpoint, n)
	}
	if _, err := io.ReadFull(l.from, fixed[4:]); err != nil {
		return false, notWhole(err)
	}
	content, err := l.read(int(n), crc32.Checksum(fixed[:], castagnoli))
	if err != nil {
		return false, err
	}
	owner, cards := parley.AnyID(fixed[4:20]), binary.BigEndian.Uint32(fixed[20:])
	l.cards += uint64(cards)
	plain, err := l.open(parley.OrgID(owner), content)
	if err != nil || plain == nil {
		return err == nil, err
	}
	r := reader{data: plain}
	for range cards {
		if err := l.record(&r, owner); err != nil {
			return false, err
		}
	}
	if len(r.data) > 0 {
		return false, fmt.Errorf("%w: bytes after the last card of a block", ErrCheckpoint)
	}
	return true, nil
}

// record adds a card to the index.
func (l *loader) record(r *reader, owner parley.AnyID) error {
	d := &document{owner: owner}
	copy(d.id[:], r.bytes(16))
	d.key, d.created, d.updated = string(r.text()), r.varint(), r.varint()
	copy(d.lengths[:], r.bytes(fieldsMax))
	d.embedded = r.uint64()
	if _, twice := l.index.ordinals[d.id]; twice || r.failed {
		return fmt.Errorf("%w: bad card", ErrCheckpoint)
	}
	n, ordinal := l.next, l.next.limit
	count := r.uvarint()
	vals := make([]uint32, 0, min(count, 64))
	for ; count > 0 && !r.failed; count-- {
		key := r.text()
		val := n.vals.byKey[string(key)]
		if val == nil {
			val = n.vals.intern(string(key))
		}
		val.collect(ordinal)
		val.live.Add(1)
		vals = append(vals, val.id)
	}
	terms := l.terms(r, n, ordinal)
	v := l.vector(r, n.generation)
	if r.failed {
		return fmt.Errorf("%w: bad card", ErrCheckpoint)
	}
	n.live = append(n.live, make([]uint64, int(ordinal)/64+1-len(n.live))...)
	n.add(d, terms, vals)
	p, i := n.at(ordinal)
	p.setVector(i, v, true)
	l.index.ordinals[d.id] = ordinal
	return nil
}

func (l *loader) terms(r *reader, n *state, ordinal uint32) forward {
	l.numbered, l.term = l.numbered[:0], l.term[:0]
	for count := r.uvarint(); count > 0 && !r.failed; count-- {
		shared := int(r.byte())
		if shared > len(l.term) {
			r.failed = true
			return nil
		}
		l.term = append(l.term[:shared], r.text()...)
		f := frequencies(r.byte())
		t, slot := l.known.find(l.term)
		if t == nil {
			t = n.vocab.intern(string(l.term), n.generation)
			l.known.add(slot, t)
		}
		t.collect(ordinal, f)
		t.live.Add(1)
		l.numbered = append(l.numbered, uint64(t.id)<<8|uint64(f))
	}
	slices.Sort(l.numbered)
	return newForward(l.numbered)
}

func (l *loader) vector(r *reader, generation uint64) *vector {
	if r.byte() == 0 {
		return nil
	}
	data := r.bytes(4 * l.dim)
	if !l.keep || r.failed {
		return nil
	}
	v := &vector{generation, make([]float32, l.dim)}
	for i := range v.data {
		v.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}
