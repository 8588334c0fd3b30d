package directory

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"parley/client/parley"
)

// search finds the page of a query.
func (x *index) search(q *Query) (*Result, error) {
	p, err := parsePosition(q)
	if err != nil {
		return nil, err
	}
	target, err := x.vectorOf(q.Vector)
	if err != nil {
		return nil, err
	}
	words := queryWords(q.Text)
	if q.Sort > ByCreated {
		return nil, parley.Refuse(parley.Invalid, "validation_error", "The order is unknown.")
	}
	v, expanded := x.version(p, words)
	m := x.borrow(v.limit)
	defer x.giveBack(m)
	v.narrow(m, q.filters())
	if p != nil && !p.exact(x, v) {
		v.before(m, p.asOfMS)
	}
	r := &Result{Rows: []Row{}, Modes: q.modes(len(words))}
	if p == nil {
		p = &position{instance: x.options.Instance, generation: v.generation, asOfMS: q.NowMS}
	}
	if len(words) == 0 && q.Vector == nil {
		v.browse(m, q, p, r)
		total := 0
		for _, word := range m.allowed[:(v.limit+63)/64] {
			total += bits.OnesCount64(word)
		}
		r.Total = &total
		return r, nil
	}
	first, named := v.find(m, q.First)
	ranking, whole := v.ranking(m, expanded, target, q)
	if named {
		ranking = preceded(ranking, first)
	}
	if whole {
		total := len(ranking)
		r.Total = &total
	}
	if q.Sort == ByRelevance {
		return r, v.ranked(ranking, q, p, r)
	}
	clear(m.allowed)
	for _, h := range ranking {
		m.allowed[h.ordinal/64] |= 1 << (h.ordinal % 64)
	}
	v.browse(m, q, p, r)
	return r, nil
}

// ranking returns the documents that the words or the vector find, the best first.
func (v *version) ranking(m *scratch, words []queryWord, target *vector, q *Query) (ranking []hit, whole bool) {
	whole = true
	full := float64(len(queryWords(q.Text))) * float64(v.rarity(0))
	var text, semantic []hit
	switch {
	case q.every && len(words) < len(queryWords(q.Text)): // no document has the others
	case len(words) > 0:
		text, whole = v.byWords(m, words, q.every)
	}
	if target != nil {
		var all bool
		semantic, all = v.byVector(m, newTarget(target.data), q.Threshold)
		whole = whole && all
	}
	switch {
	case q.Vector == nil:
		return text, whole
	case strings.TrimSpace(q.Text) == "":
		return semantic, whole
	}
	return v.fused(text, semantic, full), whole
}

// find returns the number of an allowed document.
func (v *version) find(m *scratch, id parley.AnyID) (ordinal uint32, found bool) {
	if id.Zero() {
		return 0, false
	}
	v.eachAllowed(m, func(at uint32, p *page, i int) {
		if p.cards[i].id == id {
			ordinal, found = at, true
		}
	})
	return ordinal, found
}

// preceded returns a ranking with a document at its beginning.
func preceded(ranking []hit, first uint32) []hit {
	all := append(make([]hit, 0, len(ranking)+1), hit{first, 1})
	for _, h := range ranking {
		if h.ordinal != first {
			all = append(all, h)
		}
	}
	if len(all) > 1 {
		all[0].score = max(all[1].score, ranking[0].score)
	}
	return all
}

// tries is how often a search looks for a moment in which no change is under way.
const tries = 4

// version returns what a search is to see, and the terms for its words. The counters of
// terms belong to the published state only between changes: if a search does not find
// such a moment, it counts the documents itself.
func (x *index) version(p *position, words []string) (*version, []queryWord) {
	for range tries {
		changes := x.changes.Load()
		s := x.state.Load()
		if p != nil && p.reproducible(x, s) && p.generation != s.generation {
			v := s.asOf(p.generation)
			return v, v.expand(words)
		}
		v := s.now()
		expanded := v.expand(words)
		if len(words) == 0 || changes%2 == 0 && x.changes.Load() == changes {
			return v, expanded
		}
	}
	v := x.state.Load().now()
	v.counted = true
	return v, v.expand(words)
}

