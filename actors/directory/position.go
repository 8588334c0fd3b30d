package directory

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// A position is where a page ends. It names the version of the index that the list's
// first page was made from, so that a walk sees one ranking however the index changes:
// removed documents stay stored for a while (see retained), which makes the ranking of
// an earlier generation exact.
//
// When the version is gone (another process, or too many changes), a list by name or
// time continues after its last key, without documents that changed since its first
// page. A ranking continues if the documents passed so far are the ones that it ranks
// first now, in whatever order, and is refused otherwise: a refused walk is begun again, a
// wrong one would go unnoticed.
type position struct {
	kind       byte
	instance   uint64
	generation uint64
	asOfMS     int64
	// A position in a ranking: how many documents were passed, and which, and the score
	// of the last, above which no later one may be.
	offset int
	passed uint64
	score  float64
	// A position in an order.
	byName bool
	after  key
}

const (
	positionRanked = 1
	positionKeyed  = 2
)

// passed returns a sum that identifies a set of documents.
func passed(v *version, hits []hit) uint64 {
	sum := uint64(0)
	for _, h := range hits {
		f := fnv.New64a()
		id := v.card(h.ordinal).id
		f.Write(id[:])
		sum += f.Sum64() * 0x9E3779B97F4A7C15
	}
	return sum
}

// reproducible reports whether a state still stores all documents of the position's
// version.
func (p *position) reproducible(x *index, s *state) bool {
	return p.instance == x.options.Instance && p.generation >= s.horizon && p.generation <= s.generation
}

// exact reports whether v is the position's version.
func (p *position) exact(x *index, v *version) bool {
	return p.instance == x.options.Instance && p.generation == v.generation
}

func (p *position) encode() []byte {
	b := []byte{p.kind}
	b = binary.BigEndian.AppendUint64(b, p.instance)
	b = binary.AppendUvarint(b, p.generation)
	b = binary.AppendVarint(b, p.asOfMS)
	if p.kind == positionRanked {
		b = binary.AppendUvarint(b, uint64(p.offset))
		b = binary.BigEndian.AppendUint64(b, p.passed)
		return binary.BigEndian.AppendUint64(b, math.Float64bits(p.score))
	}
	b = append(b, p.after.card.id[:]...)
	if p.byName {
		return append(b, p.after.card.key...)
	}
	return binary.AppendVarint(b, p.after.created)
}

// parsePosition returns the position of a query, or nil for a first page.
func parsePosition(q *Query) (*position, error) {
	if len(q.Position) == 0 {
		return nil, nil
	}
	r := reader{data: q.Position}
	p := &position{kind: r.byte(), instance: r.uint64(), generation: r.uvarint(), asOfMS: r.varint()}
	keyed := q.Sort != ByRelevance || q.Vector == nil && len(queryWords(q.Text)) == 0
	switch {
	case p.kind == positionRanked && !keyed:
		p.offset, p.passed = int(min(r.uvarint(), TextMax+SemanticMax+1)), r.uint64()
		p.score = math.Float64frombits(r.uint64())
	case p.kind == positionKeyed && keyed:
		c := &card{}
		copy(c.id[:], r.bytes(16))
		if p.byName = q.Sort == ByName; p.byName {
			c.key = string(r.rest())
		} else {
			p.after.created = r.varint()
		}
		p.after.card, p.after.begin = c, beginOf(c.key)
	default:
		return nil, ErrPosition
	}
	if r.failed || len(r.data) > 0 {
		return nil, ErrPosition
	}
	return p, nil
}

// reader reads encoded values. After a value that is not there, failed is set and the
// rest is empty.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.data, r.failed = nil, true
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) rest() []byte { return r.bytes(len(r.data)) }

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	value, n := binary.Uvarint(r.data)
	if n <= 0 {
		n = -1
	}
	r.bytes(n)
	return value
}

func (r *reader) varint() int64 {
	value, n := binary.Varint(r.data)
	if n <= 0 {
		n = -1
	}
	r.bytes(n)
	return value
}

// text reads a length and as many bytes.
func (r *reader) text() []byte { return r.bytes(int(min(r.uvarint(), 1<<31))) }
