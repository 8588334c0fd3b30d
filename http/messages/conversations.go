package messages

import (
	"errors"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

var errForeignConversation = parley.ErrNotOwner.Saying("No agent of your organization takes part in this conversation.")

// conversation returns a conversation in which an agent of the caller takes part, and
// those agents, the initiator first.
func (s Conversations) conversation(c *rest.Call, id parley.ConversationID) (*conversation.State, []*agent.State, error) {
	state, err := s.Node.Messages.Conversation(c.Context(), id)
	if errors.Is(err, journal.ErrErased) {
		return nil, nil, s.erasedConversation(c, id)
	}
	if err != nil {
		return nil, nil, err
	}
	if !state.GroupID().Zero() {
		mine, err := s.seatHolders(c, state)
		if err == nil && len(mine) == 0 {
			err = errForeignConversation
		}
		return state, mine, err
	}
	var mine []*agent.State
	for _, p := range state.GetParticipants() {
		a, err := s.Node.Agents.Get(c.Context(), p.Agent())
		if errors.Is(err, journal.ErrErased) {
			return nil, nil, s.erasedConversation(c, id)
		}
		if err != nil {
			return nil, nil, err
		}
		if c.Caller.Owns(a.Owner(), a.AgentID()) {
			mine = append(mine, a)
		}
	}
	if len(mine) == 0 {
		return nil, nil, errForeignConversation
	}
	return state, mine, nil
}

// erasedConversation returns the refusal of a conversation between two agents one of which
// was erased: it is gone for the organization of the other, and unknown to all others.
func (s Conversations) erasedConversation(c *rest.Call, id parley.ConversationID) error {
	first, err := s.Node.Messages.GetRecord(c.Context(), id.Slot(), conversation.FirstMessageID(id))
	if _, err = submission.Readable(c, first, err); errors.Is(err, parley.ErrNotFound) {
		return conversation.ErrUnknown
	}
	return err
}

// Get returns the conversation's record. // spec: Conversations
func (s Conversations) Get(c *rest.Call, in *api.GetConversation) (api.Conversation, error) {
	state, _, err := s.conversation(c, in.ID)
	if err != nil {
		return api.Conversation{}, err
	}
	return view.Conversation(state), nil
}

// Participants returns the participants of a conversation, the initiator first.
func (s Conversations) Participants(c *rest.Call, in *api.GetParticipants) (rest.Rendered, error) {
	state, _, err := s.conversation(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	l, err := s.Lists.New(c, in.Paging, "participants "+in.ID.String(), participantKeys...)
	if err != nil {
		return rest.Rendered{}, err
	}
	if !state.GroupID().Zero() {
		return l.Answer(s.attendance(l, state))
	}
	for i, p := range state.GetParticipants() {
		row := api.Participant{AgentID: p.Agent(), Role: p.GetRole().String(), JoinedAt: api.At(p.JoinedAt())}
		if !l.Add(seatKey(uint32(i)), row, nil) {
			break
		}
	}
	return l.Answer(nil)
}

// PatchStatus changes a conversation's status on behalf of the agent that the header
// names or, without one, of any of the caller's agents that may do so.
// // spec: Conversation status
func (s Conversations) PatchStatus(c *rest.Call, in *api.StatusPatch) (api.Conversation, error) {
	request := actors.ChangeStatus{Conversation: in.ID, Status: in.Status}
	if in.Reason != nil {
		request.Reason = *in.Reason
	}
	var named *agent.State
	if in.ActingAgent != "" {
		var err error
		if named, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return api.Conversation{}, err
		}
		request.By = []parley.AgentID{named.AgentID()}
	}
	current, mine, err := s.conversation(c, in.ID)
	if err != nil {
		return api.Conversation{}, err
	}
	request.Host = current.GroupID()
	for _, a := range mine {
		if in.ActingAgent == "" && !a.Revoked() {
			request.By = append(request.By, a.AgentID())
		}
	}
	if request.Apart, request.Barred, err = s.kept(c, current, named, request.Reason); err != nil {
		return api.Conversation{}, err
	}
	state, err := s.Node.Messages.ChangeStatus(c.Context(), request)
	if err != nil {
		return api.Conversation{}, err
	}
	out := view.Conversation(state)
	out.UpdatedAt = new(api.At(state.UpdatedAt()))
	return out, nil
}

// kept reports whether isolation keeps the reason for a change of status from one participant of
// a conversation of two, and whether a block of the other side does. named is the acting agent, nil
// if none is named. In a group's conversation only members change it.
func (s Conversations) kept(c *rest.Call, of *conversation.State, named *agent.State, reason string) (apart, barred bool, err error) {
	if reason == "" || !of.GroupID().Zero() {
		return false, false, nil
	}
	var all []*agent.State
	for _, p := range of.GetParticipants() {
		a, err := s.Node.Agents.Get(c.Context(), p.Agent())
		if errors.Is(err, journal.ErrErased) {
			return false, false, nil // nobody reads the reason
		}
		if err != nil {
			return false, false, err
		}
		for _, other := range all {
			apart = apart || agent.Apart(other.GetGroups(), a.GetGroups())
			barred = barred || keepsOut(c, a, other, named) || keepsOut(c, other, a, named)
		}
		all = append(all, a)
	}
	return apart, barred, nil
}

// keepsOut reports whether an agent blocks another one that acts: the one named, else one of the
// caller's that faces somebody else's.
func keepsOut(c *rest.Call, by, other, named *agent.State) bool {
	acts := c.Caller.Owns(other.Owner(), other.AgentID()) && !c.Caller.Owns(by.Owner(), by.AgentID())
	if named != nil {
		acts = other.AgentID() == named.AgentID()
	}
	return acts && agent.Bars(by, other, false)
}

// Transcript returns a page of both sides of a conversation, in its order.
func (s Conversations) Transcript(c *rest.Call, in *api.Transcript) (rest.Rendered, error) {
	var acting *agent.State
	if in.ActingAgent != "" {
		var err error
		if acting, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	state, mine, err := s.conversation(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	named := acting
	if acting == nil {
		acting = mine[0]
	} else if part, err := s.takesPart(c, state, acting); err != nil {
		return rest.Rendered{}, err
	} else if !part {
		return rest.Rendered{}, conversation.ErrNotParticipant
	}
	list := "transcript " + in.ID.String() + " " + in.Order
	from, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	var page []query.Message
	var next uint64
	room := pageBudget{call: c, viewer: s.viewerOf(c, acting)}
	if host := state.GroupID(); host.Zero() {
		page, next, err = s.Node.Messages.Transcript(c.Context(), in.ID, from, in.Limit, in.Order == "desc", room.fits)
	} else {
		page, next, err = s.Node.Messages.TranscriptOf(c.Context(), in.ID, host, acting.AgentID(), from, in.Limit, in.Order == "desc", room.fits)
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	if !in.Peek && !c.OnlyReads() {
		shown := func(r *record.Message) bool { return r.Recipient() == acting.AgentID() && recipientActs(c, named, r) }
		if err := Inbox(s).recordShown(c, acting.AgentID(), page, shown); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(room.size(), func(b []byte) []byte {
		return view.AppendPage(b, s.Agents.ToViews(c.Context(), page), room.viewer, s.Lists.Cursor(list, next))
	}), nil
}

// OfAgent returns a page of the conversations an agent takes part in.
func (s Conversations) OfAgent(c *rest.Call, in *api.AgentConversations) (api.Page[api.Conversation], error) {
	page := api.Page[api.Conversation]{Items: []api.Conversation{}}
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return page, err
	}
	list := "conversations " + in.ID.String()
	before, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return page, err
	}
	states, next, err := s.Node.Messages.Conversations(c.Context(), in.ID, before, in.Limit)
	if err != nil {
		return page, err
	}
	for _, state := range states {
		page.Items = append(page.Items, view.Conversation(state))
	}
	if page.HasMore = next != 0; page.HasMore {
		page.NextCursor = new(s.Lists.Cursor(list, next))
	}
	return page, nil
}
