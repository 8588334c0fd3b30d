package conversation

import (
	"slices"

	"parley/client/parley"
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

// The roles of an agent. // spec: Conversation
const (
	NoRole    = Role_no_role
	Initiator = Role_initiator
	Responder = Role_responder
	Observer  = Role_observer
	Mediator  = Role_mediator
)

// moves is the state machine. A change that is not listed is a conflict, and a status
// without changes is terminal. // spec: Conversation status
var moves = map[Status][]Status{
	Submitted:     {Open, Rejected, Canceled, Failed},
	Open:          {Paused, InputRequired, Completed, Failed, Canceled},
	Paused:        {Open, Completed, Failed, Canceled},
	InputRequired: {Open, Completed, Failed, Canceled},
}

// ParseStatus parses a status as spelled in the API.
func ParseStatus(word string) (Status, bool) {
	n, ok := Status_value[word]
	return Status(n), ok && n != 0
}

// Terminal reports whether the status cannot change any more.
func (x Status) Terminal() bool { return x != Status_no_status && len(moves[x]) == 0 }

// Terminal reports whether the conversation has ended.
func (s *State) Terminal() bool { return s.GetStatus().Terminal() }

// Allowed returns the statuses to which the conversation can change, in the order of the
// specification's table. A group's conversation cannot be rejected, because it has no
// responder. The slice may be empty, but is never nil.
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

// party reports whether the role is initiator or responder.
func (x Role) party() bool { return x == Initiator || x == Responder }

// mayMove reports whether a participant in that role may request the status: only a
// responder rejects; every other change is open to all but observers.
func (x Role) mayMove(to Status) bool {
	if to == Rejected {
		return x == Responder
	}
	return x.party() || x == Mediator
}

// mover returns the first agent in c.By that may change the conversation to that status.
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

// steward returns the mover of a group's conversation: an admin, or the initiator while
// it is in the group. The group's actor has already checked that the caller may know the
// conversation.
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

// setOf makes lookups in lists of thousands fast.
func setOf(agents []parley.AgentID) map[parley.AgentID]bool {
	set := make(map[parley.AgentID]bool, len(agents))
	for _, agent := range agents {
		set[agent] = true
	}
	return set
}
