package scenario

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/wire"
)

// waiting is one client of Sync: an asker with a waiting request, and an agent that
// answers the messages on its stream.
type waiting struct {
	*caller
	asker, answerer *agent
	request         *directRequest
	key             Key

	answers *caller
	stream  *wire.Stream
	reply   *replyRequest
	ended   sync.WaitGroup
	mu      sync.Mutex
	trouble error
}

func (h *Host) prepareSync(ctx context.Context, clients int) (load.Dial, error) {
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
		w.request = h.direct("/messages/sync?timeout_ms=10000", w.asker, w.answerer)
		w.reply = h.replyRequest(h.world.acme.token)
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
	walk := membersOf(body)
	sent, replied, status := false, false, ""
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(name) {
		case "message":
			m, err := readMessage(value)
			if err != nil {
				break
			}
			w.book.acknowledged(m.id, w.key, w.answerer.box)
			key, sound := w.payloads.read(m.payload)
			sent = sound && key == w.key
		case "reply":
			m, err := readMessage(value)
			key, sound := w.payloads.read(m.payload)
			expected := w.key
			expected.Part = answered
			replied = err == nil && sound && key == expected
		case "status":
			status = string(plainText(value))
		}
	}
	switch {
	case !walk.ended() || !sent:
		w.book.lost(w.key)
		return wrong("another message than the one sent")
	case status != "replied":
		return load.Refused{Reason: "sync ended as " + status}
	case !replied:
		return wrong("another reply than the one given")
	}
	return nil
}

// parting bounds how long Close waits for the answer to the last reply. The asker may
// have the reply before the answerer gets its acknowledgement.
const parting = time.Second

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
