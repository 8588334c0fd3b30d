package query

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Latest stands for the newest event of a conversation.
const Latest = ^uint64(0)

// Moment is a conversation between two agents as it was after some of its events.
type Moment struct {
	State *conversation.State
	// Event is the number of the last event, 0 if there was only the first message.
	Event uint64
	// Messages are the latest ones up to then, oldest first, without erased ones.
	Messages []Message
}

// ConversationAt returns a conversation as it was after its event at, and up to limit of its
// latest messages. If it has fewer events, it returns the conversation as it is.
func (q *Messages) ConversationAt(ctx context.Context, id parley.ConversationID, at uint64, limit int, fits Fits) (m Moment, err error) {
	stream := rules.ConversationStream(id)
	err = q.view(ctx, func(v journal.View) error {
		m = Moment{State: &conversation.State{}}
		if at == Latest {
			m.Event, _, err = rules.Conversation.Load(rules.StoredIn(v), stream, m.State)
		} else {
			m.Event, err = foldUpTo(v, stream, at, m.State)
		}
		if err == nil && !m.State.Exists() {
			err = conversation.ErrUnknown
		}
		if err != nil || limit == 0 {
			return err
		}
		w := transcriptPage{limit: limit, fits: fits, read: func(message parley.MessageID) (Message, bool, error) {
			m, err := readMessage(v, id.Slot(), message)
			return m, true, err
		}}
		err = w.walk(v, stream, m.Event+2, true) // before the place that follows the event's
		m.Messages = w.page
		return err
	})
	slices.Reverse(m.Messages)
	return m, err
}

// foldUpTo folds the first at events of a conversation into a state, and returns the number
// of the last one.
func foldUpTo(v journal.View, s journal.Stream, at uint64, into *conversation.State) (last uint64, err error) {
	start, found, err := rules.Conversation.Start(rules.StoredIn(v), s)
	if err != nil {
		return 0, err
	}
	if found {
		rules.Conversation.Evolve(into, start)
	}
	if at == 0 {
		return 0, nil
	}
	var bad error
	err = v.Events(s, 1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad != nil {
			return false
		}
		rules.Conversation.Evolve(into, e)
		last = n
		return n < at
	})
	return last, errors.Join(err, bad)
}

// ConversationEvent is an event of a conversation, and the message that it brought.
type ConversationEvent struct {
	Number uint64
	Event  conversation.Event
	// Status and UpdatedMs are those after the event.
	Status    conversation.Status
	UpdatedMs int64
	// Message is nil if the event brought none, or an erased one.
	Message *Message
}

// EventsAfter returns up to limit events of a conversation after a moment, oldest first, and
// moves the moment on to the last of them. It does not add to the messages of the moment. It
// ends before an event whose message does not fit, unless that is the first; nil lets
// everything fit.
func (q *Messages) EventsAfter(ctx context.Context, m *Moment, limit int, fits Fits) (events []ConversationEvent, err error) {
	id, last := m.State.ConversationID(), m.Event
	state := proto.CloneOf(m.State)
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Events(rules.ConversationStream(id), last+1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
			if len(events) == limit {
				return false
			}
			var e conversation.Event
			if e, bad = rules.Conversation.Decode(f); bad != nil {
				return false
			}
			var brought *Message
			var fit bool
			if brought, fit, bad = eventMessage(v, id, e, fits); bad != nil || !fit && len(events) > 0 {
				return false
			}
			rules.Conversation.Evolve(state, e)
			last = n
			events = append(events, ConversationEvent{Number: n, Event: e, Status: state.GetStatus(), UpdatedMs: state.GetUpdatedMs(), Message: brought})
			return true
		})
		return errors.Join(scan, bad)
	})
	if err == nil {
		m.State, m.Event = state, last
	}
	return events, err
}

// eventMessage returns the message that an event brought, nil if it brought none or an
// erased one, and whether it fits.
func eventMessage(v journal.View, in parley.ConversationID, e conversation.Event, fits Fits) (m *Message, fit bool, err error) {
	id := messageOf(e)
	if id.Zero() {
		return nil, true, nil
	}
	read, err := readMessage(v, in.Slot(), id)
	switch {
	case errors.Is(err, journal.ErrErased):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	fit, err = fits.ask(read.Record)
	return &read, fit, err
}
