package directory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client/parley"
)

// benchDim is the dimension of the embedded provider.
const benchDim = 384

// benchCards is how many cards the benchmarks index. PARLEY_CARDS changes it.
func benchCards() int {
	if n, err := strconv.Atoi(os.Getenv("PARLEY_CARDS")); err == nil {
		return n
	}
	return 100_000
}

// large is the index of the benchmarks, with vectors.
var large = sync.OnceValue(func() *Index {
	x := New(Options{Embedder: "bench", Dim: benchDim, Instance: 1})
	g := newGenerator(1)
	for range benchCards() {
		if err := x.Put(g.doc(), g.vector()); err != nil {
			panic(err)
		}
	}
	runtime.GC()
	return x
})

func (g *generator) vector() []float32 {
	v := make([]float32, benchDim)
	for i := range v {
		v[i] = g.r.Float32() - 0.5
	}
	return v
}

// fewNumbers returns a vector like those of queries by the embedded provider: 40 numbers
// that are not zero.
func (g *generator) fewNumbers() []float32 {
	v := make([]float32, benchDim)
	for range 40 {
		v[g.r.IntN(benchDim)] = g.r.Float32()
	}
	return v
}

// measure runs queries and reports the median and the 99th percentile.
func measure(b *testing.B, query func(g *generator) Query) {
	x, g := large(), newGenerator(7)
	queries := make([]Query, 1000)
	for i := range queries {
		queries[i] = query(g)
		queries[i].Limit = 20
	}
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		if _, err := x.Search(queries[i%len(queries)]); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// someWords returns words as people choose them: by their frequency in cards, without the
// most frequent.
func (g *generator) someWords(n int) []string {
	var words []string
	for len(words) < n {
		if i := g.common.Uint64(); i >= 22 {
			words = append(words, g.words[i])
		}
	}
	return words
}

func BenchmarkSearch(b *testing.B) {
	b.Run("text", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Text: strings.Join(g.someWords(1+g.r.IntN(4)), " ")} })
	})
	b.Run("misspelled", func(b *testing.B) {
		measure(b, func(g *generator) Query {
			words := g.someWords(1 + g.r.IntN(4))
			i := g.r.IntN(len(words))
			words[i] = g.misspelled(words[i])
			return Query{Text: strings.Join(words, " ")}
		})
	})
	b.Run("frequent", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Text: "agent data " + g.someWords(1)[0]} })
	})
	b.Run("sentence", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Text: g.text(30, 40)} })
	})
	b.Run("one letter", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Text: string(rune('a' + g.r.IntN(26)))} })
	})
	b.Run("semantic", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Vector: g.fewNumbers(), Threshold: 0.05} })
	})
	b.Run("semantic, no zeros", func(b *testing.B) {
		measure(b, func(g *generator) Query { return Query{Vector: g.vector(), Threshold: 0.05} })
	})
	b.Run("both", func(b *testing.B) {
		measure(b, func(g *generator) Query {
			return Query{Text: strings.Join(g.someWords(3), " "), Vector: g.fewNumbers(), Threshold: 0.05}
		})
	})
	b.Run("filter", func(b *testing.B) {
		measure(b, func(g *generator) Query {
			yes := g.r.IntN(2) == 0
			return Query{Categories: []string{fmt.Sprintf("category-%d", g.r.IntN(40))}, Languages: []string{"en"}, Verified: &yes}
		})
	})
	b.Run("newest", func(b *testing.B) {
		measure(b, func(*generator) Query { return Query{} })
	})
	b.Run("by name", func(b *testing.B) {
		measure(b, func(*generator) Query { return Query{Sort: ByName} })
	})
	b.Run("text in category", func(b *testing.B) {
		measure(b, func(g *generator) Query {
			return Query{Text: strings.Join(g.someWords(2), " "), Categories: []string{fmt.Sprintf("category-%d", g.r.IntN(40))}}
		})
	})
	b.Run("earlier version", func(b *testing.B) {
		x, change := large(), newGenerator(9).doc()
		measure(b, func(g *generator) Query {
			q := Query{Text: strings.Join(g.someWords(2), " "), Limit: 20}
			r, err := x.Search(q)
			if err != nil {
				b.Fatal(err)
			}
			q.Position = r.Next
			if err := x.Put(change, nil); err != nil {
				b.Fatal(err)
			}
			return q
		})
	})
}

