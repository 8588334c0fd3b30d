package http

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
	"parley/http/api"
)

// searchWork bounds what one request of a search does, in units of 3 ns at most:
// searchStep for each group, and of its name and description each byte searchRead
// times and once more for each word of the query; searchFold more for each byte
// where there are others than ASCII, searchOwner for an owner who is not at hand, and
// what comparing with misspellings takes. That is some 10 ms. A request looks at one group at least.
const (
	searchWork = 3 << 20
	searchStep = 1 << 10
	searchRead = 3
	searchFold = 16
	searchLike = 16

	searchOwner = 8 << 10
)

// groupWalk is how far a walk through the public groups has come. Its cursor stands
// for it.
//
// A walk goes through the groups from the oldest to the youngest, in stretches. A
// stretch is what one request can look at. Its groups are ranked among each other;
// if more of them fit than a page may have, the next request looks at the same
// stretch again.
type groupWalk struct {
	// beyond is the youngest of the groups that the walk is done with.
	beyond parley.GroupID
	// upTo is the youngest group of a stretch that the walk is in the middle of, zero
	// between two stretches. Its groups up to the place shown have been shown.
	upTo parley.GroupID
	last foundAt
}

// The lengths of a groupWalk in bytes: between two stretches, and within one.
const (
	groupWalkShort = 16
	groupWalkLong  = 16 + 16 + foundAtBytes
)

func (w groupWalk) within() bool { return w.upTo != parley.GroupID{} }

func (w groupWalk) bytes() []byte {
	b := w.beyond.Bytes()
	if w.within() {
		b = w.last.append(append(b, w.upTo[:]...))
	}
	return b
}

// groupWalkOf reads what bytes has written. nil is the beginning.
func groupWalkOf(b []byte) (w groupWalk) {
	copy(w.beyond[:], b)
	if len(b) == groupWalkLong {
		copy(w.upTo[:], b[groupWalkShort:])
		w.last = foundAtOf(b[2*groupWalkShort:])
	}
	return w
}

// walkStep is what one request of a walk looks at.
type walkStep struct {
	walk   groupWalk
	sought *search
	limit  int
	work   int // that is left
	// last is the group that was looked at last, zero before the first one.
	last parley.GroupID
	// more: a group follows that was not looked at; cut: because the work had ended.
	more, cut bool
	found     shortlist
	// first are those that were found first, as many as a page may have.
	first []foundGroup
}

func newWalkStep(w groupWalk, sought *search, limit, work int) *walkStep {
	return &walkStep{walk: w, sought: sought, limit: limit, work: work, found: shortlist{most: limit + 1}}
}

// scan goes through groups until they, the work or the page end.
func (l *walkStep) scan(groups iter.Seq2[*record.PublicGroup, query.GroupOwner], domain string) {
	for g, owner := range groups {
		if !l.begin(g.GroupID(), len(g.GetName())+len(g.GetDescription())) {
			break
		}
		if owner.Read {
			l.work -= searchOwner
		}
		if owner.Slug == "" {
			continue
		}
		handle := parley.Handle{Name: g.GetName(), Slug: owner.Slug, Domain: domain, Group: true}.String()
		at := foundAt{score: l.sought.score(g.GetName(), handle, g.GetDescription()), id: g.GroupID()}
		l.work -= l.sought.taken()
		if l.wants(at) {
			l.add(foundGroup{at, profileOf(g, handle)})
		}
	}
	l.settle()
}

// begin reports whether the look goes on with a group that has so many bytes of text.
func (l *walkStep) begin(id parley.GroupID, text int) bool {
	work, words := searchStep, len(l.sought.words)
	if words > 0 {
		work += (searchRead + words) * text
	}
	switch first := l.last == (parley.GroupID{}); {
	case l.walk.within() && bytes.Compare(id[:], l.walk.upTo[:]) > 0:
		l.more = true
	case l.work < work && !first:
		l.more, l.cut = true, true
	case words == 0 && len(l.found.best) == l.limit: // those that follow fit no better
		l.more = true
	default:
		l.work -= work
		l.last = id
	}
	return !l.more
}

// wants reports whether a group fits and was not shown before.
func (l *walkStep) wants(at foundAt) bool {
	return at.score > 0 && (!l.walk.within() || compareFound(at, l.walk.last) > 0)
}

func (l *walkStep) add(g foundGroup) {
	l.found.add(g)
	if l.walk.within() && len(l.first) < l.limit {
		l.first = append(l.first, g)
	}
}

// settle ends the look. A stretch may take more work than before, because texts of
// it have grown. If its end was not reached, nobody knows what the best of it are
// that were not shown yet, so that the page gets those that were found first, and
// the look ends with the last of them.
func (l *walkStep) settle() {
	if !l.walk.within() || !l.cut || len(l.found.best) <= l.limit {
		return
	}
	l.last = l.first[l.limit-1].id
	l.found.best = nil
	for _, g := range l.first {
		l.found.add(g)
	}
}

// page is what to show, best first.
func (l *walkStep) page() []foundGroup { return l.found.best[:min(l.limit, len(l.found.best))] }

// next is where the walk goes on, unless it has ended.
func (l *walkStep) next() (groupWalk, bool) {
	w := l.walk
	switch {
	case len(l.found.best) > l.limit: // the same stretch has more of them
		if !w.within() {
			w.upTo = l.last
		}
		w.last = l.found.best[l.limit-1].foundAt
	case !l.more:
		return groupWalk{}, false
	case !w.within() || l.cut:
		w.beyond = l.last
	default:
		w = groupWalk{beyond: w.upTo}
	}
	return w, true
}

// foundAt is a place in the order of what was found: the better first, of equals
// the older.
type foundAt struct {
	score float64
	id    parley.GroupID
}

func compareFound(a, b foundAt) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return slices.Compare(a.id[:], b.id[:])
}

// foundAtBytes is the length of what append writes and foundAtOf reads.
const foundAtBytes = 8 + 16

func (f foundAt) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, math.Float64bits(f.score)), f.id[:]...)
}

func foundAtOf(b []byte) foundAt {
	return foundAt{math.Float64frombits(binary.BigEndian.Uint64(b)), parley.GroupID(b[8:])}
}

type foundGroup struct {
	foundAt
	profile api.GroupProfile
}

// shortlist keeps the best that were found.
type shortlist struct {
	most int
	best []foundGroup
}

func (l *shortlist) add(g foundGroup) {
	at, _ := slices.BinarySearchFunc(l.best, g.foundAt, func(have foundGroup, want foundAt) int {
		return compareFound(have.foundAt, want)
	})
	if at == l.most {
		return
	}
	l.best = slices.Insert(l.best, at, g)
	l.best = l.best[:min(len(l.best), l.most)]
}
