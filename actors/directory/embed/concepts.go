package embed

import (
	"context"
	_ "embed"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"parley/actors/directory/words"
)

//go:embed concepts.txt
var conceptsFile string

// The vectors of the embedded provider have two parts. In the first, each number stands
// for a concept of concepts.txt; the second holds the words themselves, hashed, so that
// words without a concept count too.
const (
	conceptDims = 320
	wordDims    = 64
	// conceptsID changes with everything that vectors depend on: the file, the words of
	// a text, the weights.
	conceptsID = "parley-concepts-1"
)

// Weights of the embedded provider, found with testdata/queries_tune.txt.
const (
	weightGeneral = 0.5  // of a general concept
	weightParent  = 0.4  // of a parent, relative to its child
	weightWords   = 0.35 // of the second part, relative to the first
	termsMax      = 2000 // terms of a text that count
	// conceptsThreshold is the cosine of unrelated texts at most.
	conceptsThreshold = 0.2
)

// activation is how much a word says about a concept.
type activation struct {
	concept int
	weight  float32
}

// Concepts is the embedded provider. It looks words up in a table of concepts that was
// written for this project: it needs no download, no other process and no randomness,
// and its vectors are the same on every machine.
type Concepts struct {
	byStem map[string][]activation
}

// NewConcepts returns the embedded provider.
func NewConcepts() *Concepts {
	table, err := parseConcepts(conceptsFile)
	if err != nil {
		panic(err) // the file is a part of the binary, and a test parses it
	}
	return table
}

// parseConcepts reads the format that concepts.txt describes.
func parseConcepts(file string) (*Concepts, error) {
	type line struct {
		parents, words []string
		weight         float32
	}
	var lines []line
	numbers := map[string]int{}
	for text := range strings.Lines(file) {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		head, list, ok := strings.Cut(text, ":")
		name, parents, _ := strings.Cut(head, "<")
		l := line{strings.Fields(parents), strings.Fields(list), 1}
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "~") {
			name, l.weight = name[1:], weightGeneral
		}
		if _, twice := numbers[name]; !ok || twice || len(l.words) == 0 {
			return nil, fmt.Errorf("embed: bad line %q", text)
		}
		numbers[name] = len(lines)
		lines = append(lines, l)
	}
	if len(lines) > conceptDims {
		return nil, fmt.Errorf("embed: %d concepts, at most %d fit", len(lines), conceptDims)
	}
	c := &Concepts{byStem: map[string][]activation{}}
	for number, l := range lines {
		seen := map[string]bool{}
		for _, word := range l.words {
			if stem := words.Stem(word); !seen[stem] {
				seen[stem] = true
				c.byStem[stem] = append(c.byStem[stem], activation{number, l.weight})
			}
		}
	}
	parents := make([][]activation, len(lines))
	for number, l := range lines {
		for _, parent := range l.parents {
			of, ok := numbers[parent]
			if !ok {
				return nil, fmt.Errorf("embed: concept %d has no parent %q", number, parent)
			}
			parents[number] = append(parents[number], activation{of, weightParent * l.weight})
		}
	}
	for stem, own := range c.byStem {
		c.byStem[stem] = withParents(own, parents)
	}
	return c, nil
}

// withParents adds parents to the concepts of a word and divides its weight among them:
// a word with many meanings says less about each.
func withParents(own []activation, parents [][]activation) []activation {
	share := float32(1 / math.Sqrt(float64(len(own))))
	var all []activation
	for _, a := range own {
		all = append(all, activation{a.concept, a.weight * share})
		for _, p := range parents[a.concept] {
			all = append(all, activation{p.concept, p.weight * share})
		}
	}
	return all
}

// ID implements Embedder.
func (c *Concepts) ID() string { return conceptsID }

// Dim implements Embedder.
func (c *Concepts) Dim() int { return conceptDims + wordDims }

// Threshold implements Embedder.
func (c *Concepts) Threshold() float32 { return conceptsThreshold }

// Embed implements Embedder. The only error is the context's.
func (c *Concepts) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = c.vector(text)
	}
	return vectors, nil
}

func (c *Concepts) vector(text string) []float32 {
	counts := map[string]int{}
	var stems []string // in the order of the text, so that sums are the same every time
	for _, term := range words.Append(nil, text, termsMax) {
		if words.IsStop(term) {
			continue
		}
		stem := words.Stem(term)
		if counts[stem]++; counts[stem] == 1 {
			stems = append(stems, stem)
		}
	}
	v := make([]float32, conceptDims+wordDims)
	meanings, hashed := v[:conceptDims], v[conceptDims:]
	for _, stem := range stems {
		weight := float32(1 + math.Log(float64(counts[stem])))
		for _, a := range c.byStem[stem] {
			meanings[a.concept] += weight * a.weight
		}
		h := fnv.New64a()
		h.Write([]byte(stem))
		for bits, n := mix(h.Sum64()), 0; n < 4; bits, n = bits>>8, n+1 {
			sign := float32(1)
			if bits&0x80 != 0 {
				sign = -1
			}
			hashed[bits%wordDims] += sign * weight
		}
	}
	// A concept that many words name counts more, but not as often as it is named.
	for i, m := range meanings {
		meanings[i] = float32(math.Sqrt(float64(m)))
	}
	scale(meanings, 1)
	scale(hashed, weightWords)
	scale(v, 1)
	return v
}

// mix spreads the bits of a hash.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// scale gives a vector a length, unless it is zero.
func scale(v []float32, length float64) {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 {
		return
	}
	factor := float32(length / math.Sqrt(sum))
	for i := range v {
		v[i] *= factor
	}
}
