package query

import (
	"errors"
	"math"

	"parley/actors/conversation"
	"parley/client/parley"
	"parley/journal"
)

// ExportedConversation is a conversation with the changes of its status, oldest first.
type ExportedConversation struct {
	*conversation.State
	Changes []ExportedChange
}

// ExportedChange is a change of a conversation's status, and the last message before it.
type ExportedChange struct {
	*conversation.StatusChanged
	After parley.MessageID
}

// Conversations visits the conversations that the organization's agents take part in.
func (x *Export) Conversations(visit func(ExportedConversation) error) error {
	list := func(add func(parley.AnyID)) error {
		return x.eachAgent(func(id parley.AgentID) error {
			return x.conversationsOf(id, func(c parley.ConversationID) error { add(parley.AnyID(c)); return nil })
		})
	}
	return x.ascendIDs(list, func(id parley.AnyID) error {
		c, err := x.conversation(parley.ConversationID(id))
		if err != nil {
			return unlessErased(err)
		}
		return visit(c)
	})
}

// conversation reads a conversation with the changes of its status.
func (x *Export) conversation(id parley.ConversationID) (c ExportedConversation, err error) {
	c.State = &conversation.State{}
	if err := readConversation(x.view, id, c.State); err != nil {
		return c, err
	}
	if c.GetStatus() == conversation.Submitted { // it never changed
		return c, nil
	}
	last := conversation.FirstMessageID(id)
	err = x.conversationEvents(id, func(e conversation.Event) error {
		switch e := e.(type) {
		case *conversation.Started:
			last = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
		case *conversation.Posted:
			last = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
		case *conversation.Broadcasted:
			last = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
		case *conversation.StatusChanged:
			c.Changes = append(c.Changes, ExportedChange{e, last})
		}
		return nil
	})
	return c, err
}

// conversationsOf lists an agent's conversations: those that have a row, and those that began with
// an entry of its feed and have none yet.
func (x *Export) conversationsOf(id parley.AgentID, visit func(parley.ConversationID) error) error {
	upTo, err := placeUpTo(x.view, journal.ListedTable, id)
	if err != nil {
		return err
	}
	var bad error
	err = x.view.Rows(id.Slot(), journal.ConversationTable, id[:], nil, false, func(_, value []byte) bool {
		bad = visit(parley.IDFromBytes[parley.ConversationID](value))
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	err = x.view.Inbox(id, upTo, math.MaxInt64, func(e journal.FeedEntry) bool {
		if !e.Begins {
			return true
		}
		var c parley.ConversationID
		if c, bad = StartedBy(x.view, id, e); bad == nil {
			bad = visit(c)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}
