package scenario

import (
	"bytes"
	"context"
	"errors"
	"time"

	"parley/bench/load"
	"parley/bench/wire"
)

// Parts of an operation with two messages.
const (
	question uint8 = iota
	answered
)

// pair is one client of Reply: two agents, each with its own connection and stream.
type pair struct {
	asker, answerer   *agent
	ask, answer       *caller
	toAsker, toAnswer *wire.Stream
	question          *directRequest
	reply             *replyRequest
	key               Key
}

// directRequest is POST /messages to one recipient, with the payload overwritten in
// place.
type directRequest = sendRequest

func (h *Host) prepareReply(ctx context.Context, clients int) (load.Dial, error) {
	if err := h.world.pairs(ctx, clients); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		p := &pair{asker: h.world.askers[worker], answerer: h.world.answers[worker], key: Key{Run: run, Worker: uint32(worker)}}
		if err := p.open(ctx, h); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.question = h.direct("/messages", p.asker, p.answerer)
		p.reply = h.replyRequest(h.world.acme.token)
		return p, nil
	}, nil
}

// direct builds the request for a message of one agent to another.
func (h *Host) direct(path string, from, to *agent) *directRequest {
	payload := make([]byte, h.payloads.length())
	h.payloads.write(payload, Key{})
	body := []byte(`{"to_handle":"` + to.handle + `","from_handle":"` + from.handle + `",`)
	body = appendContent(body, h.world.messageType("task_request"), payload)
	r := &directRequest{bytes: wire.Request("POST", path, from.org.token, nil, body)}
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

func (p *pair) open(ctx context.Context, h *Host) (err error) {
	if p.ask, err = h.caller(ctx); err != nil {
		return err
	}
	if p.answer, err = h.caller(ctx); err != nil {
		return err
	}
	if p.toAsker, err = h.listen(ctx, p.asker); err != nil {
		return err
	}
	p.toAnswer, err = h.listen(ctx, p.answerer)
	return err
}

// listen opens the stream of an agent.
func (h *Host) listen(ctx context.Context, a *agent) (*wire.Stream, error) {
	return wire.DialStream(ctx, h.door.Address, "/agents/"+a.id.String()+"/stream", a.org.token, "")
}

// Do implements load.Client: one complete round trip.
func (p *pair) Do(_ context.Context, n int, laps *load.Laps) error {
	p.key.N, p.key.Part = uint32(n), question
	p.ask.payloads.write(p.question.bytes[p.question.payload:], p.key)
	m, err := p.ask.post(p.question.bytes, p.key, p.answerer.box)
	if err != nil {
		return err
	}
	asked := m.id
	if string(m.recipientHandle) != p.answerer.handle {
		return wrong("another recipient than the one asked for")
	}
	laps.Note("accepted", time.Since(laps.Intended()))
	if err := p.arrives(p.toAnswer, asked, p.key); err != nil {
		return err
	}
	laps.Note("delivery", time.Since(laps.Intended()))
	p.key.Part = answered
	m, err = p.answer.reply(p.reply, asked, p.key, p.asker)
	if err != nil {
		return err
	}
	return p.arrives(p.toAsker, m.id, p.key)
}

// arrives waits until a stream delivers the message of key.
func (p *pair) arrives(stream *wire.Stream, id uuid, key Key) error {
	for {
		m, got, err := nextMessage(stream, p.ask.payloads)
		if err != nil {
			return err
		}
		if got == key {
			if m.id != id {
				return errWrongEvent
			}
			return nil
		}
		if !earlier(got, key) {
			return errWrongEvent
		}
	}
}

// errWrongEvent breaks the connection, because the next event of the stream is then
// unknown.
var errWrongEvent = errors.New("wrong answer: the stream brings another message than the one sent")

// earlier reports whether the same client sent a message before that of key. A reopened
// stream may deliver messages that the stream before it did not.
func earlier(got, key Key) bool {
	if got.Run != key.Run {
		return got.Run < key.Run
	}
	return got.Worker == key.Worker && got.N < key.N
}

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
		m, err := readMessage(event.Data)
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

// Close implements load.Client.
func (p *pair) Close() error {
	var errs []error
	for _, c := range []*caller{p.ask, p.answer} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	for _, s := range []*wire.Stream{p.toAsker, p.toAnswer} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
