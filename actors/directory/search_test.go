package directory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
)

// indexOf returns an index of cards, of which number n is agentID(n), and later ones are
// newer.
func indexOf(t fataler, docs ...Doc) *Index {
	x := New(Options{Dim: 2})
	for n, d := range docs {
		d.AgentID, d.Created = agentID(n), time.UnixMilli(int64(n))
		if err := x.Put(d, nil); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return x
}

// finds returns the numbers of the cards that a query finds.
func finds(t fataler, x *Index, q Query) []int {
	numbers := []int{}
	for _, id := range everyID(t, x, q) {
		numbers = append(numbers, int(id[13])<<16|int(id[14])<<8|int(id[15]))
	}
	return numbers
}

func TestFieldsByWeight(t *testing.T) {
	x := indexOf(t,
		Doc{Name: "one", Description: "a b c", Skills: []Skill{{Name: "d", Description: "e", Tags: []string{"falcon"}}}},
		Doc{Name: "two", Description: "a b c", Skills: []Skill{{Name: "falcon", Description: "e", Tags: []string{"f"}}}},
		Doc{Name: "three", Description: "a falcon c", Skills: []Skill{{Name: "d", Description: "e", Tags: []string{"f"}}}},
		Doc{Name: "falcon", Description: "a b c", Skills: []Skill{{Name: "d", Description: "e", Tags: []string{"f"}}}},
		Doc{Name: "other", Description: "a b c", Skills: []Skill{{Name: "d", Description: "e", Tags: []string{"f"}}}},
	)
	if got := finds(t, x, Query{Text: "FALCON"}); !slices.Equal(got, []int{3, 2, 1, 0}) {
		t.Errorf("got %v, want name, description, skill, tag", got)
	}
}

// TestFirst: the document that was named precedes those that rank better, once in all pages, with
// their score; it must pass the filters, and it takes its place where the order is another.
func TestFirst(t *testing.T) {
	x := indexOf(t,
		Doc{Name: "falcon"}, Doc{Name: "falcon of falcons"}, Doc{Name: "owl", Categories: []string{"night"}},
		Doc{Name: "a falcon in a description", Description: "falcon"},
	)
	named := func(n int) parley.AnyID { return parley.AnyID(agentID(n)) }
	plain := finds(t, x, Query{Text: "falcon"})
	for n := range 4 {
		want := append([]int{n}, slices.DeleteFunc(slices.Clone(plain), func(other int) bool { return other == n })...)
		for _, limit := range []int{1, 2, 10} {
			if got := finds(t, x, Query{Text: "falcon", First: named(n), Limit: limit}); !slices.Equal(got, want) {
				t.Errorf("first %d, %d a page: %v, want %v", n, limit, got, want)
			}
		}
	}
	if got := finds(t, x, Query{Text: "nothing", First: named(2)}); !slices.Equal(got, []int{2}) {
		t.Errorf("without a word: %v", got)
	}
	if got := finds(t, x, Query{Text: "falcon", First: named(0), Categories: []string{"night"}}); len(got) != 0 {
		t.Errorf("filtered: %v", got)
	}
	if got := finds(t, x, Query{Text: "falcon", First: named(9)}); !slices.Equal(got, plain) {
		t.Errorf("not in the index: %v", got)
	}
	r, err := x.Search(Query{Text: "falcon", First: named(2), Limit: 10})
	if err != nil || r.Rows[0].Score != 1 || r.Rows[1].Score != 1 || *r.Total != 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWords(t *testing.T) {
	x := indexOf(t,
		Doc{Name: "Übersetzer", Description: "Translates contracts with node.js in Zürich"},
		Doc{Name: "Weather", Description: "Forecasts of storms and rain"},
		Doc{Name: "The Who", Description: "A band"},
		Doc{Name: "日本語", Description: "翻訳サービス"},
		Doc{Name: "Bookkeeper", Description: "Reconciles invoices"},
		Doc{Name: "Cat", Description: "cat"}, Doc{Name: "Category", Description: "catalogue"},
	)
	for query, want := range map[string][]int{
		"ubersetzer": {0}, "ZURICH": {0}, "node": {0}, "node.js": {0}, "js": {0}, // folded, in parts
		"forecast": {1}, "forecasting": {1}, "raining": {1}, // by stem
		"wea": {1}, "rec": {4}, // by beginning
		"forcast": {1}, "wether": {1}, "stroms": {1}, "bookeeper": {4}, "recnociles": {4}, "contarcts": {0}, // misspelled
		"the who": {2}, "the": {2}, // a name of stop words
		"who is the weather": {1}, // stop words do not count beside others
		"日":                  {3}, "翻訳": {3},
		"cat":      {5, 6}, // the word itself before those that begin with it
		"cat rain": {5, 1}, "zzzzzz": {}, "   ": {6, 5, 4, 3, 2, 1, 0}, "%&/": {6, 5, 4, 3, 2, 1, 0},
	} {
		if got := finds(t, x, Query{Text: query}); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestModes(t *testing.T) {
	x := indexOf(t, Doc{Name: "a"})
	yes := true
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{}, []string{}},
		{Query{Text: " "}, []string{}},
		{Query{Text: "a"}, []string{ModeText}},
		{Query{Verified: &yes}, []string{ModeStructured}},
		{Query{Categories: []string{" "}}, []string{}},
		{Query{Text: "a", Vector: []float32{1, 0}, Tags: []string{"x"}}, []string{ModeText, ModeStructured, ModeSemantic}},
		{Query{Vector: []float32{1, 0}}, []string{ModeSemantic}},
		{Query{Sort: ByName}, []string{}},
	} {
		c.q.Limit = 1
		r, err := x.Search(c.q)
		if err != nil || !slices.Equal(r.Modes, c.want) || r.Modes == nil {
			t.Errorf("%+v: got %v %v, want %v", c.q, r, err, c.want)
		}
	}
	if _, err := x.Search(Query{Vector: []float32{1}}); !errors.Is(err, ErrVector) {
		t.Errorf("a vector of another dimension: %v", err)
	}
	if _, err := x.Search(Query{Sort: 3}); err == nil {
		t.Error("an unknown order is accepted")
	}
	if err := x.Put(Doc{}, []float32{1, 2, 3}); !errors.Is(err, ErrVector) {
		t.Errorf("a card with a vector of another dimension: %v", err)
	}
}

// Semantic search returns what is above the threshold, nearest first; with words, both
// rankings count.
func TestSemanticAndBoth(t *testing.T) {
	x := New(Options{Dim: 2})
	put := func(n int, name string, v ...float32) {
		if err := x.Put(Doc{AgentID: agentID(n), Name: name}, v); err != nil {
			t.Fatal(err)
		}
	}
	put(0, "alpha", 1, 0)
	put(1, "beta", 3, 4)
	put(2, "gamma", 0, 1)
	put(3, "delta beta", 0, 0)
	put(4, "epsilon")
	if got := finds(t, x, Query{Vector: []float32{2, 0}, Threshold: 0.5}); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("semantic: %v", got)
	}
	if got := finds(t, x, Query{Vector: []float32{0, 0}, Threshold: 0.5}); len(got) != 0 {
		t.Errorf("a vector without direction finds %v", got)
	}
	if got := finds(t, x, Query{Text: "beta", Vector: []float32{1, 0}, Threshold: 0.5}); !slices.Equal(got, []int{1, 0, 3}) {
		t.Errorf("both: %v", got)
	}
	done, err := x.SetVector(agentID(3), "delta beta\n", []float32{1, 0})
	if err != nil || !done {
		t.Fatal(done, err)
	}
	if done, err = x.SetVector(agentID(3), "former text", []float32{0, 1}); err != nil || done {
		t.Error("the vector of a former text is taken")
	}
	if got := finds(t, x, Query{Vector: []float32{1, 0}, Threshold: 0.9}); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("after SetVector: %v", got)
	}
	if ids := x.WithoutVector(10); !slices.Equal(ids, []parley.AgentID{agentID(4)}) {
		t.Errorf("without vector: %v", ids)
	}
	if done, err = x.SetVector(agentID(4), "epsilon\n", []float32{0, 0}); err != nil || !done || len(x.WithoutVector(10)) != 0 {
		t.Errorf("a text that means nothing stays without vector: %v, %v", done, err)
	}
	if got := finds(t, x, Query{Vector: []float32{1, 0}, Threshold: 0.1}); slices.Contains(got, 4) {
		t.Errorf("a text that means nothing is found: %v", got)
	}
}

