package host

import (
	"errors"
	"time"

	"parley/bench/wire"
)

// Parts of an operation with two messages.
const (
	PartRequest uint8 = iota
	PartReply
)

const (
	// StreamDials is the number of streams that are opened concurrently.
	StreamDials = 64
	// EventPatience is how long all streams may take to get an event.
	EventPatience = 30 * time.Second
	// Parting bounds how long the end of a client waits for the answer to the last reply. The asker
	// may have the reply before the answerer gets its acknowledgement.
	Parting = time.Second
)

// ErrWrongEvent breaks the connection, because the next event of the stream is then
// unknown.
var ErrWrongEvent = errors.New("wrong answer: the stream brings another message than the one sent")

// NextMessage waits for the next message event. It skips status changes.
func NextMessage(stream *wire.Stream, p *Payloads) (Message, Key, error) {
	for {
		event, err := stream.Next()
		if err != nil {
			return Message{}, Key{}, err
		}
		if event.Name != "message" {
			continue
		}
		m, err := FindMessage(event.Data)
		if err != nil {
			return m, Key{}, errors.New("wrong answer: an event that is not a message")
		}
		key, sound := p.Read(m.Payload)
		if !sound {
			return m, Key{}, errors.New("wrong answer: the stream brings a payload that nobody sent")
		}
		return m, key, nil
	}
}
