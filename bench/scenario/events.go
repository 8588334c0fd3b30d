package scenario

import (
	"errors"
	"time"

	"parley/bench/wire"
)

// Parts of an operation with two messages.
const (
	question uint8 = iota
	answered
)

const (
	// streamDials is the number of streams that are opened concurrently.
	streamDials = 64
	// eventPatience is how long all streams may take to get an event.
	eventPatience = 30 * time.Second
	// parting bounds how long the end of a client waits for the answer to the last reply. The asker
	// may have the reply before the answerer gets its acknowledgement.
	parting = time.Second
)

// errWrongEvent breaks the connection, because the next event of the stream is then
// unknown.
var errWrongEvent = errors.New("wrong answer: the stream brings another message than the one sent")

// nextMessage waits for the next message event. It skips status changes.
func nextMessage(stream *wire.Stream, p *payloads) (message, Key, error) {
	for {
		event, err := stream.Next()
		if err != nil {
			return message{}, Key{}, err
		}
		if event.Name != "message" {
			continue
		}
		m, err := findMessage(event.Data)
		if err != nil {
			return m, Key{}, errors.New("wrong answer: an event that is not a message")
		}
		key, sound := p.read(m.payload)
		if !sound {
			return m, Key{}, errors.New("wrong answer: the stream brings a payload that nobody sent")
		}
		return m, key, nil
	}
}
