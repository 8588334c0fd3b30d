package directory

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/client/parley"
)

// walker walks through all pages of a query while cards change. It knows what was there
// when it began and which of it never changed.
type walker struct {
	r       *rand.Rand
	x       *Index
	c       corpus
	vectors map[parley.AgentID][]float32
	clock   int64
}

func newWalker(seed uint64, cards int) *walker {
	w := &walker{r: rand.New(rand.NewPCG(seed, 8)), c: corpus{}, vectors: map[parley.AgentID][]float32{}, clock: 1_750_000_000_000}
	w.x = New(Options{Dim: testDim, Instance: 1})
	for n := range cards {
		w.put(n)
	}
	return w
}

func (w *walker) put(n int) parley.AgentID {
	w.clock++
	d, v := randomDoc(w.r, n), randomVector(w.r)
	d.Updated = time.UnixMilli(w.clock)
	if err := w.x.Put(d, v); err != nil {
		panic(err)
	}
	if former, there := w.c[d.AgentID]; v == nil && there && former.EmbeddingText() == d.EmbeddingText() {
		v = w.vectors[d.AgentID]
	}
	w.c[d.AgentID], w.vectors[d.AgentID] = d, v
	return d.AgentID
}

// change puts or removes a card and returns its agent.
func (w *walker) change() parley.AgentID {
	n := w.r.IntN(70)
	if w.r.IntN(3) == 0 {
		w.clock++
		id := agentID(n)
		w.x.Remove(id)
		delete(w.c, id)
		delete(w.vectors, id)
		return id
	}
	return w.put(n)
}

// walk returns what a walk shows. between is called before each further page; it returns
// the agents that it changed.
func (w *walker) walk(q Query, between func() []parley.AgentID) (shown []parley.AnyID, first int, err error) {
	changed := map[parley.AnyID]bool{}
	score := 2.0
	for page := 0; ; page++ {
		q.NowMS = w.clock
		r, err := w.x.Search(q)
		if err != nil {
			return shown, first, err
		}
		if page == 0 {
			first = *r.Total
		}
		for _, row := range r.Rows {
			if slices.Contains(shown, row.ID) {
				return nil, 0, fmt.Errorf("%v is there twice", row.ID)
			}
			if changed[row.ID] {
				return nil, 0, fmt.Errorf("%v changed after the first page and is shown", row.ID)
			}
			if r.Scored && (row.Score > score || row.Score <= 0 || len(shown) == 0 && row.Score != 1) {
				return nil, 0, fmt.Errorf("score %v follows %v", row.Score, score)
			}
			score = row.Score
			shown = append(shown, row.ID)
		}
		if r.Next == nil {
			return shown, first, nil
		}
		q.Position = r.Next
		for _, id := range between() {
			changed[parley.AnyID(id)] = true
		}
	}
}

// In a walk no card comes twice, and none that did not change is missed, in every order
// and with every mode, however the index changes between pages.
func TestWalkWhileCardsChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalker(rapid.Uint64().Draw(t, "seed"), 60)
		for range 8 {
			q := randomQuery(w.r)
			q.Limit = 1 + w.r.IntN(4)
			before := everyID(t, w.x, q)
			touched := map[parley.AnyID]bool{}
			shown, total, err := w.walk(q, func() (ids []parley.AgentID) {
				for range w.r.IntN(5) {
					id := w.change()
					touched[parley.AnyID(id)] = true
					ids = append(ids, id)
				}
				return ids
			})
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			if total != len(before) {
				t.Fatalf("%+v: the total is %d, want %d", q, total, len(before))
			}
			for _, id := range before {
				if !touched[id] && !slices.Contains(shown, id) {
					t.Fatalf("%+v: %v did not change and is missed", q, id)
				}
			}
			for _, id := range shown {
				if !slices.Contains(before, id) {
					t.Fatalf("%+v: %v was not there at the first page", q, id)
				}
			}
		}
	})
}

