package directory

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"parley/client/parley"
)

// pageSize is how many documents a page holds.
const pageSize = 256

// page holds what is stored for consecutive ordinals. The writer fills a slot before it
// publishes a state that includes it; after that, only the atomic fields change.
type page struct {
	lengths [pageSize][fieldsMax]uint8
	created [pageSize]int64
	// begin is the first eight bytes of the key, so that most comparisons need no string.
	begin [pageSize]uint64
	// born is the generation that added the document, died the one that removed it, 0 if
	// none has.
	born   [pageSize]uint64
	died   [pageSize]atomic.Uint64
	cards  [pageSize]*card
	blocks [pageSize / blockSize]atomic.Pointer[block]
}

// card is what is stored for a document and read less often.
type card struct {
	id, owner parley.AnyID
	key       string
	updated   int64
	embedded  uint64
	terms     forward
	values    []uint32
	// version is the caller's. Only the writer and WriteCheckpoint read it.
	version atomic.Uint64
}

// state is an immutable version of the index. Readers load it once per search: later
// changes add ordinals at or above limit, or set died to a higher generation.
type state struct {
	generation uint64
	// horizon is the oldest generation whose documents are all still stored.
	horizon uint64
	limit   uint32
	pages   []*page
	// live has a bit for each document that is not removed.
	live  []uint64
	count int
	sums  [fieldsMax]uint64 // of the lengths of live documents
	vocab *vocabulary
	vals  *values
}

func (s *state) at(ordinal uint32) (*page, int) {
	return s.pages[ordinal/pageSize], int(ordinal % pageSize)
}

func (s *state) card(ordinal uint32) *card {
	p, i := s.at(ordinal)
	return p.cards[i]
}

// document returns what was added for an ordinal. It takes no lock.
func (s *state) document(ordinal uint32) *document {
	p, i := s.at(ordinal)
	c := p.cards[i]
	d := &document{id: c.id, owner: c.owner, key: c.key, created: p.created[i], updated: c.updated, lengths: p.lengths[i], embedded: c.embedded, version: c.version.Load()}
	all := s.vocab.terms()
	c.terms.each(func(id uint32, f frequencies) { d.terms = append(d.terms, occurrence{all[id].text, f}) })
	for _, id := range c.values {
		d.values = append(d.values, s.vals.all()[id].key)
	}
	return d
}

// holds reports whether a document is stored for an ordinal.
func (s *state) holds(ordinal uint32, d *document) bool {
	p, i := s.at(ordinal)
	c := p.cards[i]
	if c.owner != d.owner || c.key != d.key || p.created[i] != d.created || c.updated != d.updated || p.lengths[i] != d.lengths || c.embedded != d.embedded || len(c.values) != len(d.values) {
		return false
	}
	for _, id := range c.values {
		if !slices.Contains(d.values, s.vals.all()[id].key) {
			return false
		}
	}
	numbered := make([]uint64, len(d.terms))
	for i, t := range d.terms {
		known := s.vocab.find(t.text)
		if known == nil {
			return false
		}
		numbered[i] = uint64(known.id)<<8 | uint64(t.f)
	}
	slices.Sort(numbered)
	return bytes.Equal(c.terms, newForward(numbered))
}

func (s *state) isLive(ordinal uint32) bool {
	return s.live[ordinal/64]&(1<<(ordinal%64)) != 0
}

// with returns a copy of the state, of the next generation, that the writer may change
// before it publishes it. Pages are shared.
func (s *state) next() *state {
	n := *s
	n.generation++
	n.live = make([]uint64, (int(s.limit)+64)/64)
	copy(n.live, s.live)
	return &n
}

// settle ends the building of a state.
func (s *state) settle() {
	for _, t := range s.vocab.terms() {
		t.settle()
	}
	for _, v := range s.vals.all() {
		v.settle()
	}
}

// add puts a document into the next slot.
func (s *state) add(d *document, terms forward, values []uint32) uint32 {
	ordinal := s.limit
	if ordinal%pageSize == 0 {
		s.pages = append(s.pages, &page{})
	}
	p, i := s.at(ordinal)
	p.lengths[i], p.created[i], p.begin[i], p.born[i] = d.lengths, d.created, beginOf(d.key), s.generation
	c := &card{id: d.id, owner: d.owner, key: d.key, updated: d.updated, embedded: d.embedded, terms: terms, values: values}
	c.version.Store(d.version)
	p.cards[i] = c
	s.limit++
	s.count++
	s.live[ordinal/64] |= 1 << (ordinal % 64)
	for field, length := range d.lengths {
		s.sums[field] += uint64(lengthOf(length))
	}
	return ordinal
}

// retire removes a document.
func (s *state) retire(ordinal uint32) {
	p, i := s.at(ordinal)
	p.died[i].Store(s.generation)
	s.count--
	s.live[ordinal/64] &^= 1 << (ordinal % 64)
	for field, length := range p.lengths[i] {
		s.sums[field] -= uint64(lengthOf(length))
	}
}

// beginOf returns the first eight bytes of a key, as a number that orders as they do.
func beginOf(key string) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// version is a view of the documents that existed in one generation, which may be older
// than the state's.
type version struct {
	*state
	generation uint64
	live       []uint64
	count      int
	sums       [fieldsMax]uint64
	// counted says that the numbers of documents per term must be counted, because the
	// counters are those of another generation.
	counted bool
}

func (s *state) now() *version {
	return &version{s, s.generation, s.live, s.count, s.sums, false}
}

// asOf returns the documents of an earlier generation, at or after the horizon.
func (s *state) asOf(generation uint64) *version {
	if generation == s.generation {
		return s.now()
	}
	v := &version{state: s, generation: generation, live: make([]uint64, len(s.live)), counted: true}
	for ordinal := range s.limit {
		p, i := s.at(ordinal)
		died := p.died[i].Load()
		if p.born[i] > generation || died != 0 && died <= generation {
			continue
		}
		v.live[ordinal/64] |= 1 << (ordinal % 64)
		v.count++
		for field, length := range p.lengths[i] {
			v.sums[field] += uint64(lengthOf(length))
		}
	}
	return v
}

func (v *version) has(ordinal uint32) bool {
	return v.live[ordinal/64]&(1<<(ordinal%64)) != 0
}

// documents returns how many documents of the version contain a term.
func (v *version) documents(t *term) int {
	if !v.counted {
		return int(t.live.Load())
	}
	if t.since > v.generation {
		return 0
	}
	n := 0
	t.list.Load().each(v.limit, func(ordinal uint32, _ frequencies) bool {
		if v.has(ordinal) {
			n++
		}
		return true
	})
	return n
}
