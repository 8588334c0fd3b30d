// Package conversation holds the rules of a conversation, between two agents or
// in a group: who takes part, who may reply, and how its status moves. It does no
// I/O and reads no clock.
package conversation

import (
	"errors"
	"time"

	"parley"
)

// Exists reports whether the conversation was ever started.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// ConversationID is the conversation's id.
func (s *State) ConversationID() (id parley.ConversationID) {
	copy(id[:], s.GetId())
	return id
}

// ParentID is the conversation that this one is a part of; zero for one at the
// root.
func (s *State) ParentID() (id parley.ConversationID) {
	copy(id[:], s.GetParent())
	return id
}

// GroupID is the group whose conversation it is; zero for one between two
// agents.
func (s *State) GroupID() (id parley.GroupID) {
	copy(id[:], s.GetGroup())
	return id
}

// ofGroup reports whether the conversation is hosted by a group. Its members at the
// time of a message take part in that message; only the initiator is a participant of
// the conversation.
func (s *State) ofGroup() bool { return len(s.GetGroup()) > 0 }

// LastMessage is the id of the newest message.
func (s *State) LastMessage() (id parley.MessageID) {
	copy(id[:], s.GetLastMessageId())
	return id
}

// CreatedAt is when the conversation started, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// UpdatedAt is when it last had a message or a move, UTC.
func (s *State) UpdatedAt() time.Time { return time.UnixMilli(s.GetUpdatedMs()).UTC() }

// Agent is the participant's id.
func (p *Participant) Agent() (id parley.AgentID) {
	copy(id[:], p.GetAgentId())
	return id
}

// JoinedAt is when the participant came in, UTC.
func (p *Participant) JoinedAt() time.Time { return time.UnixMilli(p.GetJoinedMs()).UTC() }

// Role is the part that an agent has in the conversation, NoRole for none.
func (s *State) Role(agent parley.AgentID) Role {
	for _, p := range s.GetParticipants() {
		if p.Agent() == agent {
			return p.Role
		}
	}
	return NoRole
}

// Other is the party across from agent: the responder for the initiator and
// the other way round. False for an agent that is neither.
func (s *State) Other(agent parley.AgentID) (parley.AgentID, bool) {
	mine := s.Role(agent)
	if !mine.party() {
		return parley.AgentID{}, false
	}
	for _, p := range s.GetParticipants() {
		if p.Role != mine && p.Role.party() {
			return p.Agent(), true
		}
	}
	return parley.AgentID{}, false
}

// FirstMessageID makes the id of the message that starts the conversation id:
// it lives in the conversation's slot.
func FirstMessageID(id parley.ConversationID, now time.Time, random [10]byte) parley.MessageID {
	return parley.NextID(parley.MessageID(id), now, random)
}

// NextMessageID makes an id that lives in the conversation's slot and sorts
// after all its messages, whatever the clock says.
func (s *State) NextMessageID(now time.Time, random [10]byte) parley.MessageID {
	return parley.NextID(s.LastMessage(), now, random)
}

// Command asks for a change of a conversation.
//
//sumtype:decl
type Command interface{ command() }

// Start makes the conversation with its first message. To start one that
// exists changes nothing: the deed may be repeated after a crash. Whether the
// initiator may send to the responder, or to the group, was judged before.
type Start struct {
	ID        parley.ConversationID
	Initiator parley.AgentID
	// Responder is zero for a group's conversation.
	Responder parley.AgentID
	// Group is zero for a conversation between two agents.
	Group parley.GroupID
	// Parent is zero for a conversation at the root.
	Parent parley.ConversationID
	// Metadata is a JSON object as it was sent, empty for none.
	Metadata  []byte
	MessageID parley.MessageID
}

// Broadcast posts a message to all members of the group whose conversation it
// is. Whether the sender may, and who the others are, the group has judged. It
// is an opening word and no answer: it does not open what is submitted.
type Broadcast struct {
	MessageID parley.MessageID
	From      parley.AgentID
}

