package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/bench/wire"
)

// Answering is an agent that answers the messages on its stream, and another one that waits for
// the answers, each with a connection.
type Answering struct {
	Asks, Answers *Caller
	// Stream is that of the agent that answers.
	Stream *wire.Stream

	ended  sync.WaitGroup
	mu     sync.Mutex
	failed error
}

// OpenAnswering opens the connections and the stream of the answering agent.
func (h *Host) OpenAnswering(ctx context.Context, answerer *Agent) (*Answering, error) {
	a := &Answering{}
	var err error
	if a.Asks, err = h.Caller(ctx); err == nil {
		if a.Answers, err = h.Caller(ctx); err == nil {
			a.Stream, err = h.Listen(ctx, answerer)
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Serve calls answer with each message until the stream ends. On an error it also ends the
// connection of the agent that waits, for an answer that would never arrive.
func (a *Answering) Serve(answer func(Message) error) {
	a.ended.Go(func() {
		for {
			m, err := NextEvent(a.Stream)
			if err == nil {
				err = answer(m)
			}
			if err != nil {
				a.mu.Lock()
				a.failed = err
				a.mu.Unlock()
				_ = a.Asks.Close()
				return
			}
		}
	})
}

// Reason returns the error that ended Serve, or else err.
func (a *Answering) Reason(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil {
		return a.failed
	}
	return err
}

// Close ends both. The answering agent sends nothing more, but waits for the outcome of its last
// reply, because otherwise a reply that was received would count as unknown.
func (a *Answering) Close() error {
	var errs []error
	if a.Asks != nil {
		errs = append(errs, a.Asks.Close())
	}
	if a.Stream != nil {
		errs = append(errs, a.Stream.Close())
	}
	if a.Answers != nil {
		ended := make(chan struct{})
		go func() {
			a.ended.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(lastReplyWait):
		}
		errs = append(errs, a.Answers.Close())
	}
	a.ended.Wait()
	return errors.Join(errs...)
}
