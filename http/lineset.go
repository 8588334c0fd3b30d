package http

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// lineSet are connections: all, or those of one address.
type lineSet struct {
	lines []*line
	// place is which of a line's places is that in lines.
	place int
	// busy is how many of them have a request under way.
	busy atomic.Int64
	// oldest are those that may go as they were found last, with what they did, the
	// first to go last. Those that began to wait since are behind all of them.
	oldest []oldLine
	// unseen: one may wait for a request that is not among them. While it is not so,
	// few look: a newcomer costs no look at all lines where all of them are at work.
	unseen atomic.Bool
	looked int64 // when, by the clock of lines
	looks  int   // at all lines

	// Of an address that is bounded: how many connections it has by each rank, and
	// where it stands there.
	bounded bool
	weight  [ranksMade]int
	at      [ranksMade]int
	queued  []*line // that the engine does not have yet, the first first
}

type oldLine struct {
	line  *line
	state int64
}

const (
	// oldestKept is how many old connections are found at once: a newcomer costs a
	// look at all connections once in so many times.
	oldestKept = 64
	// lookPause is how long nobody looks again after one has looked, unless a
	// connection has begun to wait for a request.
	lookPause = 10 * time.Millisecond
)

func (s *lineSet) add(n *line) {
	n.places[s.place] = len(s.lines)
	s.lines = append(s.lines, n)
	s.waits()
}

// waits notes that a line has begun to wait. It writes only if that is news: every
// request comes by here.
func (s *lineSet) waits() {
	if !s.unseen.Load() {
		s.unseen.Store(true)
	}
}

func (s *lineSet) remove(n *line) {
	i, last := n.places[s.place], len(s.lines)-1
	s.lines[i] = s.lines[last]
	s.lines[i].places[s.place] = i
	s.lines[last] = nil
	s.lines = s.lines[:last]
}

// mayGo says which connections may make room besides those that wait for a
// request.
type mayGo struct {
	// departing: those whose client has taken nothing of an answer for so long.
	departing time.Duration
	// resting: those whose request waits for what may not come for long. streams:
	// streams.
	resting, streams bool
}

func (m mayGo) allows(state, now int64) bool {
	switch state &^ sinceMask {
	case lineWaits:
		return true
	case lineDeparts:
		return now-state&sinceMask >= int64(m.departing)
	case lineRests:
		return m.resting
	}
	return m.streams
}

// longest takes the connection that may go first: the one that has waited longest
// for a request, else for its client, and so on. From then on it serves none. nil:
// none may go.
func (s *lineSet) longest(may mayGo, now int64) *line {
	for looked := false; ; looked = true {
		for n := len(s.oldest) - 1; n >= 0; n-- {
			o := s.oldest[n]
			s.oldest = s.oldest[:n]
			if !o.line.closed && may.allows(o.state, now) && o.line.state.CompareAndSwap(o.state, lineGone) {
				return o.line
			}
		}
		if looked || !s.unseen.Load() && s.looks > 0 && now-s.looked < int64(lookPause) {
			return nil
		}
		s.look(now)
	}
}

// look finds the connections that may go first.
func (s *lineSet) look(now int64) {
	s.looks++
	s.looked = now
	s.unseen.Store(false) // before any is looked at: who begins to wait meanwhile says so again
	s.oldest = s.oldest[:0]
	for _, n := range s.lines {
		state := n.state.Load()
		if state <= lineServes {
			continue
		}
		if len(s.oldest) == oldestKept {
			s.waits() // one of these is left out
			if state >= s.oldest[0].state {
				continue
			}
		}
		at, _ := slices.BinarySearchFunc(s.oldest, state, func(o oldLine, state int64) int { return cmp.Compare(state, o.state) })
		if s.oldest = slices.Insert(s.oldest, at, oldLine{n, state}); len(s.oldest) > oldestKept {
			s.oldest = slices.Delete(s.oldest, 0, 1)
		}
	}
}

// rank tells which address has the most connections.
type rank struct {
	which int
	by    [][]*lineSet // by how many they have
	most  int
}

const (
	allRank    = iota // of all connections
	servedRank        // of those that no stream has taken
	ranksMade
)

// add notes that an address has so many connections more.
func (r *rank) add(s *lineSet, more int) {
	if !s.bounded {
		return
	}
	n := s.weight[r.which]
	if n > 0 {
		at, last := s.at[r.which], len(r.by[n])-1
		r.by[n][at] = r.by[n][last]
		r.by[n][at].at[r.which] = at
		r.by[n][last] = nil
		r.by[n] = r.by[n][:last]
	}
	n += more
	if s.weight[r.which] = n; n > 0 {
		for len(r.by) <= n {
			r.by = append(r.by, nil)
		}
		s.at[r.which] = len(r.by[n])
		r.by[n] = append(r.by[n], s)
		r.most = max(r.most, n)
	}
	for r.most > 0 && len(r.by[r.most]) == 0 {
		r.most--
	}
}

// heaviest is the address with the most connections, nil if none has any.
func (r *rank) heaviest() *lineSet {
	if r.most == 0 {
		return nil
	}
	return r.by[r.most][0]
}
