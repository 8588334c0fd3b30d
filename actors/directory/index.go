package directory

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"parley/client/parley"
)

// Options say how an index is made.
type Options struct {
	// Embedder names what makes the vectors, Dim is how many numbers they have. An index
	// whose Dim is 0 takes no vectors.
	Embedder string
	Dim      int
	// Instance is a random number. Positions in lists name the instance that gave them
	// out, because generations count from 0 in each.
	Instance uint64
}

// ErrVector is returned for a vector of another length than the index has.
var ErrVector = errors.New("directory: the vector has another dimension than the index")

// index holds documents. One goroutine at a time changes it; readers load the state and
// never wait for a change.
type index struct {
	options Options
	state   atomic.Pointer[state]
	// changes is odd while counters of terms are ahead of the published state.
	changes atomic.Uint64
	scratch sync.Pool // of *scratch

	mu       sync.Mutex
	ordinals map[parley.AnyID]uint32
	// retain overrides how many removed documents are kept. It is set by tests only.
	retain func(live int) int

	counted atomic.Pointer[categoryCounts]
	begun   begun
}

// begun is where the search for documents without a vector begins: all live ones before it have
// one. Ordinals stay as long as the vocabulary does.
type begun struct {
	mu    sync.Mutex
	of    *vocabulary
	below uint32
}

func (x *index) init(o Options) {
	x.options, x.ordinals, x.retain = o, map[parley.AnyID]uint32{}, retained
	x.state.Store(&state{vocab: newVocabulary(), vals: newValues()})
}

// retained is how many of the last removed documents stay, so that walks which began
// before their removal can go on. When there are twice as many, half of them go.
func retained(live int) int { return 512 + live/16 }

// Len returns the number of documents.
func (x *index) Len() int { return x.state.Load().count }

// Generation returns the number of changes so far.
func (x *index) Generation() uint64 { return x.state.Load().generation }

// put adds or replaces a document. Without a vector, it keeps the one it had if the
// embedded text is the same, and notes the version only if all of the document is.
func (x *index) put(d *document, data []float32) error {
	v, err := x.vectorOf(data)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old, replaces := x.ordinals[d.id]
	if s := x.state.Load(); replaces && v == nil && s.holds(old, d) {
		s.card(old).version.Store(d.version)
		return nil
	}
	x.changes.Add(1)
	next := x.state.Load().next()
	if replaces {
		p, i := next.at(old)
		if former := p.vector(i); v == nil && former != nil && p.cards[i].embedded == d.embedded {
			v = &vector{data: former.data}
		}
		x.retire(next, old)
	}
	x.insert(next, d, next.vocab.known(d), v, false)
	x.state.Store(next)
	x.changes.Add(1)
	x.compactIfDue()
	return nil
}

// vectorOf returns a normalized copy of a vector, or nil for none and for one of length
// zero, which is near to nothing.
func (x *index) vectorOf(data []float32) (*vector, error) {
	if data == nil {
		return nil, nil
	}
	if len(data) != x.options.Dim {
		return nil, ErrVector
	}
	if data = normalized(data); data == nil {
		return nil, nil
	}
	return &vector{data: data}, nil
}

// insert adds a document to a state that is not published. terms holds those that its
// vocabulary has already, nil for others, and is filled. bulk says that no reader has
// its vocabulary and values; then settle ends the series.
func (x *index) insert(n *state, d *document, terms []*term, v *vector, bulk bool) {
	for i, t := range d.terms {
		if terms[i] == nil {
			terms[i] = n.vocab.intern(t.text, n.generation)
		}
	}
	ordinal := n.limit
	numbered := make([]uint64, len(terms))
	for i, t := range terms {
		if bulk {
			t.collect(ordinal, d.terms[i].f)
		} else {
			t.append(ordinal, d.terms[i].f)
		}
		t.live.Add(1)
		numbered[i] = uint64(t.id)<<8 | uint64(d.terms[i].f)
	}
	slices.Sort(numbered)
	vals := make([]uint32, len(d.values))
	for i, key := range d.values {
		val := n.vals.intern(key)
		if bulk {
			val.collect(ordinal)
		} else {
			val.append(ordinal)
		}
		val.live.Add(1)
		vals[i] = val.id
	}
	if v != nil {
		v.since = n.generation
	}
	n.add(d, newForward(numbered), vals)
	p, i := n.at(ordinal)
	p.setVector(i, v, bulk)
	x.ordinals[d.id] = ordinal
}

