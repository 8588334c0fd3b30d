package messages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/journal"
)

// seatHolders returns the caller's agents that have or had a seat in the group of a
// conversation, as far as the caller depends on them: the initiator, the first member,
// the first admin, or else one that has left.
func (s Conversations) seatHolders(c *rest.Call, state *conversation.State) (mine []*agent.State, err error) {
	host := state.GroupID()
	v, err := s.Node.Groups.View(c.Context(), host, group.GetView{Viewer: access.Viewer(c, group.Unjudged), FirstMembers: true})
	if err != nil && !errors.Is(err, journal.ErrErased) { // a group that was erased has no members
		return nil, err
	}
	if began, err := s.Node.Agents.Get(c.Context(), state.Initiator()); err == nil && c.Caller.Owns(began.Owner(), began.AgentID()) {
		mine = append(mine, began)
	} else if err != nil && !errors.Is(err, parley.ErrNotFound) && !errors.Is(err, journal.ErrErased) {
		return nil, err
	}
	for _, id := range v.FirstMembers {
		if id == state.Initiator() {
			continue
		}
		a, err := s.Node.Agents.Get(c.Context(), id)
		if err != nil {
			return nil, err
		}
		mine = append(mine, a)
	}
	if len(mine) > 0 {
		return mine, nil
	}
	holder, err := s.Node.Groups.SeatHolder(c.Context(), host, c.Caller.Principal)
	if err != nil || holder.Zero() {
		return nil, err
	}
	a, err := s.Node.Agents.Get(c.Context(), holder)
	return []*agent.State{a}, err
}

// takesPart reports whether an agent may read a conversation: it is a party, or has or
// had a seat in the conversation's group.
func (s Conversations) takesPart(c *rest.Call, state *conversation.State, a *agent.State) (bool, error) {
	if state.Role(a.AgentID()) != conversation.NoRole || state.GroupID().Zero() {
		return state.Role(a.AgentID()) != conversation.NoRole, nil
	}
	return s.Node.Groups.HadSeat(c.Context(), state.GroupID(), a.AgentID())
}

// participantKeys are the lengths of the keys of participants: of the initiator of a
// group's conversation, of a seat, of a former member.
var participantKeys = []int{1, 5, 25}

func seatKey(seat uint32) []byte { return binary.BigEndian.AppendUint32([]byte{1}, seat) }

func formerKey(id parley.AgentID, since time.Time) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{2}, uint64(since.UnixMilli())), id[:]...)
}

// participant is one row in the list of participants of a group's conversation.
type participant struct {
	key   []byte
	agent parley.AgentID
	since time.Time
	role  conversation.Role
}

// attendance lists the participants of a group's conversation, the initiator first. These
// are the group's members or, for an organization without current members, the agents
// that it had there and those with whom they share rows.
func (s Conversations) attendance(l *rest.List, state *conversation.State) error {
	members, company, err := s.attending(l, state)
	if err != nil {
		return err
	}
	rows := make([]participant, 0, len(members)+len(company))
	for _, m := range members {
		rows = append(rows, participant{seatKey(m.Seat), m.Agent, m.JoinedAt(), conversation.Responder})
		delete(company, m.Agent)
	}
	for id, since := range company {
		rows = append(rows, participant{formerKey(id, since), id, since, conversation.Responder})
	}
	if at := slices.IndexFunc(rows, func(p participant) bool { return p.agent == state.Initiator() }); at >= 0 {
		rows[at].key, rows[at].role = []byte{0}, conversation.Initiator
	}
	slices.SortFunc(rows, func(a, b participant) int { return bytes.Compare(a.key, b.key) })
	for _, p := range rows {
		if !l.Add(p.key, api.Participant{AgentID: p.agent, Role: p.role.String(), JoinedAt: api.At(p.since)}, nil) {
			break
		}
	}
	return nil
}

// attending returns the members of a conversation's group that a page may show: of a large
// group those of the page, and the initiator. For an organization without current members
// it returns the company of its former ones, and those members that belong to it.
func (s Conversations) attending(l *rest.List, state *conversation.State) (members []group.Member, company map[parley.AgentID]time.Time, err error) {
	c, host := l.Call, state.GroupID()
	look := group.GetView{Viewer: access.Viewer(c, group.Unjudged), FirstMembers: true, Agents: []parley.AgentID{state.Initiator()}}
	v, err := s.Node.Groups.View(c.Context(), host, look)
	if err != nil && !errors.Is(err, journal.ErrErased) { // a group that was erased has no members
		return nil, nil, err
	}
	if len(v.FirstMembers) > 0 {
		page := group.ListMembers{}
		if l.Limit > 0 {
			page.Limit = l.Limit + 2 // one tells that there are more, one may be the initiator
		}
		if len(l.After) == len(seatKey(0)) {
			page.After = binary.BigEndian.Uint32(l.After[1:])
		}
		members, err = s.Node.Groups.ListMembers(c.Context(), host, page)
		began := v.Agents[0]
		if began.Seated() && !slices.ContainsFunc(members, func(m group.Member) bool { return m.Agent == began.Agent }) {
			members = append(members, began.Member)
		}
		return members, nil, err
	}
	if company, err = s.companyOf(c, state); err != nil || len(company) == 0 {
		return nil, company, err
	}
	v, err = s.Node.Groups.View(c.Context(), host, group.GetView{Agents: slices.Collect(maps.Keys(company))})
	if errors.Is(err, journal.ErrErased) {
		return nil, company, nil
	}
	for _, a := range v.Agents {
		if a.Seated() {
			members = append(members, a.Member)
		}
	}
	return members, company, err
}

// companyOf returns a former member's agents in a group and the agents with whom they
// share rows of the conversation, each with the time since when (the creation of the
// conversation if that is unknown).
func (s Conversations) companyOf(c *rest.Call, state *conversation.State) (map[parley.AgentID]time.Time, error) {
	company, err := s.Node.Groups.Correspondents(c.Context(), state.ConversationID(), state.GroupID(), c.Caller.Principal)
	for agent, since := range company {
		if since.IsZero() {
			company[agent] = state.CreatedAt()
		}
	}
	return company, err
}
