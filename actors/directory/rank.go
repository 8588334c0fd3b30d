package directory

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
)

// The parameters of BM25F: saturation, how much the length of a field counts, and the
// weights of the fields.
const (
	saturation   = 1.2
	lengthWeight = 0.6
)

var fieldWeights = [fieldsMax]float32{8, 4, 2, 1}

const (
	// fusionK damps the first ranks in reciprocal-rank fusion.
	fusionK = 60
	// fusionStrong is the share of the best score from which a hit counts fully.
	fusionStrong = 0.7
	// fusionCovered is the share of a query's words, by what they say, that a document
	// has to have to count fully.
	fusionCovered = 0.3
)

// hit is a document that was found.
type hit struct {
	ordinal uint32
	score   float64
}

// fieldGains is what one occurrence in a field counts, by the length byte of the field.
type fieldGains [fieldsMax][256]float32

func (v *version) fieldGains() *fieldGains {
	g := &fieldGains{}
	for field := range g {
		average := max(1, float32(v.sums[field])/float32(max(1, v.count)))
		for b := range g[field] {
			g[field][b] = fieldWeights[field] / (1 - lengthWeight + lengthWeight*float32(lengthOf(uint8(b)))/average)
		}
	}
	return g
}

// byWords ranks the allowed documents by words, or if every is set, those that have all of
// them. whole is false if a bound cut the list.
func (v *version) byWords(m *scratch, words []queryWord, every bool) (hits []hit, whole bool) {
	gains := v.fieldGains()
	visits := 0
	whole = true
	for _, w := range words {
		for _, q := range w.variants {
			visits += int(q.term.list.Load().n)
		}
		if visits > postingsMax {
			whole = false
			break
		}
		v.addWord(m, gains, w)
		if every {
			m.allowSeen()
		}
	}
	best, n := newBest(v, TextMax), 0
	for _, ordinal := range m.touched {
		if !every || m.allows(ordinal) {
			best.offer(ordinal, float64(m.total[ordinal]))
			n++
		}
	}
	return best.sorted(), whole && n <= TextMax
}

// addWord adds the score of one word to m.total: in each document that of its best
// term.
func (v *version) addWord(m *scratch, gains *fieldGains, w queryWord) {
	m.seen = m.seen[:0]
	for _, q := range w.variants {
		pages := v.pages
		q.term.list.Load().each(v.limit, func(ordinal uint32, f frequencies) bool {
			if !m.allows(ordinal) {
				return true
			}
			lengths := &pages[ordinal/pageSize].lengths[ordinal%pageSize]
			occurrences := float32(0)
			for field := 0; f != 0; field, f = field+1, f>>2 {
				if n := f & 3; n != 0 {
					occurrences += float32(n) * gains[field][lengths[field]]
				}
			}
			score := q.gain * occurrences / (occurrences + saturation)
			if former := m.word[ordinal]; former == 0 {
				m.seen = append(m.seen, ordinal)
				m.word[ordinal] = score
			} else if score > former {
				m.word[ordinal] = score
			}
			return true
		})
	}
	for _, ordinal := range m.seen {
		if m.total[ordinal] == 0 {
			m.touched = append(m.touched, ordinal)
		}
		m.total[ordinal] += m.word[ordinal]
		m.word[ordinal] = 0
	}
}

// eachAllowed calls do for each allowed document.
func (v *version) eachAllowed(m *scratch, do func(ordinal uint32, p *page, i int)) {
	for w, word := range m.allowed[:(v.limit+63)/64] {
		for ; word != 0; word &= word - 1 {
			ordinal := uint32(w*64 + bits.TrailingZeros64(word))
			p, i := v.at(ordinal)
			do(ordinal, p, i)
		}
	}
}

// eachAllowedBackwards calls do for each allowed document, the one with the highest number first.
func (v *version) eachAllowedBackwards(m *scratch, do func(ordinal uint32, p *page, i int)) {
	for w := int(v.limit+63)/64 - 1; w >= 0; w-- {
		for word := m.allowed[w]; word != 0; {
			last := bits.Len64(word) - 1
			word &^= 1 << last
			ordinal := uint32(w*64 + last)
			p, i := v.at(ordinal)
			do(ordinal, p, i)
		}
	}
}

// best keeps the hits with the highest scores; of equal ones those with the lower id.
type best struct {
	v    *version
	max  int
	heap []hit // the worst first
}

func newBest(v *version, limit int) *best { return &best{v: v, max: limit} }

func (b *best) compare(x, y hit) int {
	if c := cmp.Compare(y.score, x.score); c != 0 {
		return c
	}
	a, c := b.v.card(x.ordinal).id, b.v.card(y.ordinal).id
	return bytes.Compare(a[:], c[:])
}

func (b *best) offer(ordinal uint32, score float64) {
	h := hit{ordinal, score}
	if len(b.heap) < b.max {
		b.heap = append(b.heap, h)
		for i := len(b.heap) - 1; i > 0 && b.compare(b.heap[(i-1)/2], b.heap[i]) < 0; i = (i - 1) / 2 {
			b.heap[i], b.heap[(i-1)/2] = b.heap[(i-1)/2], b.heap[i]
		}
		return
	}
	if score < b.heap[0].score || b.compare(h, b.heap[0]) > 0 {
		return
	}
	b.heap[0] = h
	for i := 0; ; {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(b.heap); c++ {
			if b.compare(b.heap[c], b.heap[worst]) > 0 {
				worst = c
			}
		}
		if worst == i {
			return
		}
		b.heap[i], b.heap[worst] = b.heap[worst], b.heap[i]
		i = worst
	}
}

func (b *best) sorted() []hit {
	slices.SortFunc(b.heap, b.compare)
	return b.heap
}

// fused merges two rankings by reciprocal-rank fusion: a document counts 1/(60+rank) for
// each. Of equal ones, the document that words rank higher comes first.
//
// A hit that is much worse than the best of its list, or that has few of the words, counts
// as if TextMax others preceded it: otherwise a document that both lists have far down
// would precede the best of one. full is the score of a document that has all words in the
// best way.
func (v *version) fused(text, semantic []hit, full float64) []hit {
	place := make(map[uint32]int, len(text))
	all := make([]hit, len(text), len(text)+len(semantic))
	for i, h := range text {
		place[h.ordinal] = i
		all[i] = hit{h.ordinal, fusionScore(text, i, fusionCovered*full)}
	}
	for i, h := range semantic {
		score := fusionScore(semantic, i, 0)
		if at, ok := place[h.ordinal]; ok {
			all[at].score += score
		} else {
			all = append(all, hit{h.ordinal, score})
		}
	}
	// The sort is stable: documents found by words precede, in their order.
	slices.SortStableFunc(all, func(x, y hit) int { return cmp.Compare(y.score, x.score) })
	return all
}

func fusionScore(list []hit, i int, least float64) float64 {
	rank := i + 1
	if list[i].score < max(least, fusionStrong*list[0].score) {
		rank += TextMax
	}
	return 1 / float64(fusionK+rank)
}
