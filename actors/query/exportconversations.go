package query

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"parley"
	"parley/actors/conversation"
	"parley/journal"
)

// ExportedConversation is a conversation with the changes of its status, oldest first, and
// its places in the lists of the organization's agents.
type ExportedConversation struct {
	*conversation.State
	Changes []ExportedChange
	Listed  []ExportedPlace
}

// ExportedChange is a change of a conversation's status, and the last message before it.
type ExportedChange struct {
	*conversation.StatusChanged
	After parley.MessageID
}

// ExportedPlace is a place in the list of an agent's conversations.
type ExportedPlace struct {
	Agent    parley.AgentID
	Position uint64
}

// Conversations visits the conversations that the organization's agents take part in.
func (x *Export) Conversations(visit func(ExportedConversation) error) error {
	type place [40]byte // conversation, agent, position
	list := func(add func(place)) error {
		return x.eachAgent(func(id parley.AgentID) error {
			return x.conversationsOf(id, func(c parley.ConversationID, position uint64) error {
				add(place(binary.BigEndian.AppendUint64(slices.Concat(c[:], id[:]), position)))
				return nil
			})
		})
	}
	var of parley.ConversationID
	var listed []ExportedPlace
	show := func() error {
		if of.Zero() {
			return nil
		}
		c, err := x.conversation(of)
		if err != nil {
			return unlessErased(err)
		}
		c.Listed = listed
		return visit(c)
	}
	err := ascend(x.capacity*4/5, func(a, b place) int { return bytes.Compare(a[:], b[:]) }, list, func(p place) error {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if id := parley.ConversationID(p[:16]); id != of {
			if err := show(); err != nil {
				return err
			}
			of, listed = id, nil
		}
		listed = append(listed, ExportedPlace{parley.AgentID(p[16:32]), binary.BigEndian.Uint64(p[32:])})
		return nil
	})
	if err != nil {
		return err
	}
	return show()
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

// conversationsOf lists an agent's conversations with their places: those that have a row,
// and those that began with an entry of its feed and have none yet.
func (x *Export) conversationsOf(id parley.AgentID, visit func(parley.ConversationID, uint64) error) error {
	upTo, err := placeUpTo(x.view, journal.ListedTable, id)
	if err != nil {
		return err
	}
	var bad error
	err = x.view.Rows(id.Slot(), journal.ConversationTable, id[:], nil, false, func(key, value []byte) bool {
		bad = visit(parley.IDFromBytes[parley.ConversationID](value), binary.BigEndian.Uint64(key[len(id):]))
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	err = x.view.Feed(id, upTo, math.MaxInt64, func(e journal.FeedEntry) bool {
		if !e.Begins {
			return true
		}
		var c parley.ConversationID
		if c, bad = StartedBy(x.view, id, e); bad == nil {
			bad = visit(c, e.Position)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}