// Reply posts a message into the conversation. In a group's conversation, that
// From may answer To was judged before, by the message it answers.
type Reply struct {
	MessageID parley.MessageID
	From      parley.AgentID
	To        parley.AgentID
	InReplyTo parley.MessageID
	// Prior is the reply that the idempotency key is remembered for, nil if
	// there was none.
	Prior *Prior
	Type  string
	// ToRevoked is a fact about the recipient.
	ToRevoked bool
	// Apart is a fact: isolation keeps the two from talking.
	Apart bool
}

// Prior is what a former reply under the same idempotency key was.
type Prior struct {
	MessageID parley.MessageID
	InReplyTo parley.MessageID
	Type      string
}

// ChangeStatus moves the conversation to another status.
type ChangeStatus struct {
	// By are the agents in whose name the caller may ask, in the order of
	// preference: the one it named, or all of its own.
	By []parley.AgentID
	// Admins and Members are facts about a group's conversation: the group's admins,
	// and those who are in it at all. Others than those who ask may be left out.
	Admins, Members []parley.AgentID
	// Status is one of the specification's words.
	Status string
	// Reason is a remark for people, empty for none.
	Reason string
}

func (Start) command()        {}
func (Reply) command()        {}
func (ChangeStatus) command() {}
func (Broadcast) command()    {}

// Event is a fact about a conversation: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	event()
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

func (*Started) event()       {}
func (*Posted) event()        {}
func (*StatusChanged) event() {}
func (*Broadcasted) event()   {}

// Tag is the number under which an event's kind is on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Started:
		return 1
	case *Posted:
		return 2
	case *StatusChanged:
		return 3
	case *Broadcasted:
		return 4
	}
	panic("conversation: unknown event")
}

// New is an empty event of the kind that Tag numbers tag, false for a number
// that was never given.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Started{}, true
	case 2:
		return &Posted{}, true
	case 3:
		return &StatusChanged{}, true
	case 4:
		return &Broadcasted{}, true
	}
	return nil, false
}

// ErrRepeated is no refusal: the reply was posted before under the same
// idempotency key, and the stored message is the answer.
var ErrRepeated = errors.New("conversation: the reply was posted before under this idempotency key")

// Refusals of a conversation.
var (
	ErrUnknown             = parley.ErrNotFound.Saying("There is no such conversation.")
	ErrNotParticipant      = parley.ErrNotOwner.Saying("The agent takes no part in this conversation.")
	ErrIdempotencyMismatch = parley.Refuse(parley.Conflict, "idempotency_mismatch", "The Idempotency-Key was used for a reply of another type or to another message.")
	ErrRecipientRevoked    = parley.ErrGone.Saying("The recipient has been revoked.")
	// ErrClosed carries current_status.
	ErrClosed = parley.Refuse(parley.Conflict, "conversation_closed", "The conversation has ended.")
	// ErrRoleNotAllowed is for one who takes part, but not in the role that
	// the move needs.
	ErrRoleNotAllowed = parley.Refuse(parley.Forbidden, "role_not_allowed", "Your role in the conversation does not allow this move.")
	// ErrNotMember is for one who had a part in a group's conversation, and is in the
	// group no more.
	ErrNotMember = parley.Refuse(parley.Forbidden, "not_member", "The acting agent is no member of this group.")
	// ErrInvalidTransition carries current_status and allowed.
	ErrInvalidTransition = parley.Refuse(parley.Conflict, "invalid_transition", "The conversation cannot move to this status from the one it has.")
)

// Decide judges c against s and returns the events that make it true, or the
// refusal. It never changes s.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Start:
		return decideStart(s, c, now)
	case Reply:
		return decideReply(s, c, now)
	case ChangeStatus:
		return decideChangeStatus(s, c, now)
	case Broadcast:
		return decideBroadcast(s, c, now)
	}
	panic("conversation: unknown command")
}