func (x *index) retire(n *state, ordinal uint32) {
	c := n.card(ordinal)
	all := n.vocab.terms()
	c.terms.each(func(id uint32, _ frequencies) { all[id].live.Add(-1) })
	for _, id := range c.values {
		n.vals.all()[id].live.Add(-1)
	}
	n.retire(ordinal)
	delete(x.ordinals, c.id)
}

// remove reports whether the document was there.
func (x *index) remove(id parley.AnyID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	ordinal, ok := x.ordinals[id]
	if !ok {
		return false
	}
	x.changes.Add(1)
	next := x.state.Load().next()
	x.retire(next, ordinal)
	x.state.Store(next)
	x.changes.Add(1)
	x.compactIfDue()
	return true
}

// compactIfDue drops documents that were removed long ago, with the terms and values
// that only they had. Readers keep the state they have.
func (x *index) compactIfDue() {
	s := x.state.Load()
	keep := x.retain(s.count)
	if dead := int(s.limit) - s.count; dead >= 2*keep {
		x.compact(s, keep)
	}
}

func (x *index) compact(s *state, keep int) {
	var deaths []uint64
	for ordinal := range s.limit {
		p, i := s.at(ordinal)
		if died := p.died[i].Load(); died != 0 {
			deaths = append(deaths, died)
		}
	}
	slices.Sort(deaths)
	n := &state{generation: s.generation, horizon: s.horizon, vocab: newVocabulary(), vals: newValues()}
	if gone := len(deaths) - keep; gone > 0 {
		n.horizon = deaths[gone-1]
	}
	n.live = make([]uint64, int(s.limit)/64+1)
	for ordinal := range s.limit {
		p, i := s.at(ordinal)
		died := p.died[i].Load()
		if died != 0 && died <= n.horizon {
			continue
		}
		// Ordinals ascend with generations, so a term gets the generation of the first
		// document that has it.
		n.generation = p.born[i]
		d := s.document(ordinal)
		x.insert(n, d, n.vocab.known(d), nil, true)
		to, j := n.at(n.limit - 1)
		to.setVector(j, p.vector(i), true)
		if died != 0 {
			x.retire(n, n.limit-1)
			to.died[j].Store(died)
		}
	}
	n.generation = s.generation
	n.settle()
	x.changes.Add(1)
	x.state.Store(n)
	x.changes.Add(1)
}

// setVector gives a stored document a vector. hash is that of the text which the vector
// was made of: the vector of a former text is dropped.
func (x *index) setVector(id parley.AnyID, hash uint64, data []float32) (bool, error) {
	v, err := x.vectorOf(data)
	if err != nil || data == nil {
		return false, err
	}
	if v == nil {
		// A text that means nothing is near to none. It has a vector all the same, so that
		// withoutVector does not return it forever, and in the end nothing else.
		v = &vector{data: make([]float32, len(data))}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state.Load()
	ordinal, ok := x.ordinals[id]
	if !ok || s.card(ordinal).embedded != hash {
		return false, nil
	}
	next := *s
	next.generation++
	v.since = next.generation
	p, i := s.at(ordinal)
	p.setVector(i, v, false)
	x.state.Store(&next)
	return true, nil
}

// categoryCounts are the counts of a generation.
type categoryCounts struct {
	generation uint64
	counts     []Count
}

// categories returns the categories of all documents, the most frequent first, then by
// name.
func (x *index) categories() []Count {
	s := x.state.Load()
	if c := x.counted.Load(); c != nil && c.generation == s.generation {
		return c.counts
	}
	counts := s.vals.counts(byCategory)
	slices.SortFunc(counts, func(a, b Count) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Name, b.Name)
	})
	x.counted.Store(&categoryCounts{s.generation, counts})
	return counts
}

