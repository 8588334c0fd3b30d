package actors

import (
	"time"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

type groupTurn = host.Turn[*groupState, group.Command, group.Event]

// groupState is the state of a group's actor: the group and the conversations that it
// hosts. One mailbox decides about members and messages, so joining, leaving and
// sending have one order.
type groupState struct {
	*group.State
	conversations map[parley.ConversationID]*hostedConversation
	// seatLimit is the owner's limit of members from the last request, nil for none.
	seatLimit *int
	// adminSeats caches the seats of the admins; nil if not computed.
	adminSeats []parley.Seat
	// committed are the commits accepted of late, by epoch, which may not be readable yet.
	committed map[uint64]acceptedCommit
}

// hostedConversation is a conversation in a group.
type hostedConversation struct {
	state *conversation.State
	// seq counts its events, stored those since its state was last stored.
	seq, stored uint64
	// changedBy is the agent that asked for the last change of status.
	changedBy parley.AgentID
}

const (
	// groupStateEvery is the number of events after which a group's state is stored. A
	// large group waits for one event per groupStateMembers members and live requests.
	groupStateEvery   = 64
	groupStateMembers = 4
	// hostedMax is how many conversations a group's actor keeps in memory.
	hostedMax = 64
)

var groupRules = rules.Aggregate[*groupState, group.Command, group.Event]{
	Decide: func(h *groupState, c group.Command, now time.Time) ([]group.Event, error) {
		return group.Decide(h.State, c, now)
	},
	Evolve: func(h *groupState, e group.Event) { group.Evolve(h.State, e) },
	Tag:    group.Tag, New: group.New,
	Owners: func(h *groupState) journal.Owners { return rules.Group.OwnersOf(h.State) },
}

func (gs *Groups) kind() *host.Kind[*groupState, group.Command, group.Event] {
	return &host.Kind[*groupState, group.Command, group.Event]{
		Stream: journal.GroupStream, Rules: groupRules, StateEvery: groupStateEvery,
		Weight: func(h *groupState) uint64 { return uint64((len(h.Members()) + h.Live()) / groupStateMembers) },
		Blank:  func() *groupState { return &groupState{State: &group.State{}} },
		Handle: func(t *groupTurn, request any) (any, error) {
			switch r := request.(type) {
			case group.Query:
				if _, waits := r.(group.GetFate); t.State.LastSeat == 0 && !waits {
					return nil, group.ErrUnknown // until the founder has a seat
				}
				return r.Answer(t.State.State, t.Now)
			case joining:
				return gs.join(t, r)
			case Invitation:
				return gs.invite(t, r)
			case group.CastVote:
				return gs.vote(t, r)
			case group.EndRequest:
				return nil, gs.endRequest(t, r)
			case group.Remove:
				return gs.remove(t, r)
			case group.ChangeRole:
				return changeRole(gs, t, r)
			case appointing:
				return appoint(gs, t, r)
			case group.Delete:
				return gs.delete(t, r)
			case MLSCommit:
				return gs.commitMLS(t, r)
			case mlsAcknowledgment:
				return acknowledgeMLS(t, r)
			case GroupSend:
				return gs.messages.broadcast(t, &r)
			case ReplyTo:
				return gs.messages.replyInGroup(t, &r)
			case ChangeStatus:
				return gs.messages.changeStatusInGroup(t, r)
			case host.TimerDue:
				return nil, gs.expire(t, r)
			case group.Command: // changes only the group's record, or ends the group
				return nil, gs.decide(t, r)
			}
			panic("group: unknown request")
		},
		GatherQueued: gs.gatherQueued, HandleQueued: gs.handleQueued,
	}
}

// handleQueued handles an agent's answer to an offered seat, and the message that an
// agent was revoked.
func (gs *Groups) handleQueued(t *groupTurn, m *record.SagaMessage) error {
	agent := parley.IDFromBytes[parley.AgentID](m.GetAgent())
	switch m.GetKind() {
	case record.SagaMessage_answer:
		err := gs.decide(t, group.Answer{Offer: m.GetNumber(), Refusal: m.GetReason()})
		if m.GetReason() == "" && (t.State.Deleted() || t.State.Stale(m.GetNumber(), agent)) {
			t.Enqueue(rules.AgentStream(agent), departMessage(t.State.ID, m.GetNumber()))
		}
		return host.IgnoreRefusal(err)
	case record.SagaMessage_forget:
		return host.IgnoreRefusal(gs.decide(t, group.Forget{Agent: agent, SeatLimit: t.State.seatLimit}))
	}
	return nil
}

// gatherQueued reads the owner's limit of members, which decides whether a join request gets the seat
// of a revoked agent. Without Options.SeatLimit it is that of the last request.
func (gs *Groups) gatherQueued(h *groupState, m *record.SagaMessage) error {
	if m.GetKind() != record.SagaMessage_forget || gs.seats == nil {
		return nil
	}
	if owner, cached := gs.orgs.Cached(h.Org); cached {
		h.setSeatLimit(gs.seats(owner))
		return nil
	}
	v := gs.journal.Latest()
	defer v.Close()
	_, stored, err := v.State(rules.OrgStream(h.Org))
	owner := &org.State{}
	if err == nil {
		err = encoding.Unmarshal(stored, owner)
	}
	if err == nil {
		h.setSeatLimit(gs.seats(owner))
	}
	return err
}

// setSeatLimit stores the limit that a request contains.
func (h *groupState) setSeatLimit(limit *int) { h.seatLimit = limit }

// expire settles overdue requests and cancels the timer. Timers of other requests stay.
// A timer that fires early fires again.
func (gs *Groups) expire(t *groupTurn, r host.TimerDue) error {
	if t.Now.Before(r.Due) {
		return nil
	}
	t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: r.Due, Stream: t.Entry.Stream, Cancel: true})
	return host.IgnoreRefusal(gs.decide(t, group.Expire{}))
}

