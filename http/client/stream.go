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

	"parley"
	"parley/http/api"
)

// Event is one event of an agent's stream. Of its shapes the one that Type
// names is set; all are nil for a type that this client does not know.
type Event struct {
	// Type is message, status, heartbeat, gap or group.
	Type string
	// LastEventID is where to resume so that this event and all before it are not
	// sent again: the id of the last message.
	LastEventID string
	// Data is the data as it came.
	Data []byte

	Message   *api.Message
	Status    *api.StatusEvent
	Heartbeat *api.HeartbeatEvent
	Gap       *api.GapEvent
	Group     *api.GroupEvent
}

// StreamOptions say how to stream. The zero value begins with all that was not
// carried to the agent before.
type StreamOptions struct {
	// LastEventID resumes after a message.
	LastEventID string
	// Heartbeats gives heartbeats too, which otherwise only keep the stream alive.
	Heartbeats bool
	// IdleTimeout is how long silence may last before the connection counts as
	// dead; the default is 75 s, two heartbeats and a half.
	IdleTimeout time.Duration
	// OnConnect is called each time the server has accepted the stream.
	OnConnect func()
	// OnPosition is called when the resume point moves without an event, which the
	// server does first on each connection.
	OnPosition func(lastEventID string)
	// OnReconnect is called before each pause: what ended the connection (io.EOF
	// if the server did) and how long the pause is.
	OnReconnect func(cause error, pause time.Duration)
}

// ErrNotStream says that the answer to a stream request was something else.
var ErrNotStream = errors.New("the answer is not an event stream")

const (
	idleDefault      = 75 * time.Second
	reconnectWaitMax = 30 * time.Second
)

// Stream gives the events of an agent, for ever: when a connection ends it makes
// a new one that resumes where the last one stopped, after the pause the server
// asked for, longer and longer while nothing comes through, each with jitter.
// The sequence ends with an error that no repeat can mend (the agent is revoked,
// credentials are refused, an event cannot be read), or with that of ctx. After
// a resume, status events that came after the last message come again.
func (c *Client) Stream(ctx context.Context, id parley.AgentID, opts StreamOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if opts.IdleTimeout <= 0 {
			opts.IdleTimeout = idleDefault
		}
		s := &subscription{c: c, id: id, opts: opts, lastID: opts.LastEventID, base: c.backoff, yield: yield}
		if err := s.follow(ctx); err != nil {
			yield(Event{LastEventID: s.lastID}, err)
		}
	}
}

// subscription is one run of Stream over many connections.
type subscription struct {
	c      *Client
	id     parley.AgentID
	opts   StreamOptions
	yield  func(Event, error) bool
	lastID string
	// base is the pause before a reconnect, as the server asked for it.
	base time.Duration
	// failures counts connections in a row that brought nothing.
	failures int
	// renewed tells that the token was already replaced since the last success.
	renewed bool
}

// errStopped means that the reader of the events has stopped reading.
var errStopped = errors.New("stopped")

// follow connects again and again; nil means that the reader has stopped.
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

// pause is the wait after another connection that ended.
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

// errNewToken says that the token was refused and the next try takes a new one.
var errNewToken = errors.New("token refused")

// connect opens one connection and reads it to its end, which is never nil.
func (s *subscription) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Silence cancels the connection; every read puts it off.
	watch := time.AfterFunc(s.opts.IdleTimeout, func() { cancel(errSilent) })
	defer watch.Stop()
	k := get("/agents/" + s.id.String() + "/stream")
	k.header = http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}
	if s.lastID != "" {
		k.header.Set("Last-Event-Id", s.lastID)
	}
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

// because prefers the reason for which a context was cancelled.
func because(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// accepted judges the head of the answer.
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

// read passes on the events of one connection until it ends.
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
		watch.Stop() // the time the reader of the events takes is not silence
		if !s.yield(event, nil) {
			return errStopped
		}
		watch.Reset(s.opts.IdleTimeout)
	}
}

// decode sets the shape that the type names.
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
	}
	return nil
}

// watched puts the idle watch off at every read that brings something.
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
