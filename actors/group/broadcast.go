package group

import (
	"errors"

	"parley"
)

// Send is a broadcast: a message from one member to all others. Who is a member
// at this moment gets it. What it says is not the group's to judge.
type Send struct {
	// Prior is the broadcast that the idempotency key is remembered for, nil if
	// there was none.
	Prior *Prior
	From  parley.AgentID
	Type  string
	// Over: the conversation that broadcasts are in has ended.
	Over bool
	// Conversation is the id of the one that begins where there is none, or where
	// that has ended.
	Conversation parley.ConversationID
}

// Prior is what a former broadcast of the sender in this group, under the same
// idempotency key, was.
type Prior struct {
	MessageID parley.MessageID
	Type      string
}

// ErrRepeated is no refusal: the broadcast was made before under the same
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

// send judges a broadcast that was not made before. // spec: Messaging
func (d *decision) send(c Send) error {
	if _, member := d.s.Member(c.From); !member {
		return ErrNotMember
	}
	if len(d.s.members) == 1 {
		return ErrNoRecipients
	}
	if d.s.Conversation.Zero() || c.Over {
		d.say(&Convened{Conversation: c.Conversation.Bytes(), By: c.From.Bytes(), AtMs: d.at()})
	}
	return nil
}

// Recipients are those who get a broadcast of a member, with the numbers of their
// seats, in the order of these. The slice is the caller's.
func (s *State) Recipients(from parley.AgentID) []parley.Seat {
	to := make([]parley.Seat, 0, len(s.members))
	for i := range s.members {
		if m := &s.members[i]; m.Agent != from {
			to = append(to, parley.Seat{Agent: m.Agent, Number: m.Seat})
		}
	}
	return to
}
