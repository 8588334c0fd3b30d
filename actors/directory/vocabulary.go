package directory

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"parley/actors/directory/words"
)

// termList is a list of terms, by number, that only grows. A reader may keep what load
// returned.
type termList struct{ ids atomic.Pointer[[]uint32] }

func (l *termList) load() []uint32 {
	if l == nil {
		return nil
	}
	return *l.ids.Load()
}

// vocabulary finds terms by text, stem, beginning and trigram. One goroutine at a time
// adds terms. The lock is held only while a map is read or changed, never while a list is
// walked.
type vocabulary struct {
	mu       sync.RWMutex
	byText   map[string]*term
	stems    map[string]*termList
	prefixes map[string]*termList
	trigrams map[trigram]*termList
	// all holds the terms by number. It only grows.
	all atomic.Pointer[[]*term]
	// counts holds memory of searches, all zero.
	counts sync.Pool // of *[]uint8
}

func newVocabulary() *vocabulary {
	v := &vocabulary{
		byText: map[string]*term{}, stems: map[string]*termList{},
		prefixes: map[string]*termList{}, trigrams: map[trigram]*termList{},
	}
	v.all.Store(&[]*term{})
	return v
}

// find returns a term, or nil.
func (v *vocabulary) find(text string) *term {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byText[text]
}

// known returns the terms of a document, nil for those that are new.
func (v *vocabulary) known(d *document) []*term {
	terms := make([]*term, len(d.terms))
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i := range d.terms {
		terms[i] = v.byText[d.terms[i].text]
	}
	return terms
}

// terms returns the terms in a list.
func (v *vocabulary) terms() []*term { return *v.all.Load() }

func listed[K comparable](v *vocabulary, lists map[K]*termList, key K) []uint32 {
	v.mu.RLock()
	list := lists[key]
	v.mu.RUnlock()
	return list.load()
}

// intern returns the term of a text and adds it if it is new.
func (v *vocabulary) intern(text string, generation uint64) *term {
	if t := v.find(text); t != nil {
		return t
	}
	known := *v.all.Load()
	text = strings.Clone(text) // it may be part of a block of a checkpoint
	t := &term{text: text, id: uint32(len(known)), since: generation}
	t.list.Store(&t.bulk)
	// The list is published before anything leads to the new number.
	known = append(known, t)
	v.all.Store(&known)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byText[text] = t
	// A term that is its own stem is found by its text.
	if stem := words.Stem(text); stem != text {
		add(v.stems, stem, t.id)
	}
	for i, n := 0, 0; n < prefixRunes && i < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
		add(v.prefixes, text[:i], t.id)
	}
	for _, g := range trigramsOf(text) {
		add(v.trigrams, g, t.id)
	}
	return t
}

// prefixRunes is how many characters of a beginning the lists of prefixes tell apart.
const prefixRunes = 3

func add[K comparable](lists map[K]*termList, key K, id uint32) {
	list := lists[key]
	if list == nil {
		list = &termList{}
		lists[key] = list
		list.ids.Store(&[]uint32{id})
		return
	}
	ids := *list.ids.Load()
	if len(ids) == cap(ids) {
		larger := make([]uint32, len(ids), len(ids)+len(ids)/4+2)
		copy(larger, ids)
		ids = larger
	}
	ids = append(ids, id)
	list.ids.Store(&ids)
}

// trigram is three consecutive characters, 21 bits each.
type trigram uint64

// trigramsOf returns the distinct trigrams of a word as PostgreSQL's pg_trgm counts
// them: of the word with two spaces before and one after it.
func trigramsOf(word string) []trigram {
	const mask = 1<<42 - 1
	grams := make([]trigram, 0, len(word)+1)
	last := trigram(' ')<<21 | ' '
	for _, r := range word {
		last = last&mask<<21 | trigram(r)
		grams = append(grams, last)
	}
	grams = append(grams, last&mask<<21|' ')
	slices.Sort(grams)
	return slices.Compact(grams)
}

