package directory

import (
	"slices"

	"parley/client/parley"
)

// Sort is an order of results.
type Sort uint8

// The orders of results. Without text and vector, relevance is: newest card first.
const (
	ByRelevance Sort = iota
	ByName
	ByCreated
)

// The modes of a search, in the order in which a result lists them.
const (
	ModeText       = "text"
	ModeStructured = "structured"
	ModeSemantic   = "semantic"
)

// Bounds of a search. What they cut is not found, or makes the total unknown.
const (
	// TextMax and SemanticMax are how many documents are ranked by words and by vectors.
	TextMax     = 1000
	SemanticMax = 200
	// LimitMax is the most rows of a page.
	LimitMax = 100
	// FilterValuesMax is how many values of one filter count.
	FilterValuesMax = 100
	// wordsMax is how many words of a text count.
	wordsMax = 16
	// variantsMax is how many terms of one origin (stem, beginning, similarity) stand for
	// a word.
	variantsMax = 12
	// candidatesMax is how many terms a word visits in a list of prefixes or trigrams.
	candidatesMax = 20_000
	// postingsMax is how many list entries a search visits. The rarest words come first;
	// words that would exceed it are left out.
	postingsMax = 4_000_000
)

// ErrPosition refuses a position that cannot be continued without repeating or missing a
// row: too much has changed since it was given out.
var ErrPosition = parley.ErrInvalidCursor

// Query says what to find. The zero Query finds everything.
type Query struct {
	// Text finds documents by words. Blank text counts as none.
	Text string
	// Vector finds documents whose vectors have a cosine of at least Threshold. nil is
	// none; otherwise it has the dimension of the index.
	Vector    []float32
	Threshold float32

	Categories   []string // any of them
	Languages    []string // any of them
	Tags         []string // all of them
	Jurisdiction string
	MessageType  string
	Org          parley.OrgID
	Verified     *bool
	PricingModel string

	// First is a document that precedes all others by relevance, if it passes the filters: the one
	// whose handle was looked for. Every page of a list has the same.
	First parley.AnyID

	Sort Sort
	// Limit is how many rows to return, 1 to LimitMax.
	Limit int
	// Position continues a list; it is the Next of the page before with the same query.
	// Limit may differ.
	Position []byte
	// NowMS is the time in Unix milliseconds. It is part of the positions given out.
	NowMS int64

	// every: a document must have every word of Text. oldest: without text, the oldest
	// come first.
	every, oldest bool
}

// Result is a page of a search.
type Result struct {
	Rows []Row
	// Scored says that Row.Score means something: with a text or vector, by relevance.
	Scored bool
	// Total is how many documents were found in all, nil if a bound cut them.
	Total *int
	// Modes lists the modes that were applied.
	Modes []string
	// Next is the position of the next page, nil at the end.
	Next []byte
}

// Row is a document that was found. The first of a list has a score of 1, and scores
// never rise.
type Row struct {
	ID    parley.AnyID
	Score float64
}

// modes returns the modes of a query.
func (q *Query) modes(words int) []string {
	modes := []string{}
	if words > 0 {
		modes = append(modes, ModeText)
	}
	if q.filtered() {
		modes = append(modes, ModeStructured)
	}
	if q.Vector != nil {
		modes = append(modes, ModeSemantic)
	}
	return modes
}

func (q *Query) filtered() bool {
	return len(q.filters()) > 0
}

// filter is a set of values. A document has any of them, or none of them if not is set.
type filter struct {
	kind facet
	any  []string
	not  bool
}

// filters returns the filters of a query; a document passes all of them.
func (q *Query) filters() []filter {
	var all []filter
	add := func(kind facet, texts []string) {
		var given []string
		for _, text := range texts {
			if text = normal(text); text != "" && len(given) < FilterValuesMax && !slices.Contains(given, text) {
				given = append(given, text)
			}
		}
		if len(given) > 0 {
			all = append(all, filter{kind: kind, any: given})
		}
	}
	add(byCategory, q.Categories)
	add(byLanguage, q.Languages)
	for _, tag := range q.Tags[:min(len(q.Tags), FilterValuesMax)] {
		add(byTag, []string{tag})
	}
	add(byJurisdiction, []string{q.Jurisdiction})
	add(byPricing, []string{q.PricingModel})
	if q.MessageType != "" {
		all = append(all, filter{kind: byMessageType, any: []string{q.MessageType}})
	}
	if !q.Org.Zero() {
		all = append(all, filter{kind: byOrg, any: []string{string(q.Org[:])}})
	}
	if q.Verified != nil {
		all = append(all, filter{kind: byVerified, any: []string{"yes"}, not: !*q.Verified})
	}
	return all
}

// scratch is the memory of one search.
type scratch struct {
	allowed, any, early []uint64
	total, word         []float32
	touched, seen       []uint32
}

func (x *index) borrow(limit uint32) *scratch {
	m, ok := x.scratch.Get().(*scratch)
	if !ok {
		m = &scratch{}
	}
	words := (int(limit) + 64) / 64
	if len(m.allowed) < words {
		m.allowed, m.any, m.early = make([]uint64, words*5/4), make([]uint64, words*5/4), make([]uint64, words*5/4)
		m.total, m.word = make([]float32, len(m.allowed)*64), make([]float32, len(m.allowed)*64)
	}
	m.touched, m.seen = m.touched[:0], m.seen[:0]
	return m
}

func (m *scratch) allows(ordinal uint32) bool {
	return m.allowed[ordinal/64]&(1<<(ordinal%64)) != 0
}

// allowSeen allows only what the last word has found.
func (m *scratch) allowSeen() {
	clear(m.any)
	for _, ordinal := range m.seen {
		m.any[ordinal/64] |= 1 << (ordinal % 64)
	}
	for i := range m.allowed {
		m.allowed[i] &= m.any[i]
	}
}

// giveBack clears what the search has written.
func (x *index) giveBack(m *scratch) {
	for _, ordinal := range m.touched {
		m.total[ordinal] = 0
	}
	x.scratch.Put(m)
}

// narrow sets m.allowed to the documents of a version that pass the filters.
func (v *version) narrow(m *scratch, filters []filter) {
	clear(m.allowed)
	copy(m.allowed, v.live)
	for _, f := range filters {
		clear(m.any)
		for _, text := range f.any {
			if val := v.vals.find(f.kind, text); val != nil {
				val.mergeInto(m.any, v.limit, m.early)
			}
		}
		for i := range m.allowed {
			if f.not {
				m.allowed[i] &^= m.any[i]
			} else {
				m.allowed[i] &= m.any[i]
			}
		}
	}
}
