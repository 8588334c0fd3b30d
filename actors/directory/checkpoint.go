package directory

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"parley"
)

// A checkpoint stores an index, so that a start need not analyze and embed all cards:
//
//	"parleydx" | version (2) | length (4) | header | checksum (4)
//	block ...: length (4) | organization (16) | number of cards (4) | content | checksum (4)
//	end:       0 (4) | number of cards (8) | checksum (4)
//
// The header has the embedder, the dimension and the caller's mark. The content of a block
// is what the caller's seal makes of the records of cards of one organization, so it can
// be encrypted under the organization's key. Checksums are CRC-32C of what precedes them
// in the part. Numbers are big-endian.
const (
	checkpointMagic = "parleydx"
	// checkpointVersion changes with the format and with how texts are analyzed.
	checkpointVersion = 1
	// blockBytes is the size from which a block is full; blockBytesMax bounds what a
	// reader allocates.
	blockBytes    = 1 << 20
	blockBytesMax = 16 << 20
)

// ErrCheckpoint is returned for a checkpoint that is damaged, of another version, or not
// whole. The index has to be built from the cards.
var ErrCheckpoint = errors.New("directory: not a checkpoint that can be read")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteCheckpoint writes the cards that the index holds when it is called, with mark,
// which says what they include: for instance the positions of journals, read before the
// call. The same cards give the same bytes. seal is called for each block and returns
// what is written. Changes and searches go on meanwhile.
func (x *Index) WriteCheckpoint(to io.Writer, mark []byte, seal func(parley.OrgID, []byte) ([]byte, error)) error {
	s := x.state.Load()
	w := bufio.NewWriterSize(to, 1<<16)
	var header []byte
	header = appendText(header, x.options.Embedder)
	header = binary.AppendUvarint(header, uint64(x.options.Dim))
	header = appendText(header, string(mark))
	part := binary.BigEndian.AppendUint16([]byte(checkpointMagic), checkpointVersion)
	part = binary.BigEndian.AppendUint32(part, uint32(len(header)))
	if err := writePart(w, append(part, header...)); err != nil {
		return err
	}
	var block []byte
	n := uint32(0)
	ordinals := s.byOwner()
	for i, ordinal := range ordinals {
		block = s.appendRecord(block, ordinal)
		n++
		owner := s.card(ordinal).owner
		last := i+1 == len(ordinals) || s.card(ordinals[i+1]).owner != owner
		if !last && len(block) < blockBytes {
			continue
		}
		content, err := seal(parley.OrgID(owner), block)
		if err != nil {
			return err
		}
		part = binary.BigEndian.AppendUint32(part[:0], uint32(len(content)))
		part = binary.BigEndian.AppendUint32(append(part, owner[:]...), n)
		if err := writePart(w, append(part, content...)); err != nil {
			return err
		}
		block, n = block[:0], 0
	}
	part = binary.BigEndian.AppendUint64(make([]byte, 4), uint64(len(ordinals)))
	if err := writePart(w, part); err != nil {
		return err
	}
	return w.Flush()
}

func writePart(w io.Writer, part []byte) error {
	_, err := w.Write(binary.BigEndian.AppendUint32(part, crc32.Checksum(part, castagnoli)))
	return err
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// byOwner returns the live documents by owner, then id.
func (s *state) byOwner() []uint32 {
	all := make([]uint32, 0, s.count)
	for ordinal := range s.limit {
		if s.isLive(ordinal) {
			all = append(all, ordinal)
		}
	}
	slices.SortFunc(all, func(a, b uint32) int {
		x, y := s.card(a), s.card(b)
		if c := bytes.Compare(x.owner[:], y.owner[:]); c != 0 {
			return c
		}
		return bytes.Compare(x.id[:], y.id[:])
	})
	return all
}

// appendRecord appends a document. Terms are in order, and each says how many bytes it
// shares with the one before.
func (s *state) appendRecord(b []byte, ordinal uint32) []byte {
	d := s.document(ordinal)
	b = append(b, d.id[:]...)
	b = appendText(b, d.key)
	b = binary.AppendVarint(b, d.created)
	b = binary.AppendVarint(b, d.updated)
	b = append(b, d.lengths[:]...)
	b = binary.BigEndian.AppendUint64(b, d.embedded)
	slices.Sort(d.values)
	b = binary.AppendUvarint(b, uint64(len(d.values)))
	for _, key := range d.values {
		b = appendText(b, key)
	}
	slices.SortFunc(d.terms, compareOccurrences)
	b = binary.AppendUvarint(b, uint64(len(d.terms)))
	before := ""
	for _, t := range d.terms {
		n := 0
		for n < len(before) && n < len(t.text) && before[n] == t.text[n] {
			n++
		}
		b = append(b, byte(n))
		b = appendText(b, t.text[n:])
		b = append(b, byte(t.f))
		before = t.text
	}
	p, i := s.at(ordinal)
	v := p.vector(i)
	if v == nil || v.since > s.generation {
		return append(b, 0)
	}
	b = append(b, 1)
	for _, f := range v.data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}