// sameStem returns the terms with a stem, among them the term that is the stem itself.
func (v *vocabulary) sameStem(stem string) []*term {
	var found []*term
	ids := listed(v, v.stems, stem)
	all := v.terms()
	for _, id := range ids {
		found = append(found, all[id])
	}
	if t := v.find(stem); t != nil && words.Stem(stem) == stem {
		found = append(found, t)
	}
	return found
}

// begins calls do for terms that begin with a prefix, oldest first, until do returns
// false. It visits at most visits terms.
func (v *vocabulary) begins(prefix string, visits int, do func(t *term)) {
	key, n := prefix, 0
	for i := range prefix {
		if n == prefixRunes {
			key = prefix[:i]
			break
		}
		n++
	}
	ids := listed(v, v.prefixes, key)
	all := v.terms()
	for _, id := range ids {
		if visits--; visits < 0 {
			return
		}
		if t := all[id]; len(t.text) >= len(prefix) && t.text[:len(prefix)] == prefix {
			do(t)
		}
	}
}

// fieldsMax is how many fields a document has. Cards use all of them.
const fieldsMax = 4

// frequencies holds how often a term occurs in each field: two bits a field, so that 3
// means three or more.
type frequencies uint8

func (f frequencies) of(field int) int { return int(f>>(2*field)) & 3 }

func (f frequencies) plus(field int) frequencies {
	if f.of(field) == 3 {
		return f
	}
	return f + 1<<(2*field)
}

// postings is an immutable list of ordinals in ascending order, with the frequencies of
// a term in each document. data holds, for each, the difference to the ordinal before as
// a varint, and one byte of frequencies.
type postings struct {
	data []byte
	last uint32 // the last ordinal plus 1, 0 if there is none
	n    uint32
}

// appended returns the list with one more document. Its data may lie in the spare memory
// behind the data of p, which readers of p do not read. Only one list may be appended to
// p.
func (p *postings) appended(ordinal uint32, f frequencies) postings {
	var buffer [binary.MaxVarintLen32 + 1]byte
	n := binary.PutUvarint(buffer[:], uint64(ordinal-p.last))
	buffer[n] = byte(f)
	return postings{grow(p.data, buffer[:n+1]), ordinal + 1, p.n + 1}
}

// grow appends b to data. It leaves less memory unused than append does: there are many
// lists, and most are short.
func grow(data, b []byte) []byte {
	if len(data)+len(b) > cap(data) {
		larger := make([]byte, len(data), len(data)+len(b)+len(data)/8+2)
		copy(larger, data)
		data = larger
	}
	return append(data, b...)
}

// each calls do for each ordinal below limit, until do returns false.
func (p *postings) each(limit uint32, do func(ordinal uint32, f frequencies) bool) {
	data, next := p.data, uint32(0)
	for i := 0; i < len(data); i++ {
		delta := uint32(data[i])
		if delta >= 0x80 {
			long, n := binary.Uvarint(data[i:])
			delta, i = uint32(long), i+n-1
		}
		i++
		next += delta
		if next >= limit || !do(next, frequencies(data[i])) {
			return
		}
		next++
	}
}

// term is a word of the vocabulary. Its list includes removed documents until the index
// is compacted; live counts the others.
type term struct {
	text string
	id   uint32
	// since is the generation in which the term came into the vocabulary.
	since uint64
	live  atomic.Int32
	list  atomic.Pointer[postings]
	// bulk is the list while an index is built that no reader has.
	bulk postings
}

// append adds a document.
func (t *term) append(ordinal uint32, f frequencies) {
	more := t.list.Load().appended(ordinal, f)
	t.list.Store(&more)
}

// collect adds a document to the list of a term that no reader has.
func (t *term) collect(ordinal uint32, f frequencies) {
	b := &t.bulk
	if b.last > ordinal {
		return // a term that a damaged checkpoint names twice
	}
	b.data = append(binary.AppendUvarint(b.data, uint64(ordinal-b.last)), byte(f))
	b.last, b.n = ordinal+1, b.n+1
}

// settle publishes what was collected, in no more memory than it needs.
func (t *term) settle() {
	t.bulk.data = append(make([]byte, 0, len(t.bulk.data)), t.bulk.data...)
	t.list.Store(&t.bulk)
}
