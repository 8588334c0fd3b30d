package verify

import (
	"math"
	"slices"
	"time"

	"parley"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/rules"
	"parley/journal"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(ms) }

// seatHistory records who was in a group when. Time is counted in turns: the number of
// times that an agent joined, left, or got or lost broadcasts before.
type seatHistory struct {
	seats []seatLife // by number, from 1
	// turns are the seats that got broadcasts from then on and, as negative numbers, those
	// that no longer did. It is 0 if an agent without broadcasts joined or left.
	turns []int32
	// sealed: the group has an MLS group, in which only members with a leaf get broadcasts.
	sealed bool
	// begins are the turns at which conversations began, ends those after which they were
	// no longer current.
	begins, ends map[parley.ConversationID]int
	current      parley.ConversationID
	// latest maps agents to their last seats.
	latest map[parley.AgentID]uint32
	// stewards are the agents that were ever admins.
	stewards map[parley.AgentID]bool
	founder  parley.AgentID
	owner    parley.OrgID
	name     string
}

// seatLife is the time during which a seat was taken: from is inclusive, to exclusive.
type seatLife struct {
	agent    parley.AgentID
	from, to int
	// before is the seat that the agent had before, 0 for none.
	before uint32
	// The member got no broadcasts from deaf on until heard. The two are equal if it always
	// got them.
	deaf, heard int
}

// reads reports whether the member gets broadcasts at a turn.
func (l *seatLife) reads(turn int) bool {
	return l.from <= turn && turn < l.to && (turn < l.deaf || turn >= l.heard)
}

const stillThere = math.MaxInt

// chronicledMax bounds the total seats of the groups whose history is cached.
const chronicledMax = 1 << 18

// seatHistoryOf replays a group's stream; nil if there is none.
func (x *verifier) seatHistoryOf(id parley.GroupID) (*seatHistory, error) {
	if c := x.seatHistories[id]; c != nil {
		return c, nil
	}
	c := &seatHistory{
		begins: map[parley.ConversationID]int{}, ends: map[parley.ConversationID]int{},
		latest: map[parley.AgentID]uint32{}, stewards: map[parley.AgentID]bool{},
	}
	offers := map[uint32]*group.Offer{}
	err := x.Events(rules.GroupStream(id), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		if e, err := rules.Group.Decode(f); err == nil { // the replay of the stream reports events that cannot be decoded
			c.add(e, offers)
		}
		return true
	})
	if err != nil || c.owner.Zero() {
		return nil, err
	}
	if x.chronicled += len(c.seats) + 1; x.chronicled > chronicledMax {
		clear(x.seatHistories)
		x.chronicled = len(c.seats) + 1
	}
	x.seatHistories[id] = c
	return c, nil
}

func (c *seatHistory) add(e group.Event, offers map[uint32]*group.Offer) {
	switch e := e.(type) {
	case *group.Founded:
		c.owner, c.name = parley.IDFromBytes[parley.OrgID](e.GetOrg()), e.GetName()
	case *group.Offered:
		o := e.GetOffer()
		offers[o.GetNumber()] = o
		if o.GetNumber() == 1 {
			c.founder = parley.IDFromBytes[parley.AgentID](o.GetAgent())
		}
	case *group.Withdrawn:
		delete(offers, e.GetOffer())
	case *group.Seated:
		o := offers[e.GetOffer()]
		delete(offers, e.GetOffer())
		who := parley.IDFromBytes[parley.AgentID](o.GetAgent())
		c.seats = append(c.seats, seatLife{agent: who, to: stillThere, before: c.latest[who]})
		c.arrive(e.GetSeat(), &c.seats[len(c.seats)-1])
		c.latest[who] = uint32(len(c.seats))
		if o.GetRole() == group.Admin {
			c.stewards[who] = true
		}
	case *group.RoleChanged:
		if l := c.seat(e.GetSeat()); l != nil {
			c.stewards[l.agent] = true
		}
	case *group.Left:
		if l := c.seat(e.GetSeat()); l != nil {
			if l.reads(len(c.turns)) {
				c.turns = append(c.turns, -int32(e.GetSeat()))
			} else {
				c.turns = append(c.turns, 0)
			}
			l.to = len(c.turns)
		}
	case *group.Committed:
		c.commit(e)
	case *group.Convened:
		c.ends[c.current] = len(c.turns)
		c.current = parley.IDFromBytes[parley.ConversationID](e.GetConversation())
		c.begins[c.current] = len(c.turns)
	case *group.Carried, *group.Changed, *group.Consented, *group.Deleted, *group.Filed, *group.Resolved, *group.Voted: // no seat changes
	}
}

