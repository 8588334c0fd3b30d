package directory

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"parley/client/parley"
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
	checkpointVersion = 3
	// blockBytes is the size from which a block is full; blockBytesMax bounds what a
	// reader allocates.
	blockBytes    = 1 << 20
	blockBytesMax = 16 << 20
	// headerBytesMax bounds the header likewise.
	headerBytesMax = 64 << 20
)

// ErrCheckpoint is returned for a checkpoint that is damaged, of another version, or not
// whole. The index has to be built from the cards.
var ErrCheckpoint = errors.New("directory: not a checkpoint that can be read")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteCheckpoint writes the cards that the index holds when it is called, with mark,
// which says what else the caller knows of them. seal is called for each block, with its
// number, and returns what is written; if it returns nil and no error, the block is left
// out. Changes and searches go on meanwhile.
func (x *Index) WriteCheckpoint(to io.Writer, mark []byte, seal func(org parley.OrgID, block int, plain []byte) ([]byte, error)) error {
	s := x.state.Load()
	w := bufio.NewWriterSize(to, 1<<18)
	var header []byte
	header = appendText(header, x.options.Embedder)
	header = binary.AppendUvarint(header, uint64(x.options.Dim))
	header = appendText(header, string(mark))
	if len(header) > headerBytesMax {
		return fmt.Errorf("a mark of %d bytes", len(mark))
	}
	part := binary.BigEndian.AppendUint16([]byte(checkpointMagic), checkpointVersion)
	part = binary.BigEndian.AppendUint32(part, uint32(len(header)))
	if err := writePart(w, append(part, header...)); err != nil {
		return err
	}
	var block []byte
	n, blocks, written := uint32(0), 0, uint64(0)
	ordinals := s.byOwner()
	for i, ordinal := range ordinals {
		block = s.appendRecord(block, ordinal)
		n++
		owner := s.card(ordinal).owner
		last := i+1 == len(ordinals) || s.card(ordinals[i+1]).owner != owner
		if !last && len(block) < blockBytes {
			continue
		}
		content, err := seal(parley.OrgID(owner), blocks, block)
		if err != nil {
			return err
		}
		if content != nil {
			part = binary.BigEndian.AppendUint32(part[:0], uint32(len(content)))
			part = binary.BigEndian.AppendUint32(append(part, owner[:]...), n)
			if err := writePart(w, append(part, content...)); err != nil {
				return err
			}
			blocks++
			written += uint64(n)
		}
		block, n = block[:0], 0
	}
	part = binary.BigEndian.AppendUint64(make([]byte, 4), written)
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

// appendRecord appends a document with its vector.
func (s *state) appendRecord(b []byte, ordinal uint32) []byte {
	d := s.document(ordinal)
	b = append(b, d.id[:]...)
	b = binary.BigEndian.AppendUint64(b, d.version)
	b = binary.BigEndian.AppendUint64(b, d.embedded)
	b = binary.AppendVarint(b, d.created)
	b = binary.AppendVarint(b, d.updated)
	b = append(b, d.lengths[:]...)
	b = appendText(b, d.key)
	b = binary.AppendUvarint(b, uint64(len(d.values)))
	for _, key := range d.values {
		b = appendText(b, key)
	}
	b = binary.AppendUvarint(b, uint64(len(d.terms)))
	for _, t := range d.terms {
		b = append(appendText(b, t.text), byte(t.f))
	}
	p, i := s.at(ordinal)
	v := p.vector(i)
	if v == nil || v.since > s.generation {
		return append(b, vectorNone)
	}
	return appendVector(b, v.data)
}

// The kinds of vectors: none, all numbers, or a bit for each number that is not zero and
// then these.
const (
	vectorNone = iota
	vectorDense
	vectorSparse
)

func appendVector(b []byte, data []float32) []byte {
	set := make([]byte, (len(data)+7)/8)
	n := 0
	for row, x := range data {
		if x != 0 {
			set[row/8] |= 1 << (row % 8)
			n++
		}
	}
	sparse := len(set)+4*n < 4*len(data)
	if sparse {
		b = append(append(b, vectorSparse), set...)
	} else {
		b = append(b, vectorDense)
	}
	for _, x := range data {
		if !sparse || x != 0 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}
