package cluster

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// clockOffsetMax is by how much wall clocks may differ. NTP keeps them within
	// milliseconds, and within a second on a bad day; a measurement is wrong by at most a
	// quarter of one. Access tokens are good on nodes whose clocks differ by 30 s, more than
	// two clocks that are each this far from a third one.
	clockOffsetMax = 5 * time.Second
	// roundTripMax is how long a measurement may take: the answer may have been on its way
	// for all of it, or for nothing.
	roundTripMax = 500 * time.Millisecond
	// clockRounds is how many measurements in a row must say something new: a clock that
	// jumps forward and soon back does not count as wrong.
	clockRounds = 5
)

// Clocks compares this node's wall clock with those of the other members. Nobody knows which
// clock is right, so a clock counts as wrong if more than half of all members have one that is
// far ahead of it, or more than half one that is far behind. The clock in the middle is never
// wrong by that: while all are up some node stays in service, and with two members both do.
type Clocks struct {
	Logger *slog.Logger
	mu     sync.Mutex
	peers  map[uint64]*peerClock
	wrong  bool
}

// peerClock is the wall clock of another member.
type peerClock struct {
	// offset is by how much it was ahead of this node's in the last measurement. known says
	// that the last round had one.
	offset time.Duration
	known  bool
	// side is where the clock counts as being; rounds have said otherwise in a row.
	side   side
	rounds int
}

// side is where a clock is as seen from this node's.
type side int

const (
	near side = iota
	ahead
	behind
)

func sideOf(offset time.Duration) side {
	switch {
	case offset > clockOffsetMax:
		return ahead
	case offset < -clockOffsetMax:
		return behind
	}
	return near
}

// note takes what a round found, and reports whether the clock changes sides. A clock that is
// not known any more counts as near in the end.
func (p *peerClock) note(offset time.Duration, known, first bool) (changed bool) {
	now := near
	p.known = known
	if known {
		p.offset, now = offset, sideOf(offset)
	}
	if now == p.side {
		p.rounds = 0
		return false
	}
	if p.rounds++; p.rounds < clockRounds && !first {
		return false
	}
	p.side, p.rounds = now, 0
	return true
}

// Note takes what a round of measurements found: by how much the wall clocks of other members
// are ahead of this node's. Those that could not be measured are missing. The first round counts
// at once, so that a node which starts with a wrong clock knows.
func (c *Clocks) Note(others []uint64, offsets map[uint64]time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.peers == nil
	peers, changed, far := map[uint64]*peerClock{}, []uint64{}, map[side][]time.Duration{}
	for _, id := range others {
		p := c.peers[id]
		if p == nil {
			p = &peerClock{}
		}
		offset, known := offsets[id]
		if p.note(offset, known, first) && p.side != near {
			changed = append(changed, id)
		}
		peers[id] = p
		far[p.side] = append(far[p.side], p.offset)
	}
	c.peers = peers
	was, most := c.wrong, far[ahead]
	if len(far[behind]) > len(most) {
		most = far[behind]
	}
	c.wrong = 2*len(most) > len(others)+1
	switch {
	case c.wrong && !was:
		slices.Sort(most)
		c.Logger.Warn("the wall clock of this node is wrong: those of most nodes differ from it; the node is not ready until it is set right", "offset", shownOffset(-most[len(most)/2]))
	case c.wrong:
	default:
		if was {
			c.Logger.Info("the wall clock of this node no longer differs from those of most nodes, as far as they answer")
		}
		for _, id := range changed {
			c.Logger.Warn("the wall clock of another node differs from that of this one; let all nodes keep their time by NTP", "node", nodeName(id), "offset", shownOffset(peers[id].offset))
		}
	}
}

func shownOffset(d time.Duration) string { return d.Round(time.Millisecond).String() }

// Wrong reports that this node's wall clock differs from those of most members.
func (c *Clocks) Wrong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// Offsets are by how much the wall clocks of other members are ahead of this node's. Those that
// could not be measured are missing.
func (c *Clocks) Offsets() map[uint64]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[uint64]time.Duration{}
	for id, p := range c.peers {
		if p.known {
			known[id] = p.offset
		}
	}
	return known
}