// Cosines computed in blocks are those computed one by one.
func TestCosines(t *testing.T) {
	g := newGenerator(3)
	x := New(Options{Dim: benchDim})
	stored := map[parley.AnyID][]float32{}
	for n := range 300 {
		v := g.vector()
		if n%3 == 0 {
			v = g.fewNumbers()
		}
		if err := x.Put(Doc{AgentID: agentID(n)}, v); err != nil {
			t.Fatal(err)
		}
		stored[parley.AnyID(agentID(n))] = normalized(v)
	}
	for _, query := range [][]float32{g.vector(), g.fewNumbers()} {
		q := Query{Vector: query, Threshold: 0.02, Limit: LimitMax}
		wanted := 0
		cosine := func(v []float32) (sum float64) {
			for d, f := range normalized(query) {
				sum += float64(f) * float64(v[d])
			}
			return sum
		}
		best := 0.0
		for _, v := range stored {
			if c := cosine(v); c >= 0.02 {
				wanted++
				best = max(best, c)
			}
		}
		rows, _ := everyRow(t, x, q)
		if len(rows) != min(wanted, SemanticMax) || wanted == 0 {
			t.Errorf("found %d, want %d", len(rows), wanted)
		}
		for _, row := range rows {
			if want := cosine(stored[row.ID]) / best; math.Abs(row.Score-want) > 1e-4 {
				t.Errorf("%v: score %v, want %v", row.ID, row.Score, want)
			}
		}
	}
}