// arrive begins the life of a seat.
func (c *seatHistory) arrive(number uint32, l *seatLife) {
	if !c.sealed {
		c.turns = append(c.turns, int32(number))
		l.from = len(c.turns)
		return
	}
	c.turns = append(c.turns, 0)
	l.from = len(c.turns)
	l.deaf, l.heard = l.from, stillThere
}

// commit ends the broadcasts of members without a leaf, if it is the first one, and begins
// those of members that get one.
func (c *seatHistory) commit(e *group.Committed) {
	if !c.sealed {
		c.sealed = true
		for i := range c.seats {
			if l, number := &c.seats[i], uint32(i+1); l.to == stillThere && number != e.GetBy() && !slices.Contains(e.GetAdded(), number) {
				c.turns = append(c.turns, -int32(number))
				l.deaf, l.heard = len(c.turns), stillThere
			}
		}
	}
	for _, number := range append([]uint32{e.GetBy()}, e.GetAdded()...) {
		if l := c.seat(number); l != nil && l.heard == stillThere && l.deaf < l.heard {
			c.turns = append(c.turns, int32(number))
			l.heard = len(c.turns)
		}
	}
}

// seat returns the life of a seat, nil for a seat that was never taken.
func (c *seatHistory) seat(number uint32) *seatLife {
	if number == 0 || int(number) > len(c.seats) {
		return nil
	}
	return &c.seats[number-1]
}

// stayed reports whether an agent has been a member since a turn.
func (c *seatHistory) stayed(agent parley.AgentID, since int) bool {
	l := c.seat(c.latest[agent])
	return l != nil && l.from <= since && l.to == stillThere
}

// roll finds the members at each message of a conversation, in order.
type roll struct {
	*seatHistory
	turn, last int
	// present is how many members get broadcasts at the turn.
	present int
}

// rollOf returns a roll that starts where the conversation began; nil if the group did
// not begin it.
func (c *seatHistory) rollOf(id parley.ConversationID) *roll {
	begins, known := c.begins[id]
	if !known {
		return nil
	}
	r := &roll{seatHistory: c, last: len(c.turns)}
	if ends, over := c.ends[id]; over {
		r.last = ends
	}
	r.advance(begins)
	return r
}

func (r *roll) advance(to int) {
	for ; r.turn < to; r.turn++ {
		switch change := r.turns[r.turn]; {
		case change > 0:
			r.present++
		case change < 0:
			r.present--
		}
	}
}

// call finds the next turn at which the members were exactly the sender and the
// recipients of a message; false if there was none. first: only the present turn counts.
func (r *roll) call(from parley.AgentID, to []parley.Seat, first bool) bool {
	earliest, before := r.turn, r.last+1
	for _, seat := range to {
		l := r.seat(seat.Number)
		if l == nil || l.agent != seat.Agent || l.agent == from {
			return false
		}
		earliest, before = max(earliest, l.from), min(before, l.to)
	}
	if first {
		before = min(before, r.turn+1)
	}
	for r.advance(min(earliest, r.last)); r.turn < before; r.advance(r.turn + 1) {
		if r.turn >= earliest && r.present == len(to)+1 && r.hears(from) && r.allHear(to) {
			return true
		}
		if r.turn == r.last {
			break
		}
	}
	return false
}

// hears reports whether an agent gets the broadcasts of others at the turn.
func (r *roll) hears(agent parley.AgentID) bool {
	for l := r.seat(r.latest[agent]); l != nil; l = r.seat(l.before) {
		if l.reads(r.turn) {
			return true
		}
	}
	return false
}

func (r *roll) allHear(to []parley.Seat) bool {
	return !r.sealed || !slices.ContainsFunc(to, func(s parley.Seat) bool { return !r.seat(s.Number).reads(r.turn) })
}

// changedConversation is a group's conversation whose status has changed.
type changedConversation struct {
	host     parley.GroupID
	since    int
	statuses []conversation.Status
}
