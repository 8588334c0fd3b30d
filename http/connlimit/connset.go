package connlimit

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// connSet is a set of connections: all, or those of one address.
type connSet struct {
	conns []*Conn
	// place says which of a connection's places is its index in conns.
	place int
	// busy is the number of connections with a request under way.
	busy atomic.Int64
	// candidates are the connections to evict that the last scan has found, with
	// their states. The last one is evicted first. Connections that have begun to wait
	// since then come after all of them.
	candidates []candidate
	// changed: a connection that is no candidate may have begun to wait. While it is
	// false, a new connection costs no scan: all others are at work.
	changed atomic.Bool
	scanned int64 // when, by the listener's clock
	scans   int   // how many there were

	// For an address that is bounded: the number of its connections by each ranking,
	// and its index there.
	bounded bool
	counts  [ranks]int
	at      [ranks]int
	queued  []*Conn // not accepted by the server yet, oldest first
}

type candidate struct {
	conn  *Conn
	state int64
}

const (
	// candidatesMost is how many candidates one scan finds: at most one in so many
	// new connections costs a scan.
	candidatesMost = 64
	// scanPause is the time between two scans, unless a connection has begun to wait
	// for a request.
	scanPause = 10 * time.Millisecond
)

func (s *connSet) add(n *Conn) {
	n.places[s.place] = len(s.conns)
	s.conns = append(s.conns, n)
	s.change()
}

// change records that a connection has begun to wait. It is called for every request,
// and so writes only if changed is false.
func (s *connSet) change() {
	if !s.changed.Load() {
		s.changed.Store(true)
	}
}

func (s *connSet) remove(n *Conn) {
	i, last := n.places[s.place], len(s.conns)-1
	s.conns[i] = s.conns[last]
	s.conns[i].places[s.place] = i
	s.conns[last] = nil
	s.conns = s.conns[:last]
}

// evictable says which connections may be evicted besides those that wait for a
// request.
type evictable struct {
	// writing: those whose client has read nothing of an answer for so long.
	writing time.Duration
	// parked: those whose request waits for an event. streams: streams.
	parked, streams bool
}

func (m evictable) allows(state, now int64) bool {
	switch state &^ sinceMask {
	case kindIdle:
		return true
	case kindWriting:
		return now-state&sinceMask >= int64(m.writing)
	case kindParked:
		return m.parked
	}
	return m.streams
}

// evict picks a connection and sets its state: the one that has waited longest for a
// request, else for its client, and so on. It returns nil if none may be evicted. The
// caller has to forget and end it.
func (s *connSet) evict(may evictable, now int64) *Conn {
	for again := false; ; again = true {
		for n := len(s.candidates) - 1; n >= 0; n-- {
			o := s.candidates[n]
			s.candidates = s.candidates[:n]
			if !o.conn.closed && may.allows(o.state, now) && o.conn.state.CompareAndSwap(o.state, stateEvicted) {
				return o.conn
			}
		}
		if again || !s.changed.Load() && s.scans > 0 && now-s.scanned < int64(scanPause) {
			return nil
		}
		s.scan(now)
	}
}

// scan finds the connections to evict first.
func (s *connSet) scan(now int64) {
	s.scans++
	s.scanned = now
	s.changed.Store(false) // first: a connection that begins to wait meanwhile sets it again
	s.candidates = s.candidates[:0]
	for _, n := range s.conns {
		state := n.state.Load()
		if state <= stateServing {
			continue
		}
		if len(s.candidates) == candidatesMost {
			s.change() // there is one candidate more
			if state >= s.candidates[0].state {
				continue
			}
		}
		at, _ := slices.BinarySearchFunc(s.candidates, state, func(o candidate, state int64) int { return cmp.Compare(state, o.state) })
		if s.candidates = slices.Insert(s.candidates, at, candidate{n, state}); len(s.candidates) > candidatesMost {
			s.candidates = slices.Delete(s.candidates, 0, 1)
		}
	}
}

// ranking orders addresses by the number of their connections.
type ranking struct {
	which int
	sets  [][]*connSet // by number of connections
	most  int
}

const (
	rankAll    = iota // of all connections
	rankServed        // of those that are not hijacked
	ranks
)

// add changes the number of connections of an address by more.
func (r *ranking) add(s *connSet, more int) {
	if !s.bounded {
		return
	}
	n := s.counts[r.which]
	if n > 0 {
		at, last := s.at[r.which], len(r.sets[n])-1
		r.sets[n][at] = r.sets[n][last]
		r.sets[n][at].at[r.which] = at
		r.sets[n][last] = nil
		r.sets[n] = r.sets[n][:last]
	}
	n += more
	if s.counts[r.which] = n; n > 0 {
		for len(r.sets) <= n {
			r.sets = append(r.sets, nil)
		}
		s.at[r.which] = len(r.sets[n])
		r.sets[n] = append(r.sets[n], s)
		r.most = max(r.most, n)
	}
	for r.most > 0 && len(r.sets[r.most]) == 0 {
		r.most--
	}
}

// largest is the address with the most connections, nil if there is none.
func (r *ranking) largest() *connSet {
	if r.most == 0 {
		return nil
	}
	return r.sets[r.most][0]
}
