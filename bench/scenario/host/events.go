package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/wire"
)

// Kinds of the messages of an operation with two.
const (
	KindRequest uint8 = iota
	KindReply
)

const (
	// StreamDials is the number of streams that are opened concurrently.
	StreamDials = 64
	// EventPatience is how long all streams may take to get an event.
	EventPatience = 30 * time.Second
	// lastReplyWait bounds how long the end of a client waits for the answer to the last reply. The asker
	// may have the reply before the answerer gets its acknowledgement.
	lastReplyWait = time.Second
)

// ErrWrongEvent breaks the connection, because the next event of the stream is then
// unknown.
var ErrWrongEvent = errors.New("wrong answer: the stream brings another message than the one sent")

// NextEvent waits for the next message event. It skips status changes.
func NextEvent(stream *wire.Stream) (Message, error) {
	for {
		event, err := stream.Next()
		if err != nil {
			return Message{}, err
		}
		if event.Name != "message" {
			continue
		}
		m, err := FindMessage(event.Data)
		if err != nil {
			err = errors.New("wrong answer: an event that is not a message")
		}
		return m, err
	}
}

// NextMessage is NextEvent for a message with a payload of the bench, and returns its key.
func NextMessage(stream *wire.Stream, p *Payloads) (m Message, key Key, err error) {
	if m, err = NextEvent(stream); err == nil {
		key, err = KeyOf(m, p)
	}
	return m, key, err
}

// KeyOf returns the key of a message that a stream delivered.
func KeyOf(m Message, p *Payloads) (Key, error) {
	key, sound := p.Read(m.Payload)
	if !sound {
		return key, errors.New("wrong answer: the stream brings a payload that nobody sent")
	}
	return key, nil
}

// Gather receives n values and passes each to take, within EventPatience.
func Gather[T any](ctx context.Context, n int, what string, from <-chan T, take func(T) error) error {
	deadline := time.NewTimer(EventPatience)
	defer deadline.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("only %d of %d %s within %v", i, n, what, EventPatience)
		case one := <-from:
			if err := take(one); err != nil {
				return err
			}
		}
	}
	return nil
}
