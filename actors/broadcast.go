package actors

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// GroupSend is a message from a member to all other members of its group.
type GroupSend struct {
	Content
	Group parley.GroupID
	From  parley.AgentID
	// Parent, ParentFact and Metadata matter only if the message begins the group's
	// conversation.
	Parent     parley.ConversationID
	ParentFact agent.ParentFact
	Metadata   []byte
	// MLS is group.Send.MLS.
	MLS *group.MLSHeader
}

// Broadcast sends a message to a group. It returns the sender's record: the first copy,
// with the number of copies. // spec: Messaging
func (ms *Messages) Broadcast(ctx context.Context, s GroupSend) (Posted, error) {
	p, err := askGroup[Posted](ctx, ms.groups, s.Group, len(s.Body)+len(s.SelfPayload), s)
	return ms.completeRepeat(ctx, p, err)
}

// broadcast has the group decide: each agent that is a member now gets a copy. A
// broadcast is one event of the conversation and one record, however many members there
// are.
func (ms *Messages) broadcast(t *groupTurn, s *GroupSend) (any, error) {
	if err := requireSum(t, ms.core, s.FromOrg); err != nil {
		return nil, err
	}
	scope := append(s.From.Bytes(), s.Group[:]...)
	known, err := findRepeat(t, scope, &s.Content)
	if err != nil {
		return nil, err
	}
	var current *hostedConversation
	if id := t.State.Conversation; !id.Zero() {
		if current, err = ms.groups.hosted(t, id); err != nil {
			return nil, err
		}
		if current.state.Terminal() {
			current = nil
		}
	}
	ask := group.Send{
		From: s.From, Type: s.Type, Over: current == nil, MLS: s.MLS,
		Conversation: parley.NewID[parley.ConversationID](t.Entry.Slot, t.Now, ms.entropy()),
	}
	if known != nil {
		ask.Prior = &group.Prior{MessageID: known.message, Type: known.kind}
	}
	grant := func() error {
		if current == nil {
			if err := judgeParent(s.ParentFact); err != nil {
				return err
			}
		}
		return grant(t, ms.core, &s.Content, len(t.State.Recipients(s.From)))
	}
	if err := t.DecideIf(ask, grant); errors.Is(err, group.ErrRepeated) {
		return repeatAnswer(known), nil
	} else if err != nil {
		return nil, err
	}
	record, err := ms.appendBroadcast(t, s, current)
	if err != nil {
		return nil, err
	}
	putIdempotencyRecord(t, scope, s.Key, idempotencyRecord{parley.IDFromBytes[parley.MessageID](record.Id), s.Group, s.Type}, record.Owners())
	return Posted{Message: record.FirstCopy()}, nil
}

// judgeParent decides whether a conversation may be the parent of a new one.
func judgeParent(p agent.ParentFact) error {
	switch {
	case p.Named && !p.Known:
		return agent.ErrUnknownParent
	case p.Named && !p.Participant:
		return agent.ErrNotInParent
	}
	return nil
}

// appendBroadcast adds the message to the group's conversation, or to a new one if
// current is nil, and to the feeds of all members but the sender.
func (ms *Messages) appendBroadcast(t *groupTurn, s *GroupSend, current *hostedConversation) (*record.Message, error) {
	to := t.State.Recipients(s.From)
	first, _ := t.State.Member(to[0].Agent)
	s.ToOrg = first.Org
	fan := journal.Fanout{Kind: journal.CopyEntry, Note: journal.TypeHash(s.Type), To: to}
	id := t.State.Conversation
	var message parley.MessageID
	if current != nil {
		message = parley.NextBroadcastID(current.state.LastMessage(), t.Now, ms.entropy())
		c := conversation.Broadcast{MessageID: message, From: s.From}
		if err := decideHosted(t, current, c, nil); err != nil {
			return nil, err
		}
	} else {
		message = parley.NextBroadcastID(parley.MessageID(id), t.Now, ms.entropy())
		start := conversation.Start{
			ID: id, Initiator: s.From, Group: s.Group, Parent: s.Parent, Metadata: s.Metadata, MessageID: message, Owner: t.State.Org,
		}
		k := &hostedConversation{state: &conversation.State{}, seq: 1, stored: 1}
		create, err := rules.Conversation.Begin(rules.ConversationStream(id), k.state, conversation.Command(start), t.Now)
		if err != nil {
			return nil, err
		}
		create.Fresh, create.State = true, nil // folding one event is as quick
		t.State.cache(id, k)
		t.AddEffects(create, journal.AddToList{Agent: s.From, Conversation: id})
		for _, seat := range record.WithoutBroadcasts(t.State.State) {
			t.AddEffects(journal.AddToList{Agent: seat.Agent, Conversation: id})
		}
		fan.Begins = true
	}
	stored := newRecord(message, id, s.From, to[0].Agent, &s.Content)
	stored.Group, stored.Host = s.Group.Bytes(), s.Group.Bytes()
	stored.Recipients, stored.FirstSeat = uint32(len(to)), to[0].Number
	encoded, err := stored.Encode()
	if err != nil {
		return nil, err
	}
	t.Entry.Records = append(t.Entry.Records, encoded)
	fan.Ref = parley.AnyID(message)
	t.AddEffects(fan)
	recordActivity(t, ms.core, s.From, s.FromOrg)
	return stored, nil
}

// replyInGroup decides a reply in a conversation that the group hosts. The reply goes to
// a recipient of a message or to its sender.
func (ms *Messages) replyInGroup(t *groupTurn, r *ReplyTo) (any, error) {
	k, err := ms.groups.hosted(t, r.Conversation)
	if err != nil {
		return nil, err
	}
	before := k.state.GetStatus()
	answer, err := reply(ms, t, r, k.state, func(c conversation.Command, grant func() error) error {
		return decideHosted(t, k, c, grant)
	})
	if k.state.GetStatus() != before {
		announceHostedStatus(t, k)
	}
	return answer, err
}

// changeStatusInGroup changes the status of a conversation of the group. An admin of the
// group may do this, and so may the agent that began the conversation unless it has left.
func (ms *Messages) changeStatusInGroup(t *groupTurn, c ChangeStatus) (any, error) {
	k, err := ms.groups.hosted(t, c.Conversation)
	if err != nil {
		return nil, err
	}
	move := conversation.ChangeStatus{By: c.By, Status: c.Status, Reason: c.Reason}
	for _, by := range c.By {
		m, member := t.State.Member(by)
		if member {
			move.Members = append(move.Members, by)
		}
		if member && m.Role == group.Admin {
			move.Admins = append(move.Admins, by)
		}
	}
	if err := decideHosted(t, k, move, nil); err != nil {
		return nil, err
	}
	announceHostedStatus(t, k)
	return proto.CloneOf(k.state), nil
}

// announceHostedStatus adds the status of a hosted conversation to every member's feed,
// marked as its own for the member that asked for it.
func announceHostedStatus(t *groupTurn, k *hostedConversation) {
	ref, status := parley.AnyID(k.state.ConversationID()), k.state.GetStatus()
	to := slices.DeleteFunc(record.Everybody(t.State.State), func(s parley.Seat) bool { return s.Agent == k.changedBy })
	if len(to) > 0 {
		t.AddEffects(journal.Fanout{Kind: journal.StatusEntry, Ref: ref, Note: statusNote(status, false), To: to})
	}
	if _, member := t.State.Member(k.changedBy); member {
		t.AddEffects(journal.AppendFeed{To: k.changedBy, Kind: journal.StatusEntry, Ref: ref, Note: statusNote(status, true)})
	}
}