func decideStart(s *State, c Start, now time.Time) ([]Event, error) {
	if s.Exists() {
		return nil, nil
	}
	e := &Started{
		Id: c.ID.Bytes(), Initiator: c.Initiator.Bytes(),
		Metadata: c.Metadata, MessageId: c.MessageID.Bytes(), AtMs: now.UnixMilli(),
	}
	if c.Group.Zero() {
		e.Responder = c.Responder.Bytes()
	} else {
		e.Group = c.Group.Bytes()
	}
	if !c.Parent.Zero() {
		e.Parent = c.Parent.Bytes()
	}
	return []Event{e}, nil
}

func decideReply(s *State, c Reply, now time.Time) ([]Event, error) {
	switch {
	case c.Prior != nil:
		return nil, c.Prior.judge(c)
	case !s.Exists():
		return nil, ErrUnknown
	case !s.ofGroup() && (s.Role(c.From) == NoRole || s.Role(c.To) == NoRole):
		return nil, ErrNotParticipant
	case c.ToRevoked:
		return nil, ErrRecipientRevoked
	case c.Apart:
		return nil, parley.ErrIsolatedAgent
	case s.Terminal():
		return nil, s.closed()
	}
	events := []Event{&Posted{
		MessageId: c.MessageID.Bytes(), From: c.From.Bytes(), To: c.To.Bytes(),
		InReplyTo: c.InReplyTo.Bytes(), AtMs: now.UnixMilli(),
	}}
	if s.GetStatus() == Submitted {
		events = append(events, &StatusChanged{Status: Open, By: c.From.Bytes(), AtMs: now.UnixMilli()})
	}
	return events, nil
}

// closed says why nothing is said here any more.
func (s *State) closed() error { return ErrClosed.With("current_status", s.GetStatus().String()) }

func decideBroadcast(s *State, c Broadcast, now time.Time) ([]Event, error) {
	switch {
	case !s.ofGroup(): // a group has no such conversation
		return nil, ErrUnknown
	case s.Terminal():
		return nil, s.closed()
	}
	return []Event{&Broadcasted{MessageId: c.MessageID.Bytes(), From: c.From.Bytes(), AtMs: now.UnixMilli()}}, nil
}

func (p *Prior) judge(c Reply) error {
	if p.InReplyTo != c.InReplyTo || p.Type != c.Type {
		return ErrIdempotencyMismatch
	}
	return ErrRepeated
}

func decideChangeStatus(s *State, c ChangeStatus, now time.Time) ([]Event, error) {
	if !s.Exists() {
		return nil, ErrUnknown
	}
	to, _ := ParseStatus(c.Status)
	by, err := s.mover(c, to)
	if err != nil {
		return nil, err
	}
	if !s.allows(to) {
		return nil, ErrInvalidTransition.
			With("current_status", s.GetStatus().String()).With("allowed", s.Allowed())
	}
	return []Event{&StatusChanged{Status: to, By: by.Bytes(), Reason: c.Reason, AtMs: now.UnixMilli()}}, nil
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Started:
		s.Id, s.Group, s.Status, s.Parent, s.Metadata = e.Id, e.Group, Submitted, e.Parent, e.Metadata
		s.Participants = []*Participant{{AgentId: e.Initiator, Role: Initiator, JoinedMs: e.AtMs}}
		if !s.ofGroup() {
			s.Participants = append(s.Participants, &Participant{AgentId: e.Responder, Role: Responder, JoinedMs: e.AtMs})
		}
		s.CreatedMs, s.UpdatedMs = e.AtMs, e.AtMs
		s.LastMessageId, s.Messages = e.MessageId, 1
	case *Posted:
		s.post(e.MessageId, e.AtMs)
	case *Broadcasted:
		s.post(e.MessageId, e.AtMs)
	case *StatusChanged:
		s.Status, s.UpdatedMs = e.Status, e.AtMs
	}
}

func (s *State) post(message []byte, atMs int64) {
	s.LastMessageId, s.UpdatedMs = message, atMs
	s.Messages++
}
