package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/wire"
)

// pair is one client of Reply: two agents, each with its own connection and stream.
type pair struct {
	asker, answerer   *agent
	ask, answer       *caller
	toAsker, toAnswer *wire.Stream
	question          *sendRequest
	reply             *replyRequest
	key               Key
}

// reply is Reply.
type reply struct{ host *Host }

// Prepare implements Load.
func (r *reply) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	h := r.host
	if err := h.world.pairs(ctx, clients); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		p := &pair{asker: h.world.askers[worker], answerer: h.world.answers[worker], key: Key{Run: run, Worker: uint32(worker)}}
		if err := p.open(ctx, h); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.question = newSendRequest(h, "/messages", p.asker, p.answerer)
		p.reply = newReplyRequest(h, h.world.acme.token)
		return p, nil
	}, nil
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

// earlier reports whether the same client sent a message before that of key. A reopened
// stream may deliver messages that the stream before it did not.
func earlier(got, key Key) bool {
	if got.Run != key.Run {
		return got.Run < key.Run
	}
	return got.Worker == key.Worker && got.N < key.N
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

// waiting is one client of Sync: an asker with a waiting request, and an agent that
// answers the messages on its stream.
type waiting struct {
	*caller
	asker, answerer *agent
	request         *sendRequest
	key             Key

	answers *caller
	stream  *wire.Stream
	reply   *replyRequest
	ended   sync.WaitGroup
	mu      sync.Mutex
	trouble error
}

// syncCalls is Sync.
type syncCalls struct{ host *Host }

// Prepare implements Load.
func (s *syncCalls) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	h := s.host
	if err := h.world.pairs(ctx, clients); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		w := &waiting{asker: h.world.askers[worker], answerer: h.world.answers[worker], key: Key{Run: run, Worker: uint32(worker)}}
		err := w.open(ctx, h)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.request = newSendRequest(h, "/messages/sync?timeout_ms=10000", w.asker, w.answerer)
		w.reply = newReplyRequest(h, h.world.acme.token)
		w.ended.Go(w.serve)
		return w, nil
	}, nil
}

func (w *waiting) open(ctx context.Context, h *Host) (err error) {
	if w.caller, err = h.caller(ctx); err != nil {
		return err
	}
	if w.answers, err = h.caller(ctx); err != nil {
		return err
	}
	w.stream, err = h.listen(ctx, w.answerer)
	return err
}

// serve answers until the stream ends. On an error it also ends the asker's connection,
// which would otherwise wait for an answer that never arrives.
func (w *waiting) serve() {
	for {
		m, key, err := nextMessage(w.stream, w.answers.payloads)
		if err == nil && key.Run == w.key.Run {
			key.Part = answered
			_, err = w.answers.reply(w.reply, m.id, key, w.asker)
		}
		if err != nil {
			w.mu.Lock()
			w.trouble = err
			w.mu.Unlock()
			_ = w.caller.Close()
			return
		}
	}
}

// Do implements load.Client.
func (w *waiting) Do(_ context.Context, n int, _ *load.Laps) error {
	w.key.N, w.key.Part = uint32(n), question
	w.payloads.write(w.request.bytes[w.request.payload:], w.key)
	answer, err := w.conn.Do(w.request.bytes)
	if err != nil {
		w.book.lost(w.key)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.trouble != nil {
			return w.trouble
		}
		return err
	}
	if answer.Status != 200 {
		err, known := refusal(answer)
		if !known {
			w.book.lost(w.key)
		}
		return err
	}
	return w.judge(answer.Body)
}

// judge reads the question and its reply from the answer. The answerer's own book has the
// reply.
func (w *waiting) judge(body []byte) error {
	var told struct {
		Message messageJSON  `json:"message"`
		Reply   *messageJSON `json:"reply"`
		Status  string       `json:"status"`
	}
	sent := false
	if json.Unmarshal(body, &told) == nil {
		if m, err := told.Message.message(); err == nil {
			w.book.acknowledged(m.id, w.key, w.answerer.box)
			key, sound := w.payloads.read(m.payload)
			sent = sound && key == w.key
		}
	}
	switch {
	case !sent:
		w.book.lost(w.key)
		return wrong("another message than the one sent")
	case told.Status != "replied":
		return load.Refused{Reason: "sync ended as " + told.Status}
	case told.Reply == nil:
		return wrong("another reply than the one given")
	}
	expected := w.key
	expected.Part = answered
	if key, sound := w.payloads.read([]byte(told.Reply.Payload)); !sound || key != expected {
		return wrong("another reply than the one given")
	}
	return nil
}

// Close implements load.Client. The answerer sends nothing more, but waits for the
// outcome of its last reply, because otherwise a reply that the asker received would
// count as unknown.
func (w *waiting) Close() error {
	var errs []error
	if w.caller != nil {
		errs = append(errs, w.caller.Close())
	}
	if w.stream != nil {
		errs = append(errs, w.stream.Close())
	}
	if w.answers != nil {
		ended := make(chan struct{})
		go func() {
			w.ended.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(parting):
		}
		errs = append(errs, w.answers.Close())
	}
	w.ended.Wait()
	return errors.Join(errs...)
}
