package conversation

import (
	"slices"

	"parley"
)

// The eight states. // spec: Conversation status
const (
	Submitted     = Status_submitted
	Open          = Status_open
	Paused        = Status_paused
	InputRequired = Status_input_required
	Completed     = Status_completed
	Failed        = Status_failed
	Canceled      = Status_canceled
	Rejected      = Status_rejected
)

// The parts an agent can have. // spec: Conversation
const (
	NoRole    = Role_no_role
	Initiator = Role_initiator
	Responder = Role_responder
	Observer  = Role_observer
	Mediator  = Role_mediator
)

// moves is the whole state machine; a move that is not here is a conflict, and
// a state without moves is terminal. // spec: Conversation status
var moves = map[Status][]Status{
	Submitted:     {Open, Rejected, Canceled, Failed},
	Open:          {Paused, InputRequired, Completed, Failed, Canceled},
	Paused:        {Open, Completed, Failed, Canceled},
	InputRequired: {Open, Completed, Failed, Canceled},
}

// ParseStatus reads a status as the wire spells it.
func ParseStatus(word string) (Status, bool) {
	n, ok := Status_value[word]
	return Status(n), ok && n != 0
}

// Terminal reports whether the status has no outgoing moves.
func (x Status) Terminal() bool { return x != Status_no_status && len(moves[x]) == 0 }

// Terminal reports whether the conversation has ended.
func (s *State) Terminal() bool { return s.GetStatus().Terminal() }

// Allowed are the statuses that the conversation can move to, in the order of
// the specification's table. A group's conversation has nobody who could decline
// it. Empty, never nil.
func (s *State) Allowed() []string {
	words := []string{}
	for _, to := range moves[s.GetStatus()] {
		if to != Rejected || !s.ofGroup() {
			words = append(words, to.String())
		}
	}
	return words
}

func (s *State) allows(to Status) bool { return slices.Contains(moves[s.GetStatus()], to) }

// party reports whether the role is one of the two ends of the conversation.
func (x Role) party() bool { return x == Initiator || x == Responder }

// mayMove reports whether a participant in that role may ask for the move: only
// a responder declines, everything else is open to all but observers.
func (x Role) mayMove(to Status) bool {
	if to == Rejected {
		return x == Responder
	}
	return x.party() || x == Mediator
}

// mover is the first of those who ask that may move the conversation to that
// status.
func (s *State) mover(c ChangeStatus, to Status) (parley.AgentID, error) {
	if s.ofGroup() {
		return s.steward(c, to)
	}
	refusal := ErrNotParticipant
	for _, agent := range c.By {
		role := s.Role(agent)
		if role.mayMove(to) {
			return agent, nil
		}
		if role != NoRole {
			refusal = ErrRoleNotAllowed
		}
	}
	return parley.AgentID{}, refusal
}

// steward is the mover of a group's conversation: its initiator, as long as it is
// in the group, or an admin. That those who ask may know of it the host has judged.
func (s *State) steward(c ChangeStatus, to Status) (parley.AgentID, error) {
	admins, members := setOf(c.Admins), setOf(c.Members)
	refusal := ErrNotMember
	for _, agent := range c.By {
		switch {
		case !admins[agent] && !members[agent]:
			continue
		case to != Rejected && (admins[agent] || s.Role(agent) == Initiator):
			return agent, nil
		}
		refusal = ErrRoleNotAllowed
	}
	return parley.AgentID{}, refusal
}

// setOf is for lists of thousands that are looked into as often.
func setOf(agents []parley.AgentID) map[parley.AgentID]bool {
	set := make(map[parley.AgentID]bool, len(agents))
	for _, agent := range agents {
		set[agent] = true
	}
	return set
}
