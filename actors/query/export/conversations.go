package export

import (
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/client/parley"
)

// Conversation is a conversation with the changes of its status, oldest first.
type Conversation struct {
	*conversation.State
	Changes []Change
}

// Change is a change of a conversation's status, and the last message before it.
type Change struct {
	*conversation.StatusChanged
	After parley.MessageID
}

// Conversations visits the conversations that the organization's agents take part in.
func (x *Export) Conversations(visit func(Conversation) error) error {
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
func (x *Export) conversation(id parley.ConversationID) (c Conversation, err error) {
	c.State = &conversation.State{}
	if err := query.ReadConversation(x.view, id, c.State); err != nil {
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
			c.Changes = append(c.Changes, Change{e, last})
		}
		return nil
	})
	return c, err
}