// everyID returns what a query finds.
func everyID(t fataler, x *Index, q Query) (ids []parley.AnyID) {
	q.Limit = LimitMax
	rows, _ := everyRow(t, x, q)
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// A walk goes on in another process that has the same cards, and in the same one after
// the removed cards are compacted away. If the ranking is another by then, it is refused
// rather than continued with a card twice or missed.
func TestWalkGoesOnElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalker(rapid.Uint64().Draw(t, "seed"), 60)
		elsewhere := rapid.Bool().Draw(t, "elsewhere")
		changes := rapid.IntRange(0, 3).Draw(t, "changes")
		for range 8 {
			q := randomQuery(w.r)
			q.Limit = 1 + w.r.IntN(4)
			before := everyID(t, w.x, q)
			touched := map[parley.AnyID]bool{}
			pages := 0
			shown, _, err := w.walk(q, func() (ids []parley.AgentID) {
				if pages++; pages > 1 {
					return nil
				}
				for range changes {
					id := w.change()
					touched[parley.AnyID(id)] = true
					ids = append(ids, id)
				}
				if elsewhere {
					w.rebuild()
				} else {
					w.x.compact(w.x.state.Load(), 0)
				}
				return ids
			})
			ranked := q.Sort == ByRelevance && (q.Vector != nil || len(queryWords(q.Text)) > 0)
			if errors.Is(err, ErrPosition) && ranked && changes > 0 {
				continue
			}
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			if searched := q.Vector != nil || len(queryWords(q.Text)) > 0; searched && changes > 0 {
				continue // what words find may be another set; nothing came twice
			}
			for _, id := range before {
				if !touched[id] && !slices.Contains(shown, id) {
					t.Fatalf("%+v: %v did not change and is missed", q, id)
				}
			}
		}
	})
}

// rebuild replaces the index by one of another process.
func (w *walker) rebuild() {
	w.x = New(Options{Dim: testDim, Instance: w.x.options.Instance + 1})
	ids := slices.Collect(maps.Keys(w.c))
	w.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		if err := w.x.Put(w.c[id], w.vectors[id]); err != nil {
			panic(err)
		}
	}
}

// Controls: without each of the protections, a walk goes wrong, and these tests notice.
func TestWalkControls(t *testing.T) {
	wrong := func(spoil func(*walker, *Query)) int {
		n := 0
		for seed := range uint64(150) {
			w := newWalker(seed, 60)
			q := randomQuery(w.r)
			q.Limit = 2
			before := everyID(t, w.x, q)
			touched := map[parley.AnyID]bool{}
			shown, err := w.spoiled(q, spoil, touched)
			if err != nil {
				n++
				continue
			}
			for _, id := range before {
				if !touched[id] && !slices.Contains(shown, id) {
					n++
					break
				}
			}
		}
		return n
	}
	if n := wrong(func(*walker, *Query) {}); n != 0 {
		t.Fatalf("%d walks go wrong although nothing is spoiled", n)
	}
	if n := wrong(func(w *walker, q *Query) {
		p := mustParse(t, *q)
		p.generation = w.x.Generation()
		q.Position = p.encode()
	}); n == 0 {
		t.Error("no walk goes wrong when positions forget the version that they belong to")
	}
	if n := wrong(func(w *walker, q *Query) {
		p := mustParse(t, *q)
		p.instance, p.asOfMS = 99, w.clock
		if p.kind == positionRanked {
			v := w.x.state.Load().now()
			m := w.x.borrow(v.limit)
			v.narrow(m, q.filters())
			target, _ := w.x.vectorOf(q.Vector)
			ranking, _ := v.ranking(m, v.expand(queryWords(q.Text)), target, q)
			p.offset = min(p.offset, len(ranking))
			p.passed = passed(v, ranking[:p.offset])
		}
		q.Position = p.encode()
	}); n == 0 {
		t.Error("no walk goes wrong when a ranking is continued unchecked")
	}
}

// spoiled walks with three changes between pages; spoil may change the query's position.
func (w *walker) spoiled(q Query, spoil func(*walker, *Query), touched map[parley.AnyID]bool) (shown []parley.AnyID, err error) {
	for {
		q.NowMS = w.clock
		r, err := w.x.Search(q)
		if err != nil {
			return nil, err
		}
		for _, row := range r.Rows {
			if slices.Contains(shown, row.ID) {
				return nil, errors.New("twice")
			}
			shown = append(shown, row.ID)
		}
		if r.Next == nil || len(shown) > 500 {
			return shown, nil
		}
		q.Position = r.Next
		for range 3 {
			touched[parley.AnyID(w.change())] = true
		}
		spoil(w, &q)
	}
}

func mustParse(t *testing.T, q Query) *position {
	t.Helper()
	p, err := parsePosition(&q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A position of another list, or a damaged one, is refused and never panics.
func FuzzPosition(f *testing.F) {
	w := newWalker(1, 30)
	for _, q := range []Query{{Limit: 2}, {Limit: 2, Sort: ByName}, {Limit: 2, Text: "invoice"}} {
		r, err := w.x.Search(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(r.Next, uint8(q.Sort), q.Text)
		f.Add(r.Next[:len(r.Next)-1], uint8(ByCreated), "")
	}
	f.Fuzz(func(t *testing.T, position []byte, sort uint8, text string) {
		r, err := w.x.Search(Query{Limit: 3, Sort: Sort(sort), Text: text, Position: position})
		if err != nil && r != nil || err == nil && len(r.Rows) > 3 {
			t.Fatal(r, err)
		}
	})
}
