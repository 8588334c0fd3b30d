package group

import (
	"errors"

	"parley/client/parley"
)

// Send is a broadcast: a message from one member to all others. Those who are members at
// this moment get it. The group does not check its content.
type Send struct {
	// Prior is the earlier broadcast under the same idempotency key, nil if there was
	// none.
	Prior *Prior
	From  parley.AgentID
	Type  string
	// Over: the conversation of the group's broadcasts has ended.
	Over bool
	// Conversation is the id of the conversation to begin if there is none or it has
	// ended.
	Conversation parley.ConversationID
	// MLS is the header of the broadcast if that is an application message of the MLS
	// group, else nil. It matters only if the group has an MLS group.
	MLS *MLSHeader
}

// Prior describes an earlier broadcast of the sender in this group under the same
// idempotency key.
type Prior struct {
	MessageID parley.MessageID
	Type      string
}

// ErrRepeated is not a refusal: an earlier request sent the broadcast under the same
// idempotency key, and the stored message is the answer.
var ErrRepeated = errors.New("group: the broadcast was made before under this idempotency key")

// Refusals of a broadcast.
var (
	ErrIdempotencyMismatch = parley.Refuse(parley.Conflict, "idempotency_mismatch", "The Idempotency-Key was used for a broadcast of another type.")
	ErrNoRecipients        = parley.Refuse(parley.Unprocessable, "no_recipients", "The group has no other member to send to.")
)

func (p *Prior) judge(c Send) error {
	if p.Type != c.Type {
		return ErrIdempotencyMismatch
	}
	return ErrRepeated
}

// send decides a broadcast that is not a repeat. // spec: Messaging
func (d *decision) send(c Send) error {
	from, member := d.s.Member(c.From)
	if !member {
		return ErrNotMember
	}
	if err := d.sealed(c, from); err != nil {
		return err
	}
	if d.s.readers() == 1 {
		return ErrNoRecipients
	}
	if d.s.Conversation.Zero() || c.Over {
		d.say(&Convened{Conversation: c.Conversation.Bytes(), By: c.From.Bytes(), AtMs: d.at()})
	}
	return nil
}

// Recipients returns the agents that get a broadcast of a member, with their seat
// numbers, in the order of the seats: all members or, if the group has an MLS group, those
// with a leaf. The caller owns the slice.
func (s *State) Recipients(from parley.AgentID) []parley.Seat {
	to := make([]parley.Seat, 0, len(s.members))
	for i := range s.members {
		if m := &s.members[i]; m.Agent != from && (m.Leaf || s.Epoch == 0) {
			to = append(to, parley.Seat{Agent: m.Agent, Number: m.Seat})
		}
	}
	return to
}
