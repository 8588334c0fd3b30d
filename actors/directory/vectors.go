package directory

import (
	"math"
	"math/bits"
)

// blockSize is how many documents a block holds: the bits of one word of a set.
const blockSize = 64

// block holds the vectors of consecutive ordinals, number by number: first the first
// number of each vector. A search reads only the numbers in which its own vector is not
// zero, which are few with the embedded provider. A published block does not change; the
// writer replaces it.
type block struct {
	// since is the generation that added a vector, 0 if there is none.
	since [blockSize]uint64
	data  []float32
}

// vector is the vector of one document, of length 1, and the generation that added it.
type vector struct {
	since uint64
	data  []float32
}

func (p *page) hasVector(i int) bool {
	b := p.blocks[i/blockSize].Load()
	return b != nil && b.since[i%blockSize] != 0
}

// vector returns the vector of a document, or nil.
func (p *page) vector(i int) *vector {
	if !p.hasVector(i) {
		return nil
	}
	b := p.blocks[i/blockSize].Load()
	v := &vector{b.since[i%blockSize], make([]float32, len(b.data)/blockSize)}
	for d := range v.data {
		v.data[d] = b.data[d*blockSize+i%blockSize]
	}
	return v
}

// setVector stores the vector of a document. bulk says that no reader has the page.
func (p *page) setVector(i int, v *vector, bulk bool) {
	if v == nil {
		return
	}
	old := p.blocks[i/blockSize].Load()
	b := old
	switch {
	case old == nil:
		b = &block{data: make([]float32, len(v.data)*blockSize)}
	case !bulk:
		b = &block{old.since, append([]float32(nil), old.data...)}
	}
	for d, f := range v.data {
		b.data[d*blockSize+i%blockSize] = f
	}
	b.since[i%blockSize] = v.since
	p.blocks[i/blockSize].Store(b)
}

// target is a vector that documents are compared with: its numbers that are not zero, in
// groups of four.
type target struct {
	rows   []int
	values []float32
}

func newTarget(data []float32) *target {
	t := &target{}
	for d, f := range data {
		if f != 0 {
			t.rows, t.values = append(t.rows, d), append(t.values, f)
		}
	}
	for len(t.rows)%4 != 0 {
		t.rows, t.values = append(t.rows, 0), append(t.values, 0)
	}
	return t
}

// cosines sets sums to the cosines of all vectors of a block.
func (t *target) cosines(b *block, sums *[blockSize]float32) {
	clear(sums[:])
	for k := 0; k+3 < len(t.rows); k += 4 {
		row := func(n int) *[blockSize]float32 { return (*[blockSize]float32)(b.data[t.rows[k+n]*blockSize:]) }
		r0, r1, r2, r3 := row(0), row(1), row(2), row(3)
		v0, v1, v2, v3 := t.values[k], t.values[k+1], t.values[k+2], t.values[k+3]
		for i := range sums {
			sums[i] += v0*r0[i] + v1*r1[i] + v2*r2[i] + v3*r3[i]
		}
	}
}

// byVector ranks the allowed documents by the cosine of their vectors. whole is false if
// there are more above the threshold than it returns.
func (v *version) byVector(m *scratch, t *target, threshold float32) (hits []hit, whole bool) {
	best, n := newBest(v, SemanticMax), 0
	var sums [blockSize]float32
	for w, word := range m.allowed[:(v.limit+blockSize-1)/blockSize] {
		if word == 0 {
			continue
		}
		b := v.pages[w/(pageSize/blockSize)].blocks[w%(pageSize/blockSize)].Load()
		if b == nil {
			continue
		}
		t.cosines(b, &sums)
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			if since := b.since[i]; since != 0 && since <= v.generation && sums[i] >= threshold {
				n++
				best.offer(uint32(w*blockSize+i), float64(sums[i]))
			}
		}
	}
	return best.sorted(), n <= SemanticMax
}

// normalized returns a copy of a vector with length 1, or nil if it has none.
func normalized(data []float32) []float32 {
	sum := 0.0
	for _, f := range data {
		sum += float64(f) * float64(f)
	}
	length := math.Sqrt(sum)
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil
	}
	unit := make([]float32, len(data))
	for i, f := range data {
		unit[i] = float32(float64(f) / length)
	}
	return unit
}
