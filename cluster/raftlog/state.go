package raftlog

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// state is what the records so far amount to, without the contents of entries.
type state struct {
	hard hardState
	// terms are the positions at which the term changes. The first is the cut: the last
	// entry that was dropped, whose term stays known.
	terms []Position
	last  uint64
	note  string
	// have is the first index from which on all entries are in the files that were read.
	// Between the cut and have are entries of segments that no longer exist.
	have uint64
}

func newState(s summary) state {
	return state{hard: s.hard, terms: []Position{s.cut}, last: s.last, note: s.note, have: s.last + 1}
}

func (s *state) summary() summary { return summary{s.hard, s.cut(), s.last, s.note} }

func (s *state) cut() Position { return s.terms[0] }

// term is that of entry i, which must lie between the cut and the last index.
func (s *state) term(i uint64) uint64 { return s.terms[s.run(i)].Term }

// run is the number of the last change of term up to index i.
func (s *state) run(i uint64) int {
	n, found := slices.BinarySearchFunc(s.terms, i, func(p Position, i uint64) int {
		switch {
		case p.Index < i:
			return -1
		case p.Index > i:
			return 1
		}
		return 0
	})
	if found {
		return n
	}
	return n - 1
}

// plan makes a turn of a record. What the log has no use for is left out.
func (s *state) plan(r Record) (turn, error) {
	t := turn{}
	if !raft.IsEmptyHardState(r.HardState) {
		t.hard = hardState{r.HardState.GetTerm(), r.HardState.GetVote(), r.HardState.GetCommit()}
		t.parts |= hasHard
	}
	if r.Note != nil && string(r.Note) != s.note {
		t.note = string(r.Note)
		t.parts |= hasNote
	}
	cut, last := s.cut(), s.last
	if r.Cut.Index > cut.Index {
		if cut = r.Cut; cut.Term == 0 {
			if cut.Index > last {
				return t, fmt.Errorf("a cut at %d, beyond the last index %d, has no term", cut.Index, last)
			}
			cut.Term = s.term(cut.Index)
		}
		t.cut = cut
		t.parts |= hasCut
		if cut.Index > last || s.term(cut.Index) != cut.Term {
			last = cut.Index
			t.parts |= hasReset
		}
	}
	if len(r.Entries) == 0 {
		return t, nil
	}
	first := r.Entries[0].GetIndex()
	if first > last+1 {
		return t, fmt.Errorf("entries from %d on do not follow the last index %d", first, last)
	}
	drop := min(max(first, cut.Index+1)-first, uint64(len(r.Entries)))
	t.first, t.entries = first+drop, r.Entries[drop:]
	if len(t.entries) == 0 {
		return t, nil
	}
	t.parts |= hasEntries
	before := cut.Term
	if t.first > cut.Index+1 {
		before = s.term(t.first - 1)
	}
	for i, e := range t.entries {
		if e.GetIndex() != t.first+uint64(i) || e.GetTerm() < before {
			return t, fmt.Errorf("entry %d of term %d cannot follow index %d of term %d", e.GetIndex(), e.GetTerm(), t.first+uint64(i)-1, before)
		}
		before = e.GetTerm()
	}
	return t, nil
}

// lazy reports whether nobody waits for a turn to be durable: after a crash the log is
// as good without it. The commit index is known to the other voters too.
func (s *state) lazy(t turn) bool {
	votes := t.parts&hasHard != 0 && (t.hard.term != s.hard.term || t.hard.vote != s.hard.vote)
	return !votes && t.parts&(hasReset|hasEntries|hasNote) == 0
}

// apply takes a turn into account. It fails if the turn cannot come from plan.
func (s *state) apply(t turn) error {
	if t.parts&hasHard != 0 {
		s.hard = t.hard
	}
	if t.parts&hasNote != 0 {
		s.note = t.note
	}
	switch {
	case t.parts&hasCut == 0:
	case t.parts&hasReset != 0:
		s.terms, s.last, s.have = append(s.terms[:0], t.cut), t.cut.Index, t.cut.Index+1
	case t.cut.Index < s.cut().Index || t.cut.Index > s.last:
		return fmt.Errorf("a cut at %d is not between %d and %d", t.cut.Index, s.cut().Index, s.last)
	default:
		s.terms = slices.Delete(s.terms, 0, s.run(t.cut.Index))
		s.terms[0] = t.cut
	}
	if t.parts&hasEntries == 0 {
		return nil
	}
	if t.first <= s.cut().Index || t.first > s.last+1 {
		return fmt.Errorf("entries from %d on do not lie between %d and %d", t.first, s.cut().Index, s.last)
	}
	s.terms = s.terms[:s.run(t.first-1)+1]
	s.have = min(s.have, t.first)
	for i, e := range t.entries {
		if e.GetTerm() != s.terms[len(s.terms)-1].Term {
			s.terms = append(s.terms, Position{t.first + uint64(i), e.GetTerm()})
		}
	}
	s.last = t.first + uint64(len(t.entries)) - 1
	return nil
}

// cache holds the entries from first to the last index.
type cache struct {
	first   uint64
	entries []*raftpb.Entry
	bytes   int64
}

// costOf is what an entry takes in memory, roughly.
func costOf(e *raftpb.Entry) int64 { return int64(len(e.Data)) + 160 }

// add puts the entries of a turn at the end, in place of those with the same or a higher
// index, and follows its cut.
func (c *cache) add(t turn) {
	if t.parts&hasReset != 0 {
		*c = cache{first: t.cut.Index + 1}
	} else if t.parts&hasCut != 0 {
		c.drop(t.cut.Index + 1)
	}
	if t.parts&hasEntries == 0 {
		return
	}
	if t.first <= c.first {
		*c = cache{first: t.first}
	}
	for _, e := range c.entries[t.first-c.first:] {
		c.bytes -= costOf(e)
	}
	clear(c.entries[t.first-c.first:])
	c.entries = append(c.entries[:t.first-c.first], t.entries...)
	for _, e := range t.entries {
		c.bytes += costOf(e)
	}
}

// drop removes the entries below index to.
func (c *cache) drop(to uint64) {
	for len(c.entries) > 0 && c.first < to {
		c.dropFirst()
	}
	c.first = max(c.first, to)
}

func (c *cache) dropFirst() {
	c.bytes -= costOf(c.entries[0])
	c.entries[0] = nil // the array lives on
	c.entries = c.entries[1:]
	c.first++
}

// shrink removes the oldest entries beyond limit. Those above written are only here.
func (c *cache) shrink(limit int64, written uint64) {
	for c.bytes > limit && c.first <= written {
		c.dropFirst()
	}
}
