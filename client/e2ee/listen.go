package e2ee

import (
	"context"
	"errors"
	"iter"
	"slices"

	"parley/client"
	"parley/client/api"
)

// waitingMax is how many group messages a session keeps until their keys arrive. Beyond
// that it drops the oldest, which stay in the inbox.
const waitingMax = 256

// Incoming is an event of the agent's stream. Messages are opened.
type Incoming struct {
	client.Event
	// Opened is the opened message, nil for other events and if OpenError is set.
	Opened *Opened
	// OpenError is why a message could not be opened or verified. A message with
	// ErrNoSenderKey is returned again, with Late set, when the key has arrived.
	OpenError error
	Late      bool
	// KeyExchange is set for a message that the client handled itself: a sender's key,
	// or a request for one.
	KeyExchange *KeyExchange
}

// Listen returns the events of the agent's stream with their messages opened. A message
// that cannot be opened has its OpenError set and does not end the sequence.
func (a *Agent) Listen(ctx context.Context, opts client.StreamOptions) iter.Seq2[Incoming, error] {
	return func(yield func(Incoming, error) bool) {
		var waiting []client.Event
		for event, err := range a.Client.Messages.Stream(ctx, a.ID(), opts) {
			in := Incoming{Event: event}
			switch {
			case event.Message == nil:
			case a.IsKeyExchange(*event.Message):
				in.KeyExchange, in.OpenError = a.HandleKeyExchange(ctx, *event.Message)
			default:
				in.Opened, in.OpenError = a.OpenMessage(ctx, *event.Message)
				if errors.Is(in.OpenError, ErrNoSenderKey) {
					waiting = append(waiting[max(0, len(waiting)+1-waitingMax):], event)
				}
			}
			if !yield(in, err) {
				return
			}
			// The key may be one that another process of this agent has stored before.
			if in.KeyExchange != nil && in.KeyExchange.Kind == distributionType {
				var more bool
				if waiting, more = a.groups.openLate(ctx, waiting, event.LastEventID, yield); !more {
					return
				}
			}
		}
	}
}

// comeLate yields the messages that a new key opens, in the order in which they arrived,
// and returns those that still wait.
func (s *groups) openLate(ctx context.Context, waiting []client.Event, lastID string, yield func(Incoming, error) bool) ([]client.Event, bool) {
	for i, event := range waiting {
		opened, err := s.openKnown(ctx, *event.Message)
		if errors.Is(err, ErrNoSenderKey) {
			continue
		}
		waiting[i].Message, event.LastEventID = nil, lastID
		if !yield(Incoming{Event: event, Opened: opened, OpenError: err, Late: true}, nil) {
			return nil, false
		}
	}
	return slices.DeleteFunc(waiting, func(e client.Event) bool { return e.Message == nil }), true
}

// IsKeyExchange reports whether a message is internal to the clients: a sender's key for
// a group, or a request for one. See HandleKeyExchange.
func (a *Agent) IsKeyExchange(m api.Message) bool {
	return m.Type == a.Client.MessageType(distributionType) || m.Type == a.Client.MessageType(requestType)
}
