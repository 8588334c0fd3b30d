package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/client"
	"parley/client/e2ee"
)

// eventStream is an agent's open event stream, read one event at a time.
type eventStream struct {
	events chan e2ee.Incoming // closed at the end of the stream
	err    error              // why the stream ended
	cancel context.CancelFunc
	// heard holds all events read so far; lastID is the id to resume after them.
	heard  []e2ee.Incoming
	lastID string
}

// listen opens the agent's stream after lastID and returns once the server has
// accepted it.
func listen(ctx context.Context, agent *e2ee.Agent, lastID string) *eventStream {
	ctx, cancel := context.WithCancel(ctx)
	e := &eventStream{events: make(chan e2ee.Incoming), cancel: cancel, lastID: lastID}
	connected := make(chan struct{})
	options := client.StreamOptions{LastEventID: lastID, OnConnect: sync.OnceFunc(func() { close(connected) })}
	go func() {
		defer close(e.events)
		for event, err := range agent.Listen(ctx, options) {
			if e.err = err; err != nil {
				return
			}
			e.events <- event
		}
	}()
	select {
	case <-connected:
		return e
	case <-e.events:
	case <-time.After(demoPatience):
	}
	e.close()
	panic(fmt.Errorf("the server did not accept the stream: %w", e.err))
}

// next reads events until wanted returns true, and returns that event. what names it
// in errors.
func (e *eventStream) next(what string, wanted func(e2ee.Incoming) bool) e2ee.Incoming {
	patience := time.After(demoPatience)
	for {
		select {
		case event, open := <-e.events:
			if !open {
				panic(fmt.Errorf("stream: %w", e.err))
			}
			e.heard, e.lastID = append(e.heard, event), event.LastEventID
			if wanted(event) {
				return event
			}
		case <-patience:
			panic(fmt.Errorf("the stream did not deliver %s within %v", what, demoPatience))
		}
	}
}

// message reads events up to the next message, which must open.
func (e *eventStream) message() e2ee.Incoming {
	event := e.next("a message", func(in e2ee.Incoming) bool { return in.Message != nil })
	return must(event, event.OpenError)
}

// close disconnects from the server.
func (e *eventStream) close() {
	e.cancel()
	for range e.events { // what has arrived is not read
	}
}
