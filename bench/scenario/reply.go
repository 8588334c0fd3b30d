package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

// pair is one client of Reply: two agents, each with its own connection and stream.
type pair struct {
	*host.Answering
	asker, answerer *host.Agent
	toAsker         *wire.Stream
	key             host.Key
}

// reply is Reply.
type reply struct{ host *host.Host }

// Prepare implements Load.
func (r *reply) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	h := r.host
	if err := h.Deployment.Pairs(ctx, clients); err != nil {
		return nil, err
	}
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		p := &pair{asker: h.Deployment.Askers[worker], answerer: h.Deployment.Answerers[worker], key: host.Key{Run: run, Worker: uint32(worker)}}
		var err error
		if p.Answering, err = h.OpenAnswering(ctx, p.answerer); err != nil {
			return nil, err
		}
		if p.toAsker, err = h.Listen(ctx, p.asker); err != nil {
			return nil, errors.Join(err, p.Answering.Close())
		}
		return p, nil
	}, nil
}

// Do implements load.Client: one complete round trip.
func (p *pair) Do(_ context.Context, n int, parts *load.Parts) error {
	p.key.N, p.key.Kind = uint32(n), host.KindRequest
	m, err := p.Asks.Send(p.asker, p.answerer, p.key)
	if err != nil {
		return err
	}
	asked := m.ID
	parts.Note("accepted", time.Since(parts.Intended()))
	if err := p.arrives(p.Stream, asked, p.key); err != nil {
		return err
	}
	parts.Note("delivery", time.Since(parts.Intended()))
	p.key.Kind = host.KindReply
	m, err = p.Answers.Reply(p.answerer.Org, asked, p.key, p.asker)
	if err != nil {
		return err
	}
	return p.arrives(p.toAsker, m.ID, p.key)
}

// arrives waits until a stream delivers the message of key.
func (p *pair) arrives(stream *wire.Stream, id host.UUID, key host.Key) error {
	for {
		m, got, err := host.NextMessage(stream, p.Asks.Payloads)
		if err != nil {
			return err
		}
		if got == key {
			if m.ID != id {
				return host.ErrWrongEvent
			}
			return nil
		}
		if !earlier(got, key) {
			return host.ErrWrongEvent
		}
	}
}

// earlier reports whether the same client sent a message before that of key. A reopened
// stream may deliver messages that the stream before it did not.
func earlier(got, key host.Key) bool {
	if got.Run != key.Run {
		return got.Run < key.Run
	}
	return got.Worker == key.Worker && got.N < key.N
}

// Close implements load.Client.
func (p *pair) Close() error { return errors.Join(p.Answering.Close(), p.toAsker.Close()) }

// waiting is one client of Sync: an asker with a waiting request, and an agent that
// answers the messages on its stream.
type waiting struct {
	*host.Answering
	asker, answerer *host.Agent
	key             host.Key
}

// syncCalls is Sync.
type syncCalls struct{ host *host.Host }

// Prepare implements Load.
func (s *syncCalls) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	h := s.host
	if err := h.Deployment.Pairs(ctx, clients); err != nil {
		return nil, err
	}
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		w := &waiting{asker: h.Deployment.Askers[worker], answerer: h.Deployment.Answerers[worker], key: host.Key{Run: run, Worker: uint32(worker)}}
		var err error
		if w.Answering, err = h.OpenAnswering(ctx, w.answerer); err != nil {
			return nil, err
		}
		w.Serve(func(m host.Message) error {
			key, err := host.KeyOf(m, h.Payloads)
			if err == nil && key.Run == run {
				key.Kind = host.KindReply
				_, err = w.Answers.Reply(w.answerer.Org, m.ID, key, w.asker)
			}
			return err
		})
		return w, nil
	}, nil
}

// Do implements load.Client.
func (w *waiting) Do(_ context.Context, n int, _ *load.Parts) error {
	w.key.N, w.key.Kind = uint32(n), host.KindRequest
	answer, err := w.Asks.Exchange(w.Asks.Request("/messages/sync?timeout_ms=10000", w.asker, w.answerer, w.key), w.key)
	if err != nil {
		return w.Reason(err)
	}
	if answer.Status != 200 {
		err, known := host.Refusal(answer)
		if !known {
			w.Asks.Log.Lost(w.key)
		}
		return err
	}
	return w.judge(answer.Body)
}

// judge reads the message and its reply from the answer. The answerer's own log has the
// reply.
func (w *waiting) judge(body []byte) error {
	var parsed struct {
		Message host.MessageJSON  `json:"message"`
		Reply   *host.MessageJSON `json:"reply"`
		Status  string            `json:"status"`
	}
	sent := false
	if json.Unmarshal(body, &parsed) == nil {
		if m, err := parsed.Message.Message(); err == nil {
			w.Asks.Log.Acknowledged(m.ID, w.key, w.answerer.Mailbox)
			key, sound := w.Asks.Payloads.Read(m.Payload)
			sent = sound && key == w.key
		}
	}
	switch {
	case !sent:
		w.Asks.Log.Lost(w.key)
		return host.Wrong("another message than the one sent")
	case parsed.Status != "replied":
		return load.Refused{Reason: "sync ended as " + parsed.Status}
	case parsed.Reply == nil:
		return host.Wrong("another reply than the one given")
	}
	expected := w.key
	expected.Kind = host.KindReply
	if key, sound := w.Asks.Payloads.Read([]byte(parsed.Reply.Payload)); !sound || key != expected {
		return host.Wrong("another reply than the one given")
	}
	return nil
}
