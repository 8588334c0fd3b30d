package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/client/api"
)

// A2ATask is a task of an agent that is called over the A2A bridge.
// // source: A2A 1.0 section 4.1
type A2ATask struct {
	ID        string          `json:"id"`
	ContextID string          `json:"contextId"`
	Status    A2AStatus       `json:"status"`
	Artifacts []A2AArtifact   `json:"artifacts,omitempty"`
	History   []A2AMessage    `json:"history,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// States of a task after which nothing follows unless the caller writes again.
const (
	A2AInputRequired = "TASK_STATE_INPUT_REQUIRED"
	A2AAuthRequired  = "TASK_STATE_AUTH_REQUIRED"
	A2ACompleted     = "TASK_STATE_COMPLETED"
	A2AFailed        = "TASK_STATE_FAILED"
	A2ACanceled      = "TASK_STATE_CANCELED"
	A2ARejected      = "TASK_STATE_REJECTED"
)

// A2AStatus is the state of a task, such as TASK_STATE_WORKING.
type A2AStatus struct {
	State     string      `json:"state"`
	Message   *A2AMessage `json:"message,omitempty"`
	Timestamp string      `json:"timestamp,omitempty"`
}

// Final reports whether a stream of a sent message ends with this status.
func (s A2AStatus) Final() bool {
	switch s.State {
	case A2AInputRequired, A2AAuthRequired, A2ACompleted, A2AFailed, A2ACanceled, A2ARejected:
		return true
	}
	return false
}

// A2AMessage is a message of a task. Role is ROLE_USER or ROLE_AGENT.
type A2AMessage struct {
	MessageID string          `json:"messageId"`
	TaskID    string          `json:"taskId,omitempty"`
	ContextID string          `json:"contextId,omitempty"`
	Role      string          `json:"role"`
	Parts     []A2APart       `json:"parts"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// A2AArtifact is a result of a task.
type A2AArtifact struct {
	ArtifactID string          `json:"artifactId"`
	Parts      []A2APart       `json:"parts"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
}

// A2APart is a part of a message or an artifact, with one of Text, Raw, URL and Data.
type A2APart struct {
	Text      *string         `json:"text,omitempty"`
	Raw       []byte          `json:"raw,omitempty"`
	URL       string          `json:"url,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// A2AText returns the only part of a message that is a text.
func A2AText(text string) []A2APart { return []A2APart{{Text: &text}} }

// A2ACleartext returns the parts of a message that an A2A client sent without sealing it, or of a
// reply that is to be read over A2A. The server and its operator could read and change them: nothing
// proves who wrote them.
func A2ACleartext(m api.Message) (parts []A2APart, ok bool) {
	var metadata struct {
		Provenance api.Provenance `json:"provenance"`
		A2A        struct {
			Parts     json.RawMessage `json:"parts"`
			Cleartext bool            `json:"cleartext"`
		} `json:"a2a"`
	}
	if json.Unmarshal(m.Metadata, &metadata) != nil {
		return nil, false
	}
	reply := metadata.Provenance.Via != "a2a" && len(metadata.A2A.Parts) > 0 // which need not say so
	if !metadata.A2A.Cleartext && !reply {
		return nil, false
	}
	raw := []byte(metadata.A2A.Parts)
	if len(raw) == 0 { // long ones stand in the payload alone
		raw, _ = base64.RawURLEncoding.DecodeString(strings.TrimRight(m.EncryptedPayload, "="))
	}
	err := json.Unmarshal(raw, &parts)
	return parts, err == nil
}

// A2AEvent is an event of a task's stream. Exactly one of the pointers is set.
type A2AEvent struct {
	Task           *A2ATask           `json:"task,omitempty"`
	StatusUpdate   *A2AStatusUpdate   `json:"statusUpdate,omitempty"`
	ArtifactUpdate *A2AArtifactUpdate `json:"artifactUpdate,omitempty"`
}

// final reports whether the event is the last one of a stream of a sent message.
func (e *A2AEvent) final() bool {
	return e.Task != nil && e.Task.Status.Final() || e.StatusUpdate != nil && e.StatusUpdate.Status.Final()
}

// A2AStatusUpdate says that the status of a task has changed, or what the agent says
// about it.
type A2AStatusUpdate struct {
	TaskID    string          `json:"taskId"`
	ContextID string          `json:"contextId"`
	Status    A2AStatus       `json:"status"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// A2AArtifactUpdate brings a result.
type A2AArtifactUpdate struct {
	TaskID    string      `json:"taskId"`
	ContextID string      `json:"contextId"`
	Artifact  A2AArtifact `json:"artifact"`
}

// A2ASend is a message to an agent that is called over the bridge.
type A2ASend struct {
	// Handle is the agent's.
	Handle string
	// ActingAgent is the sender; the default is the organization's first active agent that
	// is not the addressed one.
	ActingAgent string
	// MessageID identifies the message; if empty, the client generates one. A repeat with
	// the same id takes effect once.
	MessageID string
	// TaskID continues a task, ContextID begins another one in a context.
	TaskID, ContextID string
	Parts             []A2APart
	// Wait is how long Send waits for a reply, from 1 s to 300 s; 0 means 60 s.
	Wait time.Duration
}

const (
	a2aWaitDefault = 60 * time.Second
	// a2aIdle is how long a stream may be silent: two and a half of the server's comments.
	a2aIdle = 40 * time.Second
)

// A2AError is an error of JSON-RPC by which the bridge refuses a request.
type A2AError struct {
	// Code is the code, such as -32001.
	Code int
	// Reason is the code of the service in capitals, or one of A2A's, such as
	// TASK_NOT_FOUND.
	Reason string
	// Message is one sentence for a person.
	Message string
}

func (e *A2AError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// a2aAnswer is a response of JSON-RPC.
type a2aAnswer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		// Data is an array in A2A 1.0; other servers may send something else.
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// read decodes the result of a response into out.
func (a *a2aAnswer) read(text []byte, out any) error {
	if err := json.Unmarshal(text, a); err != nil {
		return &localError{fmt.Errorf("A2A: read answer: %w", err)}
	}
	if a.Error != nil {
		e := &A2AError{Code: a.Error.Code, Message: a.Error.Message}
		var details []struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(a.Error.Data, &details) == nil && len(details) > 0 {
			e.Reason = details[0].Reason
		}
		return e
	}
	if err := json.Unmarshal(a.Result, out); err != nil {
		return &localError{fmt.Errorf("A2A: read answer: %w", err)}
	}
	return nil
}

// A2A makes the calls over the A2A bridge.
type A2A struct{ s *Session }

// Call calls a method of the bridge and decodes the result into out. It is repeated
// after failures if a repeat has no further effect, which is so for all methods of tasks
// whose messages have ids.
func (b A2A) Call(ctx context.Context, handle, method string, params, out any) error {
	return b.call(ctx, handle, method, params, http.Header{}, 0, out)
}

func (b A2A) call(ctx context.Context, handle, method string, params any, head http.Header, wait time.Duration, out any) error {
	k := a2aCall(handle, method, params)
	k.header, k.wait = head, wait
	text, err := perform[json.RawMessage](ctx, b.s, k)
	if err != nil {
		return err
	}
	return new(a2aAnswer).read(*text, out)
}

func a2aCall(handle, method string, params any) call {
	in := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	return call{route: post("/a2a/" + url.PathEscape(handle)).idempotent(), header: http.Header{}, in: in}
}

func (c *Session) actAs(head http.Header, agent string) {
	if agent != "" {
		head.Set(c.ownHeader("X-Svc-Agent"), agent)
	}
}

func (in *A2ASend) params() map[string]any {
	message := map[string]any{"messageId": in.MessageID, "role": "ROLE_USER", "parts": in.Parts}
	if in.TaskID != "" {
		message["taskId"] = in.TaskID
	}
	if in.ContextID != "" {
		message["contextId"] = in.ContextID
	}
	return map[string]any{"message": message}
}

// A2AAnswer is the answer to a message: a task, or a message alone. Exactly one of the pointers
// is set.
type A2AAnswer struct {
	Task    *A2ATask    `json:"task,omitempty"`
	Message *A2AMessage `json:"message,omitempty"`
}

// Send sends a message over the bridge, waits for the reply, and returns the task as it
// is then, or the message that the agent has answered instead. The error may be an *A2AError.
func (b A2A) Send(ctx context.Context, in A2ASend) (*A2AAnswer, error) {
	if in.MessageID == "" {
		in.MessageID = randomKey()
	}
	wait, head := a2aWaitDefault, http.Header{}
	if in.Wait > 0 {
		wait = in.Wait
	}
	head.Set("X-A2A-Timeout", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	b.s.actAs(head, in.ActingAgent)
	out := &A2AAnswer{}
	if err := b.call(ctx, in.Handle, "SendMessage", in.params(), head, wait, out); err != nil {
		return nil, err
	}
	if out.Task == nil && out.Message == nil {
		return nil, &localError{errors.New("A2A: the answer has neither a task nor a message")}
	}
	return out, nil
}

// Stream sends a message over the bridge and yields the task and what happens to it,
// until it ends or waits for input. If a connection is lost, another one resumes after the
// last event, so that none is missed or repeated. The error may be an *A2AError.
func (b A2A) Stream(ctx context.Context, in A2ASend) iter.Seq2[*A2AEvent, error] {
	return func(yield func(*A2AEvent, error) bool) {
		if in.MessageID == "" {
			in.MessageID = randomKey()
		}
		s := &a2aStream{c: b.s, in: in, yield: yield}
		if err := s.follow(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// a2aStream is one run of A2A.Stream over many connections.
type a2aStream struct {
	c       *Session
	in      A2ASend
	yield   func(*A2AEvent, error) bool
	task    string // "" until the first event
	lastID  string
	renewed bool
}

// follow connects until the last event was read. nil means that nothing is left to yield.
func (s *a2aStream) follow(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		before := s.lastID
		done, err := s.connect(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case refusedToken(err) && !s.renewed:
			s.renewed = true
			continue
		case !resumable(err):
			return err
		case s.lastID != before:
			attempt = 1
		}
		if attempt >= s.c.attempts {
			return err
		}
		if err := sleep(ctx, s.c.backoff<<min(attempt-1, 10)); err != nil {
			return err
		}
	}
}

// resumable reports whether another connection may help.
func resumable(err error) bool {
	var refused *A2AError
	return !errors.As(err, &refused) && !hopeless(err)
}

// connect reads one connection. It reports whether nothing is left to read.
func (s *a2aStream) connect(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(a2aIdle, func() { cancel(errSilent) })
	defer watch.Stop()
	req, token, err := s.c.request(ctx, s.request())
	if err != nil {
		return false, err
	}
	resp, err := s.c.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("A2A: %w", because(ctx, unwrapURL(err)))
	}
	defer func() { _ = resp.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		return false, s.refused(resp, token)
	}
	s.renewed = false
	r := newEventReader(&watched{resp.Body, watch, a2aIdle})
	for skip := s.task != ""; ; skip = false { // a resumed stream repeats the task as it was
		b, err := r.next()
		if err != nil {
			return false, fmt.Errorf("A2A: %w", because(ctx, err))
		}
		if !b.hasData {
			continue
		}
		s.lastID = r.lastID
		if skip {
			continue
		}
		watch.Stop()
		if done, err = s.pass(b.data); done || err != nil {
			return done, err
		}
		watch.Reset(a2aIdle)
	}
}

// request returns the request that begins or resumes the stream.
func (s *a2aStream) request() call {
	k := a2aCall(s.in.Handle, "SendStreamingMessage", s.in.params())
	if s.task != "" {
		k = a2aCall(s.in.Handle, "SubscribeToTask", map[string]string{"id": s.task})
	}
	k.raw, _ = json.Marshal(k.in) // maps of strings and parts
	k.header.Set("Accept", "text/event-stream")
	if s.task != "" {
		k.header.Set("Last-Event-Id", s.lastID)
	}
	s.c.actAs(k.header, s.in.ActingAgent)
	return k
}

// refused returns the error of an answer that is no stream.
func (s *a2aStream) refused(resp *http.Response, token string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		if err := new(a2aAnswer).read(body, &struct{}{}); err != nil {
			return err
		}
		return ErrNotStream
	}
	refusal := readError(resp, body)
	if refusedToken(refusal) {
		s.c.tokens.drop(s.c, token)
	}
	return refusal
}

// pass yields an event. It reports whether it was the last one.
func (s *a2aStream) pass(data []byte) (done bool, err error) {
	event := &A2AEvent{}
	if err := new(a2aAnswer).read(data, event); err != nil {
		return false, err
	}
	if event.Task != nil {
		s.task = event.Task.ID
	}
	return !s.yield(event, nil) || event.final(), nil
}

// partsText returns the texts of parts, and the media type or the kind of the others.
func partsText(parts []A2APart) string {
	var texts []string
	for i := range parts {
		switch p := &parts[i]; {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.URL != "":
			texts = append(texts, p.URL)
		case p.MediaType != "":
			texts = append(texts, "["+p.MediaType+"]")
		case p.Raw != nil:
			texts = append(texts, fmt.Sprintf("[%d bytes]", len(p.Raw)))
		default:
			texts = append(texts, string(bytes.TrimSpace(p.Data)))
		}
	}
	return strings.Join(texts, "\n")
}

// Text returns what a message says as text: files and sealed parts by their media type.
func (m *A2AMessage) Text() string { return partsText(m.Parts) }

// Text returns what an artifact says as text: files and sealed parts by their media type.
func (a *A2AArtifact) Text() string { return partsText(a.Parts) }