// What a bound cuts makes the total unknown.
func TestBounds(t *testing.T) {
	x := New(Options{Dim: 2})
	const cards = TextMax + 50
	for n := range cards {
		if err := x.Put(Doc{AgentID: agentID(n), Name: fmt.Sprint("common ", n%7), Created: time.UnixMilli(1)}, []float32{1, 0}); err != nil {
			t.Fatal(err)
		}
	}
	total := func(q Query) (*int, int) {
		rows, first := everyRow(t, x, q)
		return first.Total, len(rows)
	}
	q := Query{Limit: 100}
	if n, rows := total(q); n == nil || *n != cards || rows != cards {
		t.Errorf("browsing: %v, %d rows", n, rows)
	}
	q.Text = "common"
	if n, rows := total(q); n != nil || rows != TextMax {
		t.Errorf("text: total %v, %d rows", n, rows)
	}
	q.Text = "3"
	if n, rows := total(q); n == nil || *n != cards/7 || rows != cards/7 {
		t.Errorf("a rare word: total %v, %d rows", n, rows)
	}
	q.Text, q.Vector = "", []float32{1, 0}
	if n, rows := total(q); n != nil || rows != SemanticMax {
		t.Errorf("semantic: total %v, %d rows", n, rows)
	}
	q = Query{Limit: 1000}
	if r, err := x.Search(q); err != nil || len(r.Rows) != LimitMax {
		t.Errorf("limit 1000: %v %v", r, err)
	}
	long := strings.Repeat("common ", 100_000) + "3"
	if words := queryWords(long); len(words) > wordsMax {
		t.Errorf("%d words of a long text count", len(words))
	}
	var many []string
	for n := range 200 {
		many = append(many, fmt.Sprint("word", n))
	}
	if words := queryWords(strings.Join(many, " ")); len(words) != wordsMax {
		t.Errorf("%d words count, want %d", len(words), wordsMax)
	}
	v := x.state.Load().now()
	for _, w := range v.expand([]string{"commno", "c"}) {
		if len(w.variants) > 3*variantsMax+1 {
			t.Errorf("%d terms stand for a word", len(w.variants))
		}
	}
}

// Misspelled words of names find their card among 5,000.
func TestMisspellings(t *testing.T) {
	g := newGenerator(5)
	x := New(Options{})
	var docs []Doc
	for range 5000 {
		d := g.doc()
		docs = append(docs, d)
		if err := x.Put(d, nil); err != nil {
			t.Fatal(err)
		}
	}
	found, tried := 0, 0
	for n := 0; n < len(docs); n += 5 { // every fifth name ends in a word of its own
		name := strings.Fields(docs[n].Name)
		tried++
		r, err := x.Search(Query{Text: g.misspelled(name[len(name)-1]), Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Rows, func(row Row) bool { return row.ID == parley.AnyID(docs[n].AgentID) }) {
			found++
		}
	}
	t.Logf("found %d of %d", found, tried)
	if found < tried*98/100 {
		t.Errorf("found %d of %d, want 98%%", found, tried)
	}
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"a", ""}: 1, {"invoice", "invoice"}: 0, {"invioce", "invoice"}: 1, {"invice", "invoice"}: 1,
		{"kitten", "sitting"}: 3, {"ca", "abc"}: 3, {"über", "uber"}: 1, {"abcdef", "ghijkl"}: 4,
	} {
		if got := distance([]rune(pair[0]), []rune(pair[1]), 3); got != want {
			t.Errorf("%q: got %d, want %d", pair, got, want)
		}
	}
}