// withoutVector returns up to limit documents that have no vector, the first added first.
func (x *index) withoutVector(limit int) []parley.AnyID {
	x.begun.mu.Lock()
	defer x.begun.mu.Unlock()
	s := x.state.Load()
	if x.begun.of != s.vocab {
		x.begun.of, x.begun.below = s.vocab, 0
	}
	var ids []parley.AnyID
	for ordinal := x.begun.below; ordinal < s.limit && len(ids) < limit; ordinal++ {
		if p, i := s.at(ordinal); s.isLive(ordinal) && !p.hasVector(i) {
			ids = append(ids, p.cards[i].id)
		} else if len(ids) == 0 {
			x.begun.below = ordinal + 1
		}
	}
	return ids
}

// Index holds the cards of agents. All methods may be called concurrently.
type Index struct{ index }

// New returns an empty index of cards.
func New(o Options) *Index {
	x := &Index{}
	x.init(o)
	return x
}

// Put adds a card or replaces the agent's card. The next search finds it. vector is the
// vector of its EmbeddingText, or nil if there is none yet (see SetVector); then a vector
// of the same text is kept. The only error is ErrVector.
func (x *Index) Put(d Doc, vector []float32) error { return x.put(d.analyzed(), vector) }

// Remove removes an agent's card and reports whether there was one.
func (x *Index) Remove(id parley.AgentID) bool { return x.remove(parley.AnyID(id)) }

// SetVector gives a card the vector of a text. It reports false, and does nothing, if the
// card is gone or its EmbeddingText is another by now. The only error is ErrVector.
func (x *Index) SetVector(id parley.AgentID, text string, vector []float32) (bool, error) {
	return x.setVector(parley.AnyID(id), hashOf(text), vector)
}

// WithoutVector returns up to limit agents whose cards have no vector, those that have
// waited longest first, except after ReadCheckpoint.
func (x *Index) WithoutVector(limit int) []parley.AgentID {
	var ids []parley.AgentID
	for _, id := range x.withoutVector(limit) {
		ids = append(ids, parley.AgentID(id))
	}
	return ids
}

// Versions calls do with each card's agent and organization, and the version that was last
// put, in no order.
func (x *Index) Versions(do func(parley.AgentID, parley.OrgID, uint64)) {
	s := x.state.Load()
	for ordinal := range s.limit {
		if c := s.card(ordinal); s.isLive(ordinal) {
			do(parley.AgentID(c.id), parley.OrgID(c.owner), c.version.Load())
		}
	}
}

// Search finds a page of cards. The errors are ErrPosition, ErrVector, and a refusal of
// an unknown order.
func (x *Index) Search(q Query) (*Result, error) { return x.search(&q) }

// Categories returns the categories of all cards and how many cards have each, the most
// frequent first, then by name. The caller must not change the result.
func (x *Index) Categories() []Count { return x.categories() }

// Groups holds public groups. All methods may be called concurrently.
type Groups struct{ index }

// NewGroups returns an empty index of groups. It takes no vectors.
func NewGroups(instance uint64) *Groups {
	x := &Groups{}
	x.init(Options{Instance: instance})
	return x
}

// Each calls do with each group, in no order.
func (x *Groups) Each(do func(parley.GroupID)) {
	s := x.state.Load()
	for ordinal := range s.limit {
		if s.isLive(ordinal) {
			do(parley.GroupID(s.card(ordinal).id))
		}
	}
}

// Put adds or replaces a group.
func (x *Groups) Put(d GroupDoc) { _ = x.put(d.analyzed(), nil) }

// Remove removes a group and reports whether it was there.
func (x *Groups) Remove(id parley.GroupID) bool { return x.remove(parley.AnyID(id)) }

// Search finds a page of the groups that have every word of a text in name, handle or
// description, the best first; without text, of all groups, the oldest first. Filters and orders
// do not apply. The only error is ErrPosition.
func (x *Groups) Search(q Query) (*Result, error) {
	q.every, q.oldest = true, true
	return x.search(&q)
}
