package directory

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf8"

	"parley/actors/directory/words"
	"parley/client/parley"
)

// assemble makes the state of what the workers have decoded.
func (l *loader) assemble() error {
	n := &state{generation: l.generation, limit: l.limit, count: int(l.limit), pages: l.pages, vocab: newVocabulary(), vals: newValues()}
	n.live = make([]uint64, int(n.limit)/64+1)
	for ordinal := range n.limit {
		n.live[ordinal/64] |= 1 << (ordinal % 64)
	}
	termNumbers, valueNumbers := l.joinTerms(n.vocab), l.joinValues(n.vals)
	l.index.ordinals = make(map[parley.AnyID]uint32, n.limit)
	lists := make([][]uint64, n.limit)
	var ids, searched, decoded sync.WaitGroup
	for i, d := range l.workers {
		decoded.Go(func() { d.renumber(lists, termNumbers[i], valueNumbers[i]) })
	}
	searched.Go(n.vocab.fillBeginnings)
	searched.Go(n.vocab.fillTrigrams)
	ids.Go(func() { l.place(n) })
	decoded.Wait()
	searched.Go(n.collectValues)
	n.collectTerms(lists)
	searched.Wait()
	ids.Wait()
	if len(l.index.ordinals) != int(n.limit) {
		return fmt.Errorf("%w: a card is there twice", ErrCheckpoint)
	}
	l.index.state.Store(n)
	return nil
}

// joinTerms gives the terms of all workers their numbers in the vocabulary, and returns
// these by the worker's own.
func (l *loader) joinTerms(v *vocabulary) (numbers [][]uint32) {
	most := 0
	for _, d := range l.workers {
		most = max(most, len(d.terms.texts))
	}
	v.byText = make(map[string]*term, most)
	var all []*term
	for _, d := range l.workers {
		own := make([]uint32, len(d.terms.texts))
		room := make([]term, 0, 256)
		for i, text := range d.terms.texts {
			t := v.byText[text]
			if t == nil {
				if len(room) == cap(room) {
					room = make([]term, 0, 256)
				}
				room = append(room, term{text: text, id: uint32(len(all)), since: l.generation})
				t = &room[len(room)-1]
				v.byText[text] = t
				all = append(all, t)
			}
			own[i] = t.id
		}
		numbers = append(numbers, own)
		d.terms = termTable{}
	}
	v.all.Store(&all)
	return numbers
}

func (l *loader) joinValues(vs *values) (numbers [][]uint32) {
	for _, d := range l.workers {
		own := make([]uint32, len(d.byValue))
		for i, key := range d.byValue {
			own[i] = vs.intern(key).id
		}
		numbers = append(numbers, own)
	}
	return numbers
}

// place notes where each card is, and the sums of lengths.
func (l *loader) place(n *state) {
	for ordinal := range n.limit {
		p, i := n.at(ordinal)
		l.index.ordinals[p.cards[i].id] = ordinal
		for field, length := range p.lengths[i] {
			n.sums[field] += uint64(lengthOf(length))
		}
	}
}

// renumber gives cards the numbers of the vocabulary and of the values. It sets lists to
// the terms of each card in ascending order, and stores them.
func (d *decoder) renumber(lists [][]uint64, terms, vals []uint32) {
	var encoded []byte
	for _, b := range d.blocks {
		for i, count := range b.counts {
			list := b.numbered[:count]
			b.numbered = b.numbered[count:]
			for k, x := range list {
				list[k] = uint64(terms[x>>8])<<8 | x&0xFF
			}
			slices.Sort(list)
			ordinal := b.first + uint32(i)
			lists[ordinal] = list
			c := d.pages[ordinal/pageSize].cards[ordinal%pageSize]
			encoded = appendForward(encoded[:0], list)
			c.terms = append(d.carve.take(len(encoded)), encoded...)
			for k, x := range c.values {
				c.values[k] = vals[x]
			}
		}
	}
	d.blocks = nil
}

// collectTerms makes the lists of documents of all terms, in two halves at once.
func (s *state) collectTerms(lists [][]uint64) {
	all := s.vocab.terms()
	counts := make([]uint32, len(all))
	for _, list := range lists {
		for _, x := range list {
			counts[x>>8]++
		}
	}
	half, middle := 0, len(all)
	for _, list := range lists {
		half += len(list)
	}
	half /= 2
	for id, n := range counts {
		if half -= int(n); half < 0 {
			middle = id
			break
		}
	}
	var both sync.WaitGroup
	for _, part := range [][2]int{{0, middle}, {middle, len(all)}} {
		both.Go(func() { collectPart(all, lists, counts, part[0], part[1]) })
	}
	both.Wait()
}

// collectPart is collectTerms for the terms from low to below high.
func collectPart(all []*term, lists [][]uint64, counts []uint32, low, high int) {
	each := func(do func(ordinal uint32, x uint64)) {
		for ordinal, list := range lists {
			from, _ := slices.BinarySearch(list, uint64(low)<<8)
			for _, x := range list[from:] {
				if x>>8 >= uint64(high) {
					break
				}
				do(uint32(ordinal), x)
			}
		}
	}
	next, sizes := make([]uint32, high-low), make([]uint32, high-low)
	each(func(ordinal uint32, x uint64) {
		i := int(x>>8) - low
		sizes[i] += uint32(uvarintBytes(ordinal-next[i]) + 1)
		next[i] = ordinal + 1
	})
	data, carve := make([][]byte, high-low), carver{}
	for i, size := range sizes {
		data[i] = carve.take(int(size))
	}
	clear(next)
	each(func(ordinal uint32, x uint64) {
		i := int(x>>8) - low
		data[i] = append(binary.AppendUvarint(data[i], uint64(ordinal-next[i])), byte(x))
		next[i] = ordinal + 1
	})
	for i, list := range data {
		t := all[low+i]
		t.bulk = postings{list, next[i], counts[low+i]}
		t.list.Store(&t.bulk)
		t.live.Store(int32(counts[low+i]))
	}
}

func uvarintBytes(n uint32) int { return max(1, (bits.Len32(n)+6)/7) }

// collectValues makes the sets of documents of all values.
func (s *state) collectValues() {
	all := s.vals.all()
	for ordinal := range s.limit {
		for _, id := range s.card(ordinal).values {
			all[id].collect(ordinal)
			all[id].live.Add(1)
		}
	}
	for _, v := range all {
		v.settle()
	}
}

// fillBeginnings makes the lists of stems and prefixes of a vocabulary that no reader has.
func (v *vocabulary) fillBeginnings() {
	for _, t := range v.terms() {
		if stem := words.Stem(t.text); stem != t.text {
			fill(v.stems, stem, t.id)
		}
		for i, n := 0, 0; n < prefixRunes && i < len(t.text); n++ {
			_, size := utf8.DecodeRuneInString(t.text[i:])
			i += size
			fill(v.prefixes, t.text[:i], t.id)
		}
	}
}

// fillTrigrams makes the lists of trigrams likewise.
func (v *vocabulary) fillTrigrams() {
	for _, t := range v.terms() {
		for _, g := range trigramsOf(t.text) {
			fill(v.trigrams, g, t.id)
		}
	}
}

// fill is add for a list that no reader has.
func fill[K comparable](lists map[K]*termList, key K, id uint32) {
	list := lists[key]
	if list == nil {
		add(lists, key, id)
		return
	}
	ids := list.ids.Load()
	if len(*ids) == cap(*ids) {
		*ids = slices.Grow(*ids, len(*ids)/4+2)
	}
	*ids = append(*ids, id)
}
