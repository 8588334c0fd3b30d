package search

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"parley"
	"parley/actors/query"
	"parley/actors/record"
)

// Work bounds the work of one request, about 10 ms, in units of at most 3 ns. A group
// costs groupWork. Each byte of its name and description costs readWork, and one more
// for each word of the query; in texts that are not ASCII it costs foldWork more. An
// owner that is not cached costs ownerWork. Comparing with a misspelling costs
// compareWork and the product of the numbers of trigrams. A request looks at one
// group at least.
const (
	Work        = 3 << 20
	groupWork   = 1 << 10
	readWork    = 3
	foldWork    = 16
	compareWork = 16

	ownerWork = 8 << 10
)

// Position is where the next request of a walk through the public groups begins. The
// cursor of a page is its encoding.
//
// A walk visits the groups from the oldest to the youngest, in stretches. A stretch is
// what one request can look at. Only groups of the same stretch are ranked against each
// other. If more of them match than a page may have, the next request looks at the same
// stretch again.
type Position struct {
	// beyond is the youngest group of the stretches that are finished.
	beyond parley.GroupID
	// upTo is the youngest group of an unfinished stretch, zero between two stretches.
	// Of that stretch, the groups ranked up to last have been shown.
	upTo parley.GroupID
	last place
}

// The lengths of an encoded Position: between two stretches, and within one.
const (
	PositionBytes        = 16
	StretchPositionBytes = 16 + 16 + placeBytes
)

func (w Position) within() bool { return w.upTo != parley.GroupID{} }

// Bytes encodes the position.
func (w Position) Bytes() []byte {
	b := w.beyond.Bytes()
	if w.within() {
		b = w.last.append(append(b, w.upTo[:]...))
	}
	return b
}

// PositionOf decodes a position. nil is the beginning of a walk.
func PositionOf(b []byte) (w Position) {
	copy(w.beyond[:], b)
	if len(b) == StretchPositionBytes {
		copy(w.upTo[:], b[PositionBytes:])
		w.last = placeOf(b[2*PositionBytes:])
	}
	return w
}

// Step is one request of a walk.
type Step struct {
	walk   Position
	sought *Query
	limit  int
	work   int // remaining
	// last is the last group that was looked at, zero before the first.
	last parley.GroupID
	// more: at least one group follows that was not looked at. cut: because no work
	// remained.
	more, cut bool
	found     shortlist
	// first are the oldest matches, as many as a page may have.
	first []Found
}

// NewStep prepares a request from a position. The page has at most limit groups; work
// bounds the work, and is Work except in tests.
func NewStep(w Position, query *Query, limit, work int) *Step {
	return &Step{walk: w, sought: query, limit: limit, work: work, found: shortlist{most: limit + 1}}
}

// Beyond returns the group after which the groups given to Scan must begin.
func (l *Step) Beyond() parley.GroupID { return l.walk.beyond }

// Scan looks at groups until there are no more, the page is full or no work remains.
// The domain is the one that handles are built on.
func (l *Step) Scan(groups iter.Seq2[*record.PublicGroup, query.GroupOwner], domain string) {
	for g, owner := range groups {
		if !l.begin(g.GroupID(), len(g.GetName())+len(g.GetDescription())) {
			break
		}
		if owner.Read {
			l.work -= ownerWork
		}
		if owner.Slug == "" {
			continue
		}
		handle := parley.Handle{Name: g.GetName(), Slug: owner.Slug, Domain: domain, Group: true}.String()
		at := place{score: l.sought.score(g.GetName(), handle, g.GetDescription()), id: g.GroupID()}
		l.work -= l.sought.taken()
		if l.wants(at) {
			l.add(Found{at, g, handle})
		}
	}
	l.settle()
}

// WorkOf returns the work that a group takes at least, given the bytes of its name and
// description and the number of words of the query.
func WorkOf(text, words int) int {
	if words == 0 {
		return groupWork
	}
	return groupWork + (readWork+words)*text
}

// begin reports whether the request looks at a group with that many bytes of text.
func (l *Step) begin(id parley.GroupID, text int) bool {
	words := len(l.sought.words)
	work := WorkOf(text, words)
	switch first := l.last == (parley.GroupID{}); {
	case l.walk.within() && bytes.Compare(id[:], l.walk.upTo[:]) > 0:
		l.more = true
	case l.work < work && !first:
		l.more, l.cut = true, true
	case words == 0 && len(l.found.best) == l.limit: // later groups rank no higher
		l.more = true
	default:
		l.work -= work
		l.last = id
	}
	return !l.more
}

// wants reports whether a group matches and was not shown by an earlier request.
func (l *Step) wants(at place) bool {
	return at.score > 0 && (!l.walk.within() || comparePlaces(at, l.walk.last) > 0)
}

func (l *Step) add(g Found) {
	l.found.add(g)
	if l.walk.within() && len(l.first) < l.limit {
		l.first = append(l.first, g)
	}
}

// settle ends the scan. A stretch may need more work than before, because texts in it
// have grown. If its end was not reached, the best of the remaining groups are not
// known, so that the page shows the oldest matches instead, and the stretch ends with
// the last of them.
func (l *Step) settle() {
	if !l.walk.within() || !l.cut || len(l.found.best) <= l.limit {
		return
	}
	l.last = l.first[l.limit-1].id
	l.found.best = nil
	for _, g := range l.first {
		l.found.add(g)
	}
}

// Page returns the groups to show, the best match first.
func (l *Step) Page() []Found { return l.found.best[:min(l.limit, len(l.found.best))] }

// Next returns where the next request begins, and false at the end of the walk.
func (l *Step) Next() (Position, bool) {
	w := l.walk
	switch {
	case len(l.found.best) > l.limit: // the same stretch has more matches
		if !w.within() {
			w.upTo = l.last
		}
		w.last = l.found.best[l.limit-1].place
	case !l.more:
		return Position{}, false
	case !w.within() || l.cut:
		w.beyond = l.last
	default:
		w = Position{beyond: w.upTo}
	}
	return w, true
}

// place is a rank: a higher score comes first, of equal scores the older group.
type place struct {
	score float64
	id    parley.GroupID
}

func comparePlaces(a, b place) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return slices.Compare(a.id[:], b.id[:])
}

// placeBytes is the length of an encoded place.
const placeBytes = 8 + 16

func (f place) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, math.Float64bits(f.score)), f.id[:]...)
}

func placeOf(b []byte) place {
	return place{math.Float64frombits(binary.BigEndian.Uint64(b)), parley.GroupID(b[8:])}
}

// Found is a group that matches.
type Found struct {
	place
	Group  *record.PublicGroup
	Handle string
}

// shortlist keeps the best matches.
type shortlist struct {
	most int
	best []Found
}

func (l *shortlist) add(g Found) {
	at, _ := slices.BinarySearchFunc(l.best, g.place, func(have Found, want place) int {
		return comparePlaces(have.place, want)
	})
	if at == l.most {
		return
	}
	l.best = slices.Insert(l.best, at, g)
	l.best = l.best[:min(len(l.best), l.most)]
}