// before removes the documents that changed after a time.
func (v *version) before(m *scratch, asOfMS int64) {
	v.eachAllowed(m, func(ordinal uint32, p *page, i int) {
		if p.cards[i].updated > asOfMS {
			m.allowed[ordinal/64] &^= 1 << (ordinal % 64)
		}
	})
}

// ranked fills in a page of a ranking.
func (v *version) ranked(ranking []hit, q *Query, p *position, r *Result) error {
	if p.offset > len(ranking) || p.passed != passed(v, ranking[:p.offset]) {
		return ErrPosition
	}
	r.Scored = true
	limit := q.limit()
	i, ceiling := p.offset, 1.0
	if i > 0 {
		ceiling = p.score
	}
	for ; i < len(ranking) && len(r.Rows) < limit; i++ {
		if h := ranking[i]; v.state.isLive(h.ordinal) {
			ceiling = min(ceiling, h.score/ranking[0].score)
			r.Rows = append(r.Rows, Row{v.card(h.ordinal).id, ceiling})
		}
	}
	more := slices.ContainsFunc(ranking[i:], func(h hit) bool { return v.state.isLive(h.ordinal) })
	if more {
		next := *p
		next.kind, next.offset, next.passed, next.score = positionRanked, i, passed(v, ranking[:i]), ceiling
		r.Next = next.encode()
	}
	return nil
}

func (q *Query) limit() int { return max(1, min(q.Limit, LimitMax)) }

// browse fills in a page of the allowed documents, in an order that does not depend on
// other documents.
func (v *version) browse(m *scratch, q *Query, p *position, r *Result) {
	limit := q.limit()
	w := window{order: order{byName: q.Sort == ByName, oldest: q.oldest}, max: limit + 1}
	each := v.eachAllowed
	if w.order.newest() { // most documents have numbers in the order in which their agents were created
		each = v.eachAllowedBackwards
	}
	each(m, func(ordinal uint32, page *page, i int) {
		if w.order.newest() && w.bounded && page.created[i] < w.bound.created || !v.state.isLive(ordinal) {
			return
		}
		k := key{created: page.created[i], begin: page.begin[i], card: page.cards[i]}
		if p.kind == positionKeyed && w.order.compare(&k, &p.after) <= 0 {
			return
		}
		w.offer(&k)
	})
	w.sort()
	keys := w.keys[:min(len(w.keys), limit)]
	for _, k := range keys {
		r.Rows = append(r.Rows, Row{ID: k.card.id})
	}
	if len(w.keys) > limit {
		next := *p
		next.kind, next.after, next.byName = positionKeyed, keys[limit-1], q.Sort == ByName
		r.Next = next.encode()
	}
}

// key is where a document is in an order.
type key struct {
	created int64
	begin   uint64
	card    *card
}

// order compares keys: by name, or the newest or the oldest first.
type order struct{ byName, oldest bool }

func (o order) newest() bool { return !o.byName && !o.oldest }

func (o order) compare(a, b *key) int {
	if !o.byName {
		if a.created != b.created {
			if o.oldest {
				a, b = b, a
			}
			return cmp.Compare(b.created, a.created)
		}
		return bytes.Compare(a.card.id[:], b.card.id[:])
	}
	if a.begin != b.begin {
		return cmp.Compare(a.begin, b.begin)
	}
	if c := strings.Compare(a.card.key, b.card.key); c != 0 {
		return c
	}
	return bytes.Compare(a.card.id[:], b.card.id[:])
}

// window keeps the first keys of an order. It collects twice as many and then drops the
// later half, so that an offer costs one comparison in most cases.
type window struct {
	order order
	max   int
	keys  []key
	// bounded says that nothing after bound is among the first.
	bounded bool
	bound   key
}

func (w *window) offer(k *key) {
	if w.bounded && w.order.compare(k, &w.bound) > 0 {
		return
	}
	if w.keys = append(w.keys, *k); len(w.keys) == 2*w.max {
		w.sort()
		w.keys = w.keys[:w.max]
		w.bounded, w.bound = true, w.keys[w.max-1]
	}
}

func (w *window) sort() {
	slices.SortFunc(w.keys, func(a, b key) int { return w.order.compare(&a, &b) })
}
