package verify

import (
	"math"
	"time"

	"parley"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/rules"
	"parley/journal"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(ms) }

// seatHistory records who was in a group when. Time is counted in turns: the number of
// times that an agent joined or left before.
type seatHistory struct {
	seats []seatLife // by number, from 1
	// turns are the seats that were taken and, as negative numbers, those that were left.
	turns []int32
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
		c.turns = append(c.turns, int32(e.GetSeat()))
		c.seats = append(c.seats, seatLife{who, len(c.turns), stillThere, c.latest[who]})
		c.latest[who] = uint32(len(c.seats))
		if o.GetRole() == group.Admin {
			c.stewards[who] = true
		}
	case *group.RoleChanged:
		if l := c.seat(e.GetSeat()); l != nil {
			c.stewards[l.agent] = true
		}
	case *group.Left:
		c.turns = append(c.turns, -int32(e.GetSeat()))
		if l := c.seat(e.GetSeat()); l != nil {
			l.to = len(c.turns)
		}
	case *group.Convened:
		c.ends[c.current] = len(c.turns)
		c.current = parley.IDFromBytes[parley.ConversationID](e.GetConversation())
		c.begins[c.current] = len(c.turns)
	case *group.Carried, *group.Changed, *group.Consented, *group.Deleted, *group.Filed, *group.Resolved, *group.Voted: // no seat changes
	}
}

// seat returns the life of a seat, nil for a seat that was never taken.
func (c *seatHistory) seat(number uint32) *seatLife {
	if number == 0 || int(number) > len(c.seats) {
		return nil
	}
	return &c.seats[number-1]
}

// at reports whether an agent had a seat at a turn.
func (c *seatHistory) at(agent parley.AgentID, turn int) bool {
	for l := c.seat(c.latest[agent]); l != nil; l = c.seat(l.before) {
		if l.from <= turn && turn < l.to {
			return true
		}
	}
	return false
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
	present    int
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
		if r.turns[r.turn] > 0 {
			r.present++
		} else {
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
		if r.turn >= earliest && r.present == len(to)+1 && r.at(from, r.turn) {
			return true
		}
		if r.turn == r.last {
			break
		}
	}
	return false
}

// changedConversation is a group's conversation whose status has changed.
type changedConversation struct {
	host     parley.GroupID
	since    int
	statuses []conversation.Status
}
