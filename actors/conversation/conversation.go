// Package conversation holds the rules of a conversation, between two agents or in a
// group: who takes part, who may reply, and how its status changes. It does no I/O and
// reads no clock.
package conversation

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Exists reports whether the conversation was ever started.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// ConversationID returns the conversation's id.
func (s *State) ConversationID() (id parley.ConversationID) {
	copy(id[:], s.GetId())
	return id
}

// ParentID returns the conversation that this one is a part of; zero for a root
// conversation.
func (s *State) ParentID() (id parley.ConversationID) {
	copy(id[:], s.GetParent())
	return id
}

// Initiator returns the agent that began the conversation.
func (s *State) Initiator() parley.AgentID {
	for _, p := range s.GetParticipants() {
		if p.GetRole() == Initiator {
			return p.Agent()
		}
	}
	return parley.AgentID{}
}

// InitiatorOrg returns the organization that began a conversation between two agents.
func (s *State) InitiatorOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](s.GetOwner()) }

// GroupID returns the group that hosts the conversation; zero for a conversation between
// two agents.
func (s *State) GroupID() (id parley.GroupID) {
	copy(id[:], s.GetGroup())
	return id
}

// ofGroup reports whether the conversation is hosted by a group. Its members at the
// time of a message take part in that message; only the initiator is a participant of
// the conversation.
func (s *State) ofGroup() bool { return len(s.GetGroup()) > 0 }

// LastMessage returns the id of the newest message.
func (s *State) LastMessage() (id parley.MessageID) {
	copy(id[:], s.GetLastMessageId())
	return id
}

// CreatedAt returns when the conversation started, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// UpdatedAt returns when the conversation last had a message or a change of status, UTC.
func (s *State) UpdatedAt() time.Time { return time.UnixMilli(s.GetUpdatedMs()).UTC() }

// Agent returns the participant's id.
func (p *Participant) Agent() (id parley.AgentID) {
	copy(id[:], p.GetAgentId())
	return id
}

// JoinedAt returns when the participant joined, UTC.
func (p *Participant) JoinedAt() time.Time { return time.UnixMilli(p.GetJoinedMs()).UTC() }

// Role returns an agent's role in the conversation, NoRole for none.
func (s *State) Role(agent parley.AgentID) Role {
	for _, p := range s.GetParticipants() {
		if p.Agent() == agent {
			return p.Role
		}
	}
	return NoRole
}

// Other returns the other party: the responder for the initiator, and the reverse. It
// returns false for an agent that is neither.
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

// FirstMessageID returns the id of the message that starts the conversation id between
// two agents. It is in the conversation's slot and has its time. The two ids differ in
// one random bit: each determines the other, so that nothing need be stored to find the
// one from the other.
func FirstMessageID(id parley.ConversationID) parley.MessageID {
	id[firstMessageByte] ^= 1
	return parley.MessageID(id)
}

// StartedBy returns the conversation of which a message is the first. It is the reverse
// of FirstMessageID.
func StartedBy(first parley.MessageID) parley.ConversationID {
	first[firstMessageByte] ^= 1
	return parley.ConversationID(first)
}

// firstMessageByte is the last random byte before those that number the copies of a
// broadcast.
const firstMessageByte = 11

// NextMessageID returns a new id in the conversation's slot that sorts after all its
// messages, even if the clock goes back.
func (s *State) NextMessageID(now time.Time, random [10]byte) parley.MessageID {
	return parley.NextID(s.LastMessage(), now, random)
}

// Command asks for a change of a conversation.
//
//sumtype:decl
type Command interface{ command() }

// Start starts the conversation with its first message. Starting one that exists changes
// nothing, so the command may be repeated after a crash. The caller has already checked
// that the initiator may send to the responder or to the group.
type Start struct {
	ID        parley.ConversationID
	Initiator parley.AgentID
	// Responder is zero in a group's conversation.
	Responder parley.AgentID
	// Group is zero in a conversation between two agents.
	Group parley.GroupID
	// Parent is zero in a root conversation.
	Parent parley.ConversationID
	// Metadata is a JSON object as it was sent, empty for none.
	Metadata  []byte
	MessageID parley.MessageID
	// Task: the conversation is an A2A task. That of a group never is.
	Task bool
	// Owner is the organization of the initiator, OtherOwner that of the responder. A
	// group's conversation has the owner of the group alone.
	Owner, OtherOwner parley.OrgID
}