func TestLengthByte(t *testing.T) {
	last := -1
	for n := range 10_000 {
		got := lengthOf(lengthByte(n))
		if got > n || got < n*7/8 || got < last {
			t.Fatalf("%d is stored as %d after %d", n, got, last)
		}
		last = got
	}
}

func TestGroups(t *testing.T) {
	x := NewGroups(1)
	group := func(n int, name, handle, description string) GroupDoc {
		at := time.UnixMilli(int64(n))
		return GroupDoc{GroupID: parley.GroupID(agentID(n)), Name: name, Handle: handle, Description: description, Created: at, Updated: at}
	}
	x.Put(group(0, "Falcon", "#one@acme.example", "x"))
	x.Put(group(1, "One", "#falcon@acme.example", "x"))
	x.Put(group(2, "Two", "#two@acme.example", "about the falcon"))
	x.Put(group(3, "Three", "#three@globex.example", "x"))
	search := func(text string) (found []int) {
		var position []byte
		for {
			r, err := x.Search(Query{Text: text, Limit: 2, Position: position, NowMS: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range r.Rows {
				found = append(found, int(row.ID[15]))
			}
			if position = r.Next; position == nil {
				return found
			}
		}
	}
	for text, want := range map[string][]int{
		"falcon": {0, 1, 2}, "globex": {3}, "": {0, 1, 2, 3}, "nothing": nil,
		"falcon one": {1, 0}, "falcon globex": nil, "falcon nothing": nil, "two about the falcon": {2}, "falcn acme": {0, 1, 2},
	} {
		if got := search(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if !x.Remove(parley.GroupID(agentID(3))) || x.Remove(parley.GroupID(agentID(3))) || search("globex") != nil {
		t.Error("a removed group is found")
	}
}

// To put what is there already changes nothing, so walks go on as before.
func TestPutTheSame(t *testing.T) {
	x := New(Options{Dim: testDim, Instance: 1})
	r := rand.New(rand.NewPCG(1, 9))
	docs := map[int]Doc{}
	for n := range 30 {
		docs[n] = randomDoc(r, n)
		if err := x.Put(docs[n], randomVector(r)); err != nil {
			t.Fatal(err)
		}
	}
	before := x.Generation()
	for _, d := range docs {
		if err := x.Put(d, nil); err != nil || x.Generation() != before {
			t.Fatalf("generation %d, want %d: %v", x.Generation(), before, err)
		}
	}
	for n, change := range []func(*Doc){
		func(d *Doc) { d.Name += " more" }, func(d *Doc) { d.Description = "other words" }, func(d *Doc) { d.Verified = !d.Verified },
		func(d *Doc) { d.OrgID = orgID(77) }, func(d *Doc) { d.Created = d.Created.Add(time.Second) }, func(d *Doc) { d.Updated = d.Updated.Add(time.Second) },
		func(d *Doc) { d.Categories = append(slices.Clone(d.Categories), "another") }, func(d *Doc) { d.Name = strings.ToUpper(d.Name) + "." },
	} {
		d := docs[n]
		change(&d)
		if err := x.Put(d, nil); err != nil || x.Generation() == before {
			t.Errorf("change %d is ignored: %v", n, err)
		}
		before = x.Generation()
	}
}

// What is put is found by the next search, while other goroutines search and change.
func TestConcurrentChanges(t *testing.T) {
	x := New(Options{Dim: testDim, Instance: 1})
	x.retain = func(int) int { return 20 }
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for n := uint64(0); !done.Load(); n++ {
				w := newWalker(n, 0)
				for range 10 {
					q := randomQuery(w.r)
					for {
						r, err := x.Search(q)
						if errors.Is(err, ErrPosition) {
							break
						}
						if err != nil {
							t.Error(err)
							return
						}
						if q.Position = r.Next; q.Position == nil {
							break
						}
					}
					x.Categories()
				}
			}
		})
	}
	for n := range 2 {
		writers.Go(func() {
			w := newWalker(uint64(n), 0)
			for i := range 400 {
				id := n*1000 + i%100
				d := randomDoc(w.r, id)
				d.Name = fmt.Sprintf("unique%dx%d", n, i)
				if err := x.Put(d, randomVector(w.r)); err != nil {
					t.Error(err)
				}
				if got := finds(t, x, Query{Text: d.Name}); !slices.Contains(got, id) {
					t.Errorf("%s is not found at once: %v", d.Name, got)
				}
				if i%3 == 0 {
					x.Remove(d.AgentID)
					if got := finds(t, x, Query{Text: d.Name}); slices.Contains(got, id) {
						t.Errorf("%s is found after it was removed", d.Name)
					}
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
}