// hosted returns a conversation of the group, including events that are not applied
// yet.
func (gs *Groups) hosted(t *groupTurn, id parley.ConversationID) (*hostedConversation, error) {
	h := t.State
	if have := h.conversations[id]; have != nil {
		return have, nil
	}
	if t.Idle() {
		h.evict()
	}
	v := gs.journal.View()
	defer v.Close()
	k := &hostedConversation{state: &conversation.State{}}
	var err error
	if k.seq, k.stored, err = rules.Conversation.Load(rules.StoredIn(v), rules.ConversationStream(id), k.state); err != nil {
		return nil, err
	}
	if k.state.GroupID() != h.ID {
		return nil, conversation.ErrUnknown
	}
	h.cache(id, k)
	return k, nil
}

// cache keeps a conversation in memory.
func (h *groupState) cache(id parley.ConversationID, k *hostedConversation) {
	if h.conversations == nil {
		h.conversations = map[parley.ConversationID]*hostedConversation{}
	}
	h.conversations[id] = k
}

// evict drops conversations other than the current one. It is called only when all
// their events are applied, so they can be read again.
func (h *groupState) evict() {
	if len(h.conversations) <= hostedMax {
		return
	}
	for id := range h.conversations {
		if id != h.Conversation {
			delete(h.conversations, id)
		}
	}
}

// decideHosted decides a command of a hosted conversation and adds the events to the
// entry. grant, if set, is called after the rules accept and may still refuse.
func decideHosted(t *groupTurn, k *hostedConversation, c conversation.Command, grant func() error) error {
	events, refusal := conversation.Decide(k.state, c, t.Now)
	if refusal != nil {
		return refusal
	}
	if grant != nil {
		if err := grant(); err != nil {
			return err
		}
	}
	stored, err := rules.Conversation.Encode(events)
	if err != nil {
		return err
	}
	for _, e := range events {
		conversation.Evolve(k.state, e)
	}
	k.changedBy = statusChangedBy(events)
	hosted := journal.StreamAppend{Stream: rules.ConversationStream(k.state.ConversationID()), Expect: k.seq, Events: stored, Owners: rules.Conversation.OwnersOf(k.state)}
	k.seq += uint64(len(stored))
	if k.stored += uint64(len(stored)); k.stored >= conversationStateEvery {
		if hosted.State, err = k.state.MarshalVT(); err != nil {
			return err
		}
		k.stored = 0
	}
	t.Entry.Hosted = append(t.Entry.Hosted, hosted)
	return nil
}
