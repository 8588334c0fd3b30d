package query

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/journal"
)

// ExportedConversation is a conversation with the changes of its status, oldest first, and
// its places in the lists of the organization's agents. Announced are the changes in the
// feeds of these agents, by agent and position, if a group hosts the conversation.
type ExportedConversation struct {
	*conversation.State
	Changes   []ExportedChange
	Listed    []ExportedPlace
	Announced []ExportedStatus
}

// ExportedStatus is a change of a conversation's status in an agent's feed.
type ExportedStatus struct {
	ExportedPlace
	Status conversation.Status
	// Own: the agent itself asked for the change.
	Own bool
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

// conversationPlace is a conversation in an agent's list or, with a status, a change of it in
// the agent's feed.
type conversationPlace struct {
	conversation parley.ConversationID
	agent        parley.AgentID
	position     uint64
	status       uint8
	own          bool
}

// conversationPlaceBytes is about how many bytes a conversationPlace takes.
const conversationPlaceBytes = 48

func compareConversationPlaces(a, b conversationPlace) int {
	return cmp.Or(
		bytes.Compare(a.conversation[:], b.conversation[:]), bytes.Compare(a.agent[:], b.agent[:]), cmp.Compare(a.position, b.position),
	)
}

// Conversations visits the conversations that the organization's agents take part in.
func (x *Export) Conversations(visit func(ExportedConversation) error) error {
	var of parley.ConversationID
	var places []conversationPlace
	show := func() error {
		if of.Zero() {
			return nil
		}
		c, err := x.conversation(of)
		if err != nil {
			return unlessErased(err)
		}
		for _, p := range places {
			at := ExportedPlace{p.agent, p.position}
			switch {
			case p.status == 0:
				c.Listed = append(c.Listed, at)
			case !c.GroupID().Zero():
				c.Announced = append(c.Announced, ExportedStatus{at, conversation.Status(p.status), p.own})
			}
		}
		return visit(c)
	}
	err := ascend(x.capacity*exportIDBytes/conversationPlaceBytes, compareConversationPlaces, x.conversationPlaces, func(p conversationPlace) error {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if p.conversation != of {
			if err := show(); err != nil {
				return err
			}
			of, places = p.conversation, places[:0]
		}
		places = append(places, p)
		return nil
	})
	if err != nil {
		return err
	}
	return show()
}

// conversationPlaces lists the conversations of the organization's agents, and the changes of
// their statuses that the agents have in their feeds.
func (x *Export) conversationPlaces(add func(conversationPlace)) error {
	return x.eachAgent(func(id parley.AgentID) error {
		err := x.conversationsOf(id, func(c parley.ConversationID, position uint64) error {
			add(conversationPlace{conversation: c, agent: id, position: position})
			return nil
		})
		return errors.Join(err, x.view.Feed(id, 0, math.MaxInt64, func(e journal.FeedEntry) bool {
			if e.Kind == journal.StatusEntry {
				name, own := record.StatusNews(e.Note)
				status, _ := conversation.ParseStatus(name)
				add(conversationPlace{parley.ConversationID(e.Ref), id, e.Position, uint8(status), own})
			}
			return true
		}))
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
	err = x.view.Inbox(id, upTo, math.MaxInt64, func(e journal.FeedEntry) bool {
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