// Broadcast posts a message to all members of the group that hosts the conversation. The
// group has already checked the sender and selected the recipients. A broadcast is not an
// answer: it does not move a submitted conversation to open.
type Broadcast struct {
	MessageID parley.MessageID
	From      parley.AgentID
}

// Reply posts a message into the conversation. In a group's conversation, the message
// that From answers has already established that From may answer To.
type Reply struct {
	MessageID parley.MessageID
	From      parley.AgentID
	To        parley.AgentID
	InReplyTo parley.MessageID
	// Prior is the earlier reply under the same idempotency key, nil if there was none.
	Prior *Prior
	// Continues is set if the caller named no original: InReplyTo is the message that
	// happened to be the last one, and a repeat may have another.
	Continues bool
	Type      string
	// ToRevoked is a lookup of the recipient.
	ToRevoked bool
	// Apart is a lookup: isolation keeps the two from talking.
	Apart bool
	// Barred is a lookup: To blocks From.
	Barred bool
	// Outcome is the status to which a reply of this type moves an A2A task, 0 for none.
	Outcome Status
	// Lone: the reply asks to be the whole answer to an A2A task, a message instead of a task.
	Lone bool
}

// Prior describes an earlier reply under the same idempotency key.
type Prior struct {
	MessageID parley.MessageID
	InReplyTo parley.MessageID
	Type      string
}

// ChangeStatus changes the conversation's status.
type ChangeStatus struct {
	// By lists the agents for which the caller may act, in the order of preference: the
	// agent that it named, or all its agents.
	By []parley.AgentID
	// Admins and Members are lookups for a group's conversation: the group's admins and
	// its members. They may omit agents that are not in By.
	Admins, Members []parley.AgentID
	// Status is a status name of the specification.
	Status string
	// Reason is a remark for people, empty for none.
	Reason string
	// Apart is a lookup: isolation keeps the participants of a conversation of two from
	// talking. It bars a reason, which is text, but no change without one.
	Apart bool
	// Barred is a lookup: one of the participants that do not ask for the change blocks one that
	// may. It bars a reason too.
	Barred bool
}

func (Start) command()        {}
func (Reply) command()        {}
func (ChangeStatus) command() {}
func (Broadcast) command()    {}

// Event is a fact about a conversation: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Started) event()       {}
func (*Posted) event()        {}
func (*StatusChanged) event() {}
func (*Broadcasted) event()   {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
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

// New returns an empty event of the kind with this tag, false for an unknown tag.
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

// HasContent reports whether an event has texts of its participants.
func HasContent(e Event) bool {
	switch e := e.(type) {
	case *Started:
		return len(e.GetMetadata()) > 0
	case *StatusChanged:
		return e.GetReason() != ""
	case *Posted, *Broadcasted:
	}
	return false
}

// ErrRepeated is not a refusal: an earlier request posted the reply under the same
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
	// ErrRoleNotAllowed refuses a participant whose role does not allow the change.
	ErrRoleNotAllowed = parley.Refuse(parley.Forbidden, "role_not_allowed", "Your role in the conversation does not allow this move.")
	// ErrNotMember refuses an agent that took part in a group's conversation and has left
	// the group.
	ErrNotMember = parley.Refuse(parley.Forbidden, "not_member", "The acting agent is no member of this group.")
	// ErrInvalidTransition carries current_status and allowed.
	ErrInvalidTransition = parley.Refuse(parley.Conflict, "invalid_transition", "The conversation cannot move to this status from the one it has.")
)