func BenchmarkPut(b *testing.B) {
	x, g := large(), newGenerator(1)
	docs := make([]Doc, 1000)
	for i := range docs {
		docs[i] = g.doc()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := x.Put(docs[i%len(docs)], nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBuild reports how long it takes to index all cards, and the memory per card.
func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		g := newGenerator(1)
		docs := make([]Doc, benchCards())
		for i := range docs {
			docs[i] = g.doc()
		}
		before := heap()
		b.StartTimer()
		x := New(Options{Instance: 1})
		for _, d := range docs {
			if err := x.Put(d, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/float64(len(docs)), "B/card")
		terms, postings := x.size()
		b.ReportMetric(float64(postings)/float64(len(docs)), "terms/card")
		b.ReportMetric(float64(terms), "terms")
		runtime.KeepAlive(docs)
		b.StartTimer()
	}
}

func (x *index) size() (terms, entries int) {
	for _, t := range x.state.Load().vocab.terms() {
		entries += int(t.list.Load().n)
		terms++
	}
	return terms, entries
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkCheckpoint writes and reads the index of the other benchmarks.
func BenchmarkCheckpoint(b *testing.B) {
	same := func(_ parley.OrgID, _ int, plain []byte) ([]byte, error) { return plain, nil }
	var file bytes.Buffer
	b.Run("write", func(b *testing.B) {
		x := large()
		for b.Loop() {
			file.Reset()
			if err := x.WriteCheckpoint(&file, nil, same); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(file.Len())/1e6, "MB")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			x, _, err := ReadCheckpoint(bytes.NewReader(file.Bytes()), Options{Embedder: "bench", Dim: benchDim}, same)
			if err != nil || x.Len() != large().Len() {
				b.Fatal(err)
			}
		}
	})
}

// generator makes cards like those that people publish: names of two to four words, a
// description of about 50 words, one to four skills with tags. Words have the frequencies
// of natural language (Zipf), and every fifth name has a word that no other card has.
type generator struct {
	r      *rand.Rand
	common *rand.Zipf
	words  []string
	id     int
}

const generatedWords = 30_000

func newGenerator(seed uint64) *generator {
	r := rand.New(rand.NewPCG(seed, 3))
	g := &generator{r: r, common: rand.NewZipf(r, 1.07, 4, generatedWords-1)}
	seen := map[string]bool{}
	for len(g.words) < generatedWords {
		w := g.word()
		if !seen[w] {
			seen[w] = true
			g.words = append(g.words, w)
		}
	}
	copy(g.words, strings.Fields("the and of to a for in with your agent data from on is by or that as it be are this"))
	return g
}

// word returns a new word of two to four syllables.
func (g *generator) word() string {
	const begins, middles, ends = "b c d f g h j k l m n p r s t v w br cl cr dr fl gr pl pr sh st tr th", "a e i o u ai ea ie ou", "n r s t l m d ng nt st"
	pick := func(list string) string {
		all := strings.Fields(list)
		return all[g.r.IntN(len(all))]
	}
	w := ""
	for range 2 + g.r.IntN(3) {
		w += pick(begins) + pick(middles)
	}
	if g.r.IntN(2) == 0 {
		w += pick(ends)
	}
	return w
}

func (g *generator) text(min, max int) string {
	words := make([]string, min+g.r.IntN(max-min+1))
	for i := range words {
		words[i] = g.words[g.common.Uint64()]
	}
	return strings.Join(words, " ")
}

func (g *generator) doc() Doc {
	n := g.id
	g.id++
	at := time.UnixMilli(1_700_000_000_000 + int64(n)*1000)
	random := [10]byte{0: byte(n >> 8), 1: byte(n), 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n), 8: byte(g.r.IntN(256))}
	d := Doc{
		AgentID: parley.NewID[parley.AgentID](parley.Slot(n%4096), at, random), OrgID: orgID(g.r.IntN(20_000)),
		Name: g.text(2, 4), Description: g.text(35, 65), Created: at, Updated: at, Verified: g.r.IntN(3) == 0,
		Categories:   []string{fmt.Sprintf("category-%d", g.r.IntN(40)), fmt.Sprintf("category-%d", g.r.IntN(8))},
		Languages:    []string{"en", []string{"de", "fr", "es", "ja", "en-GB", "pt-BR"}[g.r.IntN(6)]},
		Jurisdiction: []string{"US", "DE", "FR", "JP", "BR", "IN"}[g.r.IntN(6)], PricingModel: []string{"free", "per_request", "subscription", "negotiated"}[g.r.IntN(4)],
		MessageTypes: []string{"text.message.v1", fmt.Sprintf("task.%d.v1", g.r.IntN(200))},
	}
	if n%5 == 0 {
		d.Name += " " + g.word() + g.word()
	}
	for range 1 + g.r.IntN(4) {
		s := Skill{Name: g.text(1, 3), Description: g.text(6, 14)}
		for range 1 + g.r.IntN(4) {
			s.Tags = append(s.Tags, g.words[500+g.r.IntN(3000)])
		}
		d.Skills = append(d.Skills, s)
	}
	return d
}

// misspelled returns a word with one error: two letters swapped, one dropped or one
// replaced.
func (g *generator) misspelled(word string) string {
	if len(word) < 4 {
		return word
	}
	i := 1 + g.r.IntN(len(word)-2)
	switch g.r.IntN(3) {
	case 0:
		return word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:]
	case 1:
		return word[:i] + word[i+1:]
	}
	return word[:i] + string(rune('a'+g.r.IntN(26))) + word[i+1:]
}
