package query

import (
	"errors"
	"math"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Messages visits the messages that the organization's agents sent or received. Of a
// broadcast that they sent there is the first copy, of one that they received each of
// their copies. Messages are
// not shared with the cache; visit must not keep them, because the next one is decoded into
// the same memory.
func (x *Export) Messages(visit func(Message) error) error {
	return x.ascendIDs(x.messageIDs, func(id parley.AnyID) error {
		m, err := x.message(parley.MessageID(id))
		if err != nil {
			return unlessErased(err)
		}
		if m.Record.SenderOrg() != x.org && m.Record.RecipientOrg() != x.org {
			return nil
		}
		return visit(m)
	})
}

// message reads a message with the receipts that its recipient's home has, if the
// recipient is the organization's.
func (x *Export) message(id parley.MessageID) (Message, error) {
	m, err := readMessageInto(&x.record, x.view, id.Slot(), id)
	if err != nil {
		return m, err
	}
	if m.Record.Copied() {
		return m, x.addressed(x.ctx, m.Record)
	}
	if m.Position == 0 && m.Record.RecipientOrg() == x.org {
		received, err := readMessageInto(&x.record, x.view, m.Record.Recipient().Slot(), id)
		if err == nil || !errors.Is(err, parley.ErrNotFound) { // else it is on its way
			return received, err
		}
	}
	return m, nil
}

// messageIDs lists the ids of all messages, some more than once, and some of first
// messages that do not exist.
func (x *Export) messageIDs(add func(parley.AnyID)) error {
	hosted := map[parley.ConversationID]struct{}{}
	return x.eachAgent(func(id parley.AgentID) error {
		err := x.view.Inbox(id, 0, math.MaxInt64, func(e journal.FeedEntry) bool {
			add(e.Ref)
			return true
		})
		if err != nil {
			return err
		}
		return x.conversationsOf(id, func(c parley.ConversationID) error {
			if _, seen := hosted[c]; seen {
				return nil
			}
			// A conversation between two agents begins with this message; that of a group
			// has none with this id.
			add(parley.AnyID(conversation.FirstMessageID(c)))
			ofGroup, err := x.postedIn(c, add)
			if ofGroup && len(hosted) < exportInnerIDs {
				hosted[c] = struct{}{}
			}
			return err
		})
	})
}

// postedIn lists the messages of a conversation after its first: all of a conversation
// between two agents, also those that are on their way to a feed, and of a group's
// conversation those that agents of the organization sent. hosted is whether it is that of
// a group.
func (x *Export) postedIn(c parley.ConversationID, add func(parley.AnyID)) (hosted bool, err error) {
	sent := func(by []byte, id []byte) error {
		own := !hosted
		if hosted {
			if own, err = x.owns(parley.IDFromBytes[parley.AgentID](by)); err != nil {
				return err
			}
		}
		if own {
			add(parley.IDFromBytes[parley.AnyID](id))
		}
		return nil
	}
	err = x.conversationEvents(c, func(e conversation.Event) error {
		switch e := e.(type) {
		case *conversation.Started: // stored only for the conversations of groups
			hosted = true
			if m := parley.IDFromBytes[parley.MessageID](e.GetMessageId()); !m.Zero() {
				return x.broadcast(e.GetInitiator(), m, add)
			}
		case *conversation.Posted:
			return sent(e.GetFrom(), e.GetMessageId())
		case *conversation.Broadcasted:
			hosted = true
			return x.broadcast(e.GetFrom(), parley.IDFromBytes[parley.MessageID](e.GetMessageId()), add)
		case *conversation.StatusChanged: // it brings no message
		}
		return nil
	})
	return hosted, err
}

// conversationEvents calls fn with the stored events of a conversation, oldest first. It
// leaves out those whose texts were erased.
func (x *Export) conversationEvents(c parley.ConversationID, fn func(conversation.Event) error) error {
	var bad error
	next := uint64(1)
	read := func(seq uint64, _ int64, f journal.StoredEvent) bool {
		next = seq + 1
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad == nil {
			bad = fn(e)
		}
		return bad == nil
	}
	for {
		err := x.view.Events(rules.ConversationStream(c), next, false, read)
		if !errors.Is(err, journal.ErrErased) {
			return errors.Join(err, bad)
		}
		next++ // the reason of a change of status was erased
	}
}

// broadcast lists a broadcast that an agent of the organization sent: the first copy, as
// which the sender sees it, and the copies for agents of the organization, some of which may
// be on their way to feeds.
func (x *Export) broadcast(by []byte, id parley.MessageID, add func(parley.AnyID)) error {
	r := &record.Message{}
	found, err := x.view.Broadcast(id.Slot(), id, r.UnmarshalHeader)
	if err != nil || !found {
		return unlessErased(err)
	}
	if own, err := x.owns(parley.IDFromBytes[parley.AgentID](by)); err != nil || !own {
		return err
	}
	first := parley.Copy(id, r.GetFirstSeat())
	add(parley.AnyID(first))
	var bad error
	err = x.view.Copies(id.Slot(), id, func(to []parley.Seat) bool {
		for _, seat := range to {
			var own bool
			if own, bad = x.owns(seat.Agent); own {
				add(parley.AnyID(parley.Copy(id, seat.Number)))
			}
			if bad != nil {
				return false
			}
		}
		return true
	})
	return errors.Join(err, bad)
}