// Decide applies the rules to c in state s and returns the resulting events, or the
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
		Metadata: c.Metadata, MessageId: c.MessageID.Bytes(), AtMs: now.UnixMilli(), Owner: c.Owner.Bytes(),
	}
	if c.Group.Zero() {
		e.Responder, e.OtherOwner, e.Task = c.Responder.Bytes(), c.OtherOwner.Bytes(), c.Task
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
	case c.Barred:
		return nil, parley.ErrIncomingPolicy
	case s.Terminal():
		return nil, s.Closed()
	}
	posted := &Posted{
		MessageId: c.MessageID.Bytes(), From: c.From.Bytes(), To: c.To.Bytes(),
		InReplyTo: c.InReplyTo.Bytes(), AtMs: now.UnixMilli(), Meaning: meaningOf(s, c),
	}
	if posted.Meaning == Meaning_lone_message {
		c.Outcome = Completed
	}
	events := []Event{posted}
	for _, to := range s.movesBy(c) {
		moved := &StatusChanged{Status: to, By: c.From.Bytes(), AtMs: now.UnixMilli()}
		if s.GetTask() && to == Open { // who follows a task sees it open before its message
			events = []Event{moved, posted}
			continue
		}
		events = append(events, moved)
	}
	return events, nil
}

// movesBy returns the statuses through which a reply moves the conversation: the first
// reply opens it. In an A2A task the initiator also opens it again after input was
// required, and the responder ends it by a reply with an outcome.
func (s *State) movesBy(c Reply) (all []Status) {
	now, role := s.GetStatus(), s.Role(c.From)
	move := func(to Status) {
		if slices.Contains(moves[now], to) {
			all, now = append(all, to), to
		}
	}
	switch {
	case now == Submitted:
		move(Open)
	case s.GetTask() && now == InputRequired && role == Initiator:
		move(Open)
	}
	if s.GetTask() && role == Responder && c.Outcome != Status_no_status {
		move(c.Outcome)
	}
	return all
}

// Closed returns the refusal of a message to a conversation that has ended.
func (s *State) Closed() error { return ErrClosed.With("current_status", s.GetStatus().String()) }

func decideBroadcast(s *State, c Broadcast, now time.Time) ([]Event, error) {
	switch {
	case !s.ofGroup(): // a group does not host it
		return nil, ErrUnknown
	case s.Terminal():
		return nil, s.Closed()
	}
	return []Event{&Broadcasted{MessageId: c.MessageID.Bytes(), From: c.From.Bytes(), AtMs: now.UnixMilli()}}, nil
}

func (p *Prior) judge(c Reply) error {
	if !c.Continues && p.InReplyTo != c.InReplyTo || p.Type != c.Type {
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
	if c.Apart && c.Reason != "" {
		return nil, parley.ErrIsolatedAgent
	}
	if c.Barred && c.Reason != "" {
		return nil, parley.ErrIncomingPolicy
	}
	if !s.allows(to) {
		return nil, s.NoTransition()
	}
	return []Event{&StatusChanged{
		Status: to, By: by.Bytes(), Reason: c.Reason, AtMs: now.UnixMilli(), AuthRequired: to == InputRequired && c.Reason == authReason,
	}}, nil
}

// NoTransition returns the refusal of a change that the status does not allow.
func (s *State) NoTransition() error {
	return ErrInvalidTransition.With("current_status", s.GetStatus().String()).With("allowed", s.Allowed())
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Started:
		s.Id, s.Group, s.Status, s.Parent, s.Metadata = e.Id, e.Group, Submitted, e.Parent, e.Metadata
		s.Owner, s.OtherOwner, s.Task = e.Owner, e.OtherOwner, e.Task
		s.Participants = []*Participant{{AgentId: e.Initiator, Role: Initiator, JoinedMs: e.AtMs}}
		if !s.ofGroup() {
			s.Participants = append(s.Participants, &Participant{AgentId: e.Responder, Role: Responder, JoinedMs: e.AtMs})
		}
		s.CreatedMs, s.UpdatedMs = e.AtMs, e.AtMs
		s.LastMessageId, s.Messages = e.MessageId, 1
	case *Posted:
		s.post(e.MessageId, e.AtMs)
		s.mean(e)
	case *Broadcasted:
		s.post(e.MessageId, e.AtMs)
	case *StatusChanged:
		s.Status, s.UpdatedMs, s.AuthRequired = e.Status, e.AtMs, e.AuthRequired
	}
}

func (s *State) post(message []byte, atMs int64) {
	s.LastMessageId, s.UpdatedMs = message, atMs
	s.Messages++
}
