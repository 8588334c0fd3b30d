package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/client"
	"parley/client/e2ee"
)

// eventStream is an agent's open event stream, read one event at a time.
type eventStream struct {
	events chan e2ee.Incoming
	failed chan error
	cancel context.CancelFunc
	ended  chan struct{}
	// heard holds all events read so far; lastID is the id to resume after them.
	heard  []e2ee.Incoming
	lastID string
}

// listen opens the agent's stream after lastID and returns once the server has
// accepted it.
func listen(ctx context.Context, agent *e2ee.Agent, lastID string) (*eventStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	e := &eventStream{events: make(chan e2ee.Incoming, 64), failed: make(chan error, 1), cancel: cancel, ended: make(chan struct{}), lastID: lastID}
	connected := make(chan struct{}, 1)
	options := client.StreamOptions{LastEventID: lastID, OnConnect: func() {
		select {
		case connected <- struct{}{}:
		default:
		}
	}}
	go e.follow(ctx, agent, options)
	select {
	case <-connected:
		return e, nil
	case err := <-e.failed:
		e.close()
		return nil, err
	case <-time.After(demoPatience):
		e.close()
		return nil, errors.New("the server did not accept the stream")
	}
}

func (e *eventStream) follow(ctx context.Context, agent *e2ee.Agent, options client.StreamOptions) {
	defer close(e.ended)
	for event, err := range agent.Listen(ctx, options) {
		if err != nil {
			e.failed <- err
			return
		}
		select {
		case e.events <- event:
		case <-ctx.Done():
			return
		}
	}
}

// next reads events until wanted returns true, and returns that event. what names it
// in errors.
func (e *eventStream) next(what string, wanted func(e2ee.Incoming) bool) (e2ee.Incoming, error) {
	patience := time.NewTimer(demoPatience)
	defer patience.Stop()
	for {
		select {
		case event := <-e.events:
			e.heard, e.lastID = append(e.heard, event), event.LastEventID
			if wanted(event) {
				return event, nil
			}
		case err := <-e.failed:
			return e2ee.Incoming{}, fmt.Errorf("stream: %w", err)
		case <-patience.C:
			return e2ee.Incoming{}, fmt.Errorf("the stream did not deliver %s within %v", what, demoPatience)
		}
	}
}

// message reads events up to the next message.
func (e *eventStream) message() (e2ee.Incoming, error) {
	return e.next("a message", func(in e2ee.Incoming) bool { return in.Message != nil })
}

// close disconnects from the server.
func (e *eventStream) close() {
	e.cancel()
	<-e.ended
}
