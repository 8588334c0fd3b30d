package verify

import (
	"maps"
	"slices"

	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// seatHistory records who was in a group when. Time is counted in turns: the number of
// times that an agent joined, left, or got or lost broadcasts before.
type seatHistory struct {
	turns []turn
	// members are those that are in now, with the turn at which they joined. readers are
	// those of them that get broadcasts, with their seats: in a group with an MLS group only
	// members with a leaf.
	members map[parley.AgentID]int
	readers map[parley.AgentID]uint32
	// begins are the turns at which conversations began, ends those after which they were
	// no longer current.
	begins, ends map[parley.ConversationID]int
	// stewards are the agents that were ever admins.
	stewards map[parley.AgentID]bool
	founder  parley.AgentID
	owner    parley.OrgID
	name     string
}

// turn is a change of the readers: the agent on a seat gets broadcasts from then on, or no
// longer. It is zero if a member without broadcasts joined or left.
type turn struct {
	agent parley.AgentID
	seat  uint32
	reads bool
}

// changedConversation is a group's conversation whose status has changed.
type changedConversation struct {
	host     parley.GroupID
	since    int
	statuses []conversation.Status
}

// witnessed reports whether an agent has been a member since the conversation began.
func (r *reader) witnessed(agent parley.AgentID, m *changedConversation) bool {
	h := r.history(m.host)
	return h != nil && h.stayed(agent, m.since)
}

// next returns how many changes have passed after the next one to a status, 0 if there is
// none. The feed of an agent that was not a member all the time has some of the changes.
func (m *changedConversation) next(passed int, status string) int {
	for n := passed; n < len(m.statuses); n++ {
		if m.statuses[n].String() == status {
			return n + 1
		}
	}
	return 0
}

// seatsCachedMax bounds the total seats of the groups whose history is cached.
const seatsCachedMax = 1 << 18

// history replays a group's stream; nil if there is none, or its events do not follow from
// each other, which the replay of the stream reports.
func (r *reader) history(id parley.GroupID) (h *seatHistory) {
	if h = r.histories[id]; h != nil {
		return h
	}
	defer func() {
		if recover() != nil {
			h = nil
		}
	}()
	h = &seatHistory{
		members: map[parley.AgentID]int{}, readers: map[parley.AgentID]uint32{}, stewards: map[parley.AgentID]bool{},
		begins: map[parley.ConversationID]int{}, ends: map[parley.ConversationID]int{},
	}
	s := &group.State{}
	r.failed(r.Events(rules.GroupStream(id), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		if e, err := rules.Group.Decode(f); err == nil {
			h.add(s, e)
		}
		return true
	}))
	if r.err != nil || !s.Exists() {
		return nil
	}
	seats := int(s.LastSeat) + 1
	if r.seatsCached += seats; r.seatsCached > seatsCachedMax {
		clear(r.histories)
		r.seatsCached = seats
	}
	r.histories[id] = h
	return h
}

// add folds an event of the group into its state, and records what it changes.
func (h *seatHistory) add(s *group.State, e group.Event) {
	member := func(seat uint32) (m group.Member) {
		if sits := sitting(s, seat); sits != nil {
			m = *sits
		}
		return m
	}
	var gone group.Member
	if left, is := e.(*group.Left); is {
		gone = member(left.GetSeat())
	}
	before := s.Conversation
	rules.Group.Evolve(s, e)
	switch e := e.(type) {
	case *group.Founded:
		h.owner, h.name = s.Org, s.Name
	case *group.Offered:
		if o := e.GetOffer(); o.GetNumber() == 1 {
			h.founder = parley.IDFromBytes[parley.AgentID](o.GetAgent())
		}
	case *group.Seated:
		m := member(e.GetSeat())
		h.turn(m, s.Epoch == 0)
		h.members[m.Agent] = len(h.turns)
		h.stewards[m.Agent] = h.stewards[m.Agent] || m.Role == group.Admin
	case *group.RoleChanged:
		h.stewards[member(e.GetSeat()).Agent] = true
	case *group.Left:
		h.turn(gone, false)
		delete(h.members, gone.Agent)
	case *group.Committed:
		for _, m := range s.Members() {
			if _, reads := h.readers[m.Agent]; reads != m.Leaf {
				h.turn(m, m.Leaf)
			}
		}
	case *group.Convened:
		h.ends[before] = len(h.turns)
		h.begins[s.Conversation] = len(h.turns)
	case *group.Carried, *group.Changed, *group.Consented, *group.Deleted, *group.Filed, *group.Resolved, *group.Voted, *group.Withdrawn: // no seat changes
	}
}

// turn adds a turn after which a member gets broadcasts or not.
func (h *seatHistory) turn(m group.Member, reads bool) {
	t := turn{}
	if _, did := h.readers[m.Agent]; did != reads {
		t = turn{m.Agent, m.Seat, reads}
	}
	h.turns = append(h.turns, t)
	t.apply(h.readers)
}

// apply changes who reads.
func (t turn) apply(readers map[parley.AgentID]uint32) {
	if t.reads {
		readers[t.agent] = t.seat
	} else {
		delete(readers, t.agent)
	}
}

// stayed reports whether an agent has been a member since a turn.
func (h *seatHistory) stayed(agent parley.AgentID, since int) bool {
	joined, member := h.members[agent]
	return member && joined <= since
}

// roll finds the readers of each message of a conversation, in order.
type roll struct {
	*seatHistory
	// present are the readers at a turn of the conversation, of which last is the last one.
	present  map[parley.AgentID]uint32
	at, last int
}

// rollOf returns a roll that starts where the conversation began; nil if the group did
// not begin it.
func (h *seatHistory) rollOf(id parley.ConversationID) *roll {
	begins, known := h.begins[id]
	if !known {
		return nil
	}
	r := &roll{seatHistory: h, present: map[parley.AgentID]uint32{}, last: len(h.turns)}
	if ends, over := h.ends[id]; over {
		r.last = ends
	}
	for ; r.at < begins; r.at++ {
		h.turns[r.at].apply(r.present)
	}
	return r
}

// call finds the next turn at which the readers were exactly the sender and the recipients
// of a message, and stays there; false if there was none. first: only the present turn
// counts.
func (r *roll) call(from parley.AgentID, to []parley.Seat, first bool) bool {
	if r.are(r.present, from, to) {
		return true
	}
	later := maps.Clone(r.present)
	for n := r.at; n < r.last && !first; n++ {
		r.turns[n].apply(later)
		if r.are(later, from, to) {
			r.present, r.at = later, n+1
			return true
		}
	}
	return false
}

// are reports whether those present are exactly the sender and the recipients of a message.
func (r *roll) are(present map[parley.AgentID]uint32, from parley.AgentID, to []parley.Seat) bool {
	_, sends := present[from]
	return sends && len(present) == len(to)+1 && !slices.ContainsFunc(to, func(s parley.Seat) bool {
		return s.Agent == from || present[s.Agent] != s.Number
	})
}
