package http

import (
	"errors"
	"time"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/http/api"
)

// seatHolders are the caller's agents that have or had a seat in the group whose
// conversation it is, as far as anything depends on them: who began it, the first
// member, the first admin, or else one that has left.
// // contract: Messages and conversations
func (s *Service) seatHolders(c *Call, state *conversation.State) (mine []*agent.State, err error) {
	host, org := state.GroupID(), c.Caller.Org
	ids, err := actors.ReadGroup(c.Context(), s.Node, host, func(g *group.State, _ time.Time) []parley.AgentID {
		return foremost(g, org)
	})
	if err != nil {
		return nil, err
	}
	if began, err := s.Node.Agent(c.Context(), initiatorOf(state)); err == nil && began.Owner() == org {
		mine = append(mine, began)
	} else if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return nil, err
	}
	for _, id := range ids {
		if id == initiatorOf(state) {
			continue
		}
		a, err := s.Node.Agent(c.Context(), id)
		if err != nil {
			return nil, err
		}
		mine = append(mine, a)
	}
	if len(mine) > 0 {
		return mine, nil
	}
	var bad error
	err = s.Node.Agents(c.Context(), org, func(a *agent.State) bool {
		var had bool
		if had, bad = s.Node.HadSeat(c.Context(), host, a.AgentID()); had {
			mine = append(mine, a)
		}
		return bad == nil && len(mine) == 0
	})
	return mine, errors.Join(err, bad)
}

// foremost are an organization's first member and its first admin.
func foremost(g *group.State, org parley.OrgID) (ids []parley.AgentID) {
	for _, m := range g.Members() {
		switch {
		case m.Org != org:
		case m.Role == group.Admin:
			return append(ids, m.Agent)
		case ids == nil:
			ids = append(ids, m.Agent)
		}
	}
	return ids
}

// initiatorOf is who began a conversation.
func initiatorOf(state *conversation.State) parley.AgentID {
	for _, p := range state.GetParticipants() {
		if p.GetRole() == conversation.Initiator {
			return p.Agent()
		}
	}
	return parley.AgentID{}
}

// takesPart reports whether an agent may read a conversation: it is in it, or
// has or had a seat in the group whose it is.
func (s *Service) takesPart(c *Call, state *conversation.State, a *agent.State) (bool, error) {
	if state.Role(a.AgentID()) != conversation.NoRole || state.GroupID().Zero() {
		return state.Role(a.AgentID()) != conversation.NoRole, nil
	}
	return s.Node.HadSeat(c.Context(), state.GroupID(), a.AgentID())
}

// attendance are the members of the group whose conversation it is, who began it
// first.
func (s *Service) attendance(c *Call, state *conversation.State) ([]api.Participant, error) {
	began := initiatorOf(state)
	return actors.ReadGroup(c.Context(), s.Node, state.GroupID(), func(g *group.State, _ time.Time) []api.Participant {
		list := make([]api.Participant, 0, len(g.Members()))
		if m, ok := g.Member(began); ok {
			list = append(list, api.Participant{AgentID: m.Agent, Role: conversation.Initiator.String(), JoinedAt: api.At(m.JoinedAt())})
		}
		for _, m := range g.Members() {
			if m.Agent != began {
				list = append(list, api.Participant{AgentID: m.Agent, Role: conversation.Responder.String(), JoinedAt: api.At(m.JoinedAt())})
			}
		}
		return list
	})
}
