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
	"strings"

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
	ordinals, records := s.byOwner(), newRecorder(s)
	for i, ordinal := range ordinals {
		block = records.append(block, ordinal)
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

// recorder encodes documents of a state. Its memory is used again for the next.
type recorder struct {
	*state
	all []*term
	// ranks are the places of terms in the order of their texts, byRank the terms there.
	ranks    []uint32
	byRank   []uint32
	numbered []uint64
}

func newRecorder(s *state) *recorder {
	r := &recorder{state: s, all: s.vocab.terms()}
	r.byRank, r.ranks = make([]uint32, len(r.all)), make([]uint32, len(r.all))
	for id := range r.all {
		r.byRank[id] = uint32(id)
	}
	slices.SortFunc(r.byRank, func(a, b uint32) int { return strings.Compare(r.all[a].text, r.all[b].text) })
	for rank, id := range r.byRank {
		r.ranks[id] = uint32(rank)
	}
	return r
}

// append appends a document. Terms are in order, and each says how many bytes it shares
// with the one before.
func (r *recorder) append(b []byte, ordinal uint32) []byte {
	p, i := r.at(ordinal)
	c := p.cards[i]
	b = append(b, c.id[:]...)
	b = binary.BigEndian.AppendUint64(b, c.version.Load())
	b = binary.BigEndian.AppendUint64(b, c.embedded)
	b = binary.AppendVarint(b, p.created[i])
	b = binary.AppendVarint(b, c.updated)
	b = append(b, p.lengths[i][:]...)
	b = appendText(b, c.key)
	keys := make([]string, len(c.values))
	for k, id := range c.values {
		keys[k] = r.vals.all()[id].key
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = appendText(b, key)
	}
	r.numbered = r.numbered[:0]
	c.terms.each(func(id uint32, f frequencies) { r.numbered = append(r.numbered, uint64(r.ranks[id])<<8|uint64(f)) })
	slices.Sort(r.numbered)
	b = binary.AppendUvarint(b, uint64(len(r.numbered)))
	before := ""
	for _, x := range r.numbered {
		text := r.all[r.byRank[x>>8]].text
		n := 0
		for n < len(before) && n < len(text) && before[n] == text[n] {
			n++
		}
		b = append(append(b, byte(n), byte(len(text)-n), byte(x)), text[n:]...)
		before = text
	}
	return r.appendVector(b, p, i)
}

// The kinds of vectors: none, all numbers, or a bit for each number that is not zero and
// then these.
const (
	vectorNone = iota
	vectorDense
	vectorSparse
)

func (r *recorder) appendVector(b []byte, p *page, i int) []byte {
	blk := p.blocks[i/blockSize].Load()
	if blk == nil || blk.since[i%blockSize] == 0 || blk.since[i%blockSize] > r.generation {
		return append(b, vectorNone)
	}
	dim := len(blk.data) / blockSize
	set := make([]byte, (dim+7)/8)
	n := 0
	for row := range dim {
		if blk.data[row*blockSize+i%blockSize] != 0 {
			set[row/8] |= 1 << (row % 8)
			n++
		}
	}
	kind := byte(vectorDense)
	if b = append(b, kind); len(set)+4*n < 4*dim {
		b[len(b)-1] = vectorSparse
		b = append(b, set...)
		kind = vectorSparse
	}
	for row := range dim {
		if kind == vectorDense || set[row/8]&(1<<(row%8)) != 0 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(blk.data[row*blockSize+i%blockSize]))
		}
	}
	return b
}
