package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Event is one event of an agent's stream. The field for its Type is set. All are nil if
// this client does not know the type.
type Event struct {
	// Type is message, status, heartbeat, gap, group or webhook.
	Type string
	// LastEventID is the id to resume from so that this event and all before it are not
	// sent again: the id of the last message.
	LastEventID string
	// Data is the raw data.
	Data []byte

	Message   *api.Message
	Status    *api.StatusEvent
	Heartbeat *api.HeartbeatEvent
	Gap       *api.GapEvent
	Group     *api.GroupEvent
	Webhook   *api.WebhookEvent
}

// StreamOptions are options of a stream. The zero value begins with the messages that
// have not been transferred to the agent yet.
type StreamOptions struct {
	// LastEventID resumes after a message.
	LastEventID string
	// Heartbeats also yields heartbeats, which otherwise only keep the stream alive.
	Heartbeats bool
	// IdleTimeout is how long the connection may be silent before it counts as dead. The
	// default is 75 s, two and a half heartbeats.
	IdleTimeout time.Duration
	// OnConnect is called each time the server has accepted the stream.
	OnConnect func()
	// OnPosition is called when the resume point moves without an event, which the
	// server does first on each connection.
	OnPosition func(lastEventID string)
	// OnReconnect is called before each pause with the reason why the connection ended
	// (io.EOF if the server closed it) and the length of the pause.
	OnReconnect func(cause error, pause time.Duration)
}

// ErrNotStream means that the answer to a stream request was not an event stream.
var ErrNotStream = errors.New("the answer is not an event stream")

const (
	idleDefault      = 75 * time.Second
	reconnectWaitMax = 30 * time.Second
)

// Stream yields the events of an agent without end. When a connection ends, it opens a
// new one that resumes where the last one stopped, after the pause the server asked for.
// The pause grows while no events arrive, and has jitter. The sequence ends with an error
// that no retry can fix (the agent is revoked, credentials are refused, an event cannot
// be parsed), or with the error of ctx. After a resume, status events that followed the
// last message are sent again.
func (m Messages) Stream(ctx context.Context, id parley.AgentID, opts StreamOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if opts.IdleTimeout <= 0 {
			opts.IdleTimeout = idleDefault
		}
		s := &subscription{c: m.s, id: id, opts: opts, lastID: opts.LastEventID, base: m.s.backoff, yield: yield}
		if err := s.follow(ctx); err != nil {
			yield(Event{LastEventID: s.lastID}, err)
		}
	}
}

// subscription is one run of Stream over many connections.
type subscription struct {
	c      *Session
	id     parley.AgentID
	opts   StreamOptions
	yield  func(Event, error) bool
	lastID string
	// base is the pause before a reconnect, as the server requested it.
	base time.Duration
	// failures counts consecutive connections without an event.
	failures int
	// renewed reports that the token was already replaced since the last success.
	renewed bool
}

// errStopped means that the consumer of the events has stopped.
var errStopped = errors.New("stopped")

// follow connects again and again. nil means that the consumer has stopped.
func (s *subscription) follow(ctx context.Context) error {
	for {
		err := s.connect(ctx)
		switch {
		case errors.Is(err, errStopped):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNewToken):
			continue
		case hopeless(err):
			return err
		}
		pause := s.pause(err)
		if s.opts.OnReconnect != nil {
			s.opts.OnReconnect(err, pause)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// pause returns the wait after another connection that ended.
func (s *subscription) pause(cause error) time.Duration {
	wait := min(max(s.base, time.Millisecond)<<min(s.failures, 12), reconnectWaitMax)
	s.failures++
	wait = wait/2 + rand.N(wait/2+1)
	var e *Error
	if errors.As(cause, &e) {
		wait = max(wait, e.RetryAfter)
	}
	return wait
}

// hopeless reports whether a new connection would only end the same way.
func hopeless(err error) bool {
	var local *localError
	var e *Error
	switch {
	case errors.As(err, &local), errors.Is(err, ErrEventTooLong), errors.Is(err, ErrNotStream):
		return true
	case errors.As(err, &e):
		return e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
	}
	return false
}

// errNewToken means that the token was refused and the next attempt uses a new one.
var errNewToken = errors.New("token refused")

// connect opens one connection and reads it to its end. The error is never nil.
func (s *subscription) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Silence cancels the connection; every read resets the timer.
	watch := time.AfterFunc(s.opts.IdleTimeout, func() { cancel(errSilent) })
	defer watch.Stop()
	k := s.c.call(get("/agents/{id}/stream"), api.Stream{ID: s.id, LastEventID: s.lastID})
	k.header.Set("Accept", "text/event-stream")
	k.header.Set("Cache-Control", "no-store")
	req, token, err := s.c.request(ctx, k)
	if err != nil {
		return err
	}
	resp, err := s.c.http.Do(req)
	if err != nil {
		return fmt.Errorf("stream: %w", because(ctx, unwrapURL(err)))
	}
	defer func() { _ = resp.Body.Close() }()
	if err := s.accepted(resp, token); err != nil {
		return err
	}
	err = s.read(newEventReader(&watched{resp.Body, watch, s.opts.IdleTimeout}), watch)
	return because(ctx, err)
}

var errSilent = errors.New("nothing came for too long")

// because returns the reason for which a context was cancelled, if there is one, else
// err.
func because(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// accepted checks the header of the answer.
func (s *subscription) accepted(resp *http.Response, token string) error {
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		err := readError(resp, body)
		if refusedToken(err) {
			if s.c.tokens.drop(s.c, token); !s.renewed {
				s.renewed = true
				return errNewToken
			}
		}
		return err
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return ErrNotStream
	}
	s.renewed = false
	if s.opts.OnConnect != nil {
		s.opts.OnConnect()
	}
	return nil
}

// read yields the events of one connection until it ends.
func (s *subscription) read(r *eventReader, watch *time.Timer) error {
	r.lastID = s.lastID
	for {
		b, err := r.next()
		if r.retry > 0 {
			s.base = r.retry
		}
		if err != nil {
			return err
		}
		s.lastID = r.lastID
		if !b.hasData {
			if s.opts.OnPosition != nil {
				s.opts.OnPosition(s.lastID)
			}
			continue
		}
		s.failures = 0
		event := Event{Type: b.event, LastEventID: s.lastID, Data: b.data}
		if event.Type == "" {
			event.Type = api.EventMessage
		}
		if err := event.decode(); err != nil {
			return &localError{fmt.Errorf("stream: read %s event: %w", event.Type, err)}
		}
		if event.Heartbeat != nil && !s.opts.Heartbeats {
			continue
		}
		watch.Stop() // the time the consumer takes is not silence
		if !s.yield(event, nil) {
			return errStopped
		}
		watch.Reset(s.opts.IdleTimeout)
	}
}

// decode sets the field for the event's type.
func (e *Event) decode() error {
	switch e.Type {
	case api.EventMessage:
		return json.Unmarshal(e.Data, &e.Message)
	case api.EventStatus:
		return json.Unmarshal(e.Data, &e.Status)
	case api.EventHeartbeat:
		return json.Unmarshal(e.Data, &e.Heartbeat)
	case api.EventGap:
		return json.Unmarshal(e.Data, &e.Gap)
	case api.EventGroup:
		return json.Unmarshal(e.Data, &e.Group)
	case api.EventWebhook:
		return json.Unmarshal(e.Data, &e.Webhook)
	}
	return nil
}

// watched resets the idle timer at every read that returns data.
type watched struct {
	r     io.Reader
	watch *time.Timer
	idle  time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.watch.Reset(w.idle)
	}
	return n, err
}
