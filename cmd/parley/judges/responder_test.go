package judges

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
)

const (
	// longTask is how long a task takes that is said to be long: scenarios look at it
	// meanwhile.
	longTask = 3 * time.Second
	// streamPause is between the events of a stream.
	streamPause = 300 * time.Millisecond
	callsWait   = 30 * time.Second
)

// member registers an organization and returns its session.
func member(t *testing.T, base, slug string) *client.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callsWait)
	defer cancel()
	c, err := client.New(base)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := c.Register(ctx, api.Register{Email: "ops@" + slug + ".example", OrgSlug: slug})
	if err != nil {
		t.Fatal(err)
	}
	session := c.Authenticated(*credentials)
	t.Cleanup(session.Close)
	return session
}

// newAgent creates an agent of an organization.
func newAgent(t *testing.T, c *client.Session, name string) *e2ee.Agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callsWait)
	defer cancel()
	ring, err := e2ee.GenerateKeyRing()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := e2ee.NewAgent(ctx, c, api.CreateAgent{Name: name}, ring)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// tokenOf returns an access token of an organization.
func tokenOf(t *testing.T, c *client.Session) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callsWait)
	defer cancel()
	token, err := c.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// responder is an agent that answers as the suites of the A2A project ask: the beginning of
// a text (ACTS) or of a message's id (a2a-tck) names the behaviour.
type responder struct {
	agent *e2ee.Agent
	t     *testing.T
	tasks sync.WaitGroup
	// behaviours of tasks, for the messages that continue one.
	mu         sync.Mutex
	behaviours map[parley.ConversationID]string
}

// respond has an agent of a new organization answer until the test ends, and returns its
// handle.
func respond(t *testing.T, base string) (handle string) {
	t.Helper()
	r := &responder{agent: newAgent(t, member(t, base, "suites"), "tck"), t: t, behaviours: map[parley.ConversationID]string{}}
	_, err := r.agent.Client.Agents.PutCard(t.Context(), api.PutCard{
		ID: r.agent.ID(), Name: "TCK", Description: "Answers as the conformance suites of A2A ask.",
		DefaultInputModes: []string{"text/plain", "application/json"}, DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills:    []api.PutCardSkill{{ID: "tck", Name: "Conformance", Description: "Plays the parts of a conformance suite.", Tags: []string{"tck"}}},
		Extension: &api.PutCardExtension{A2AEnabled: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	connected, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.follow(ctx, connected)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		r.tasks.Wait()
	})
	select {
	case <-connected:
	case <-ended:
		t.Fatal("the responder did not connect")
	case <-time.After(callsWait):
		t.Fatalf("the responder did not connect within %v", callsWait)
	}
	return r.agent.Handle()
}

func (r *responder) follow(ctx context.Context, connected chan struct{}) {
	once := sync.OnceFunc(func() { close(connected) })
	for event, err := range r.agent.Client.Messages.Stream(ctx, r.agent.ID(), client.StreamOptions{OnConnect: once}) {
		if err != nil {
			if ctx.Err() == nil {
				r.t.Errorf("the responder's stream: %v", err)
			}
			return
		}
		if event.Message == nil || event.Message.Type != r.agent.Client.MessageType("task_request") {
			continue
		}
		r.tasks.Go(func() {
			err := r.answer(ctx, *event.Message)
			// A task that was canceled meanwhile takes no more answers.
			if err != nil && ctx.Err() == nil && !errors.Is(err, client.ConversationClosed) {
				r.t.Errorf("the responder: %v", err)
			}
		})
	}
}

// behaviour returns what a message asks for, and whether it begins so itself.
func behaviour(text, messageID string) (name string, ok bool) {
	for _, source := range []string{text, messageID} {
		longest := ""
		for prefix := range behaviours {
			if strings.HasPrefix(source, prefix) && len(prefix) > len(longest) {
				longest = prefix
			}
		}
		if longest != "" {
			return longest, true
		}
	}
	return "", false
}

func (r *responder) answer(ctx context.Context, m api.Message) error {
	var metadata struct {
		A2A struct {
			MessageID string `json:"message_id"`
		} `json:"a2a"`
	}
	if err := json.Unmarshal(m.Metadata, &metadata); err != nil {
		return err
	}
	said := &request{r: r, ctx: ctx, to: m}
	parts, _ := client.A2ACleartext(m)
	for _, p := range parts {
		if p.Text != nil {
			said.text = *p.Text
			break
		}
	}
	r.mu.Lock()
	name, named := behaviour(said.text, metadata.A2A.MessageID)
	if !named {
		name = r.behaviours[m.ConversationID]
	}
	r.behaviours[m.ConversationID] = name
	r.mu.Unlock()
	if do, ok := behaviours[name]; ok {
		return do(said)
	}
	return said.complete("no behaviour is named")
}

// request is a message to answer.
type request struct {
	r    *responder
	ctx  context.Context
	to   api.Message
	text string
}

// behaviours are named by prefixes in suite.acts.yaml's files and in a2a-tck's scenarios.
var behaviours = map[string]func(*request) error{
	"tck-complete-task":           func(m *request) error { return m.complete("Hello from TCK") },
	"tck-artifact-text":           func(m *request) error { return m.complete("Generated text content") },
	"tck-artifact-data":           func(m *request) error { return m.reply("task_response", dataPart, nil) },
	"tck-artifact-file":           func(m *request) error { return m.reply("task_response", filePart, nil) },
	"tck-artifact-file-url":       func(m *request) error { return m.reply("task_response", urlPart, nil) },
	"tck-message-response":        (*request).message,
	"tck-task-failure":            func(m *request) error { return m.reply("error", client.A2AText("It failed."), nil) },
	"tck-reject-task":             func(m *request) error { return m.move("rejected", "rejected") },
	"tck-input-required":          func(m *request) error { return m.ask("input_required") },
	"tck-auth-required":           func(m *request) error { return m.ask("auth_required") },
	"tck-multi-turn":              (*request).turn,
	"tck-cancel":                  (*request).work,
	"tck-long-running":            func(m *request) error { return m.stream("Long work", longTask) },
	"tck-stream-basic":            func(m *request) error { return m.stream("Streamed content", streamPause) },
	"tck-stream-chunked":          (*request).chunks,
	"tck-stream-001":              func(m *request) error { return m.stream("Stream hello from TCK", streamPause) },
	"tck-stream-002":              func(m *request) error { return m.complete("Streamed at once") },
	"tck-stream-003":              func(m *request) error { return m.stream("Stream task lifecycle", streamPause) },
	"tck-stream-ordering":         func(m *request) error { return m.stream("Ordered output", streamPause) },
	"tck-stream-artifact-text":    func(m *request) error { return m.stream("Streamed text content", streamPause) },
	"tck-stream-artifact-file":    func(m *request) error { return m.reply("task_response", filePart, nil) },
	"tck-stream-artifact-chunked": (*request).chunks,
	"test-resubscribe-message-id": func(m *request) error { return m.stream("Resubscribed", 4*time.Second) },
}

var (
	dataPart = []client.A2APart{{Data: json.RawMessage(`{"key":"value","count":42}`), MediaType: "application/json"}}
	filePart = []client.A2APart{{Raw: []byte("tck"), Filename: "output.txt", MediaType: "text/plain"}}
	urlPart  = []client.A2APart{{URL: "https://example.com/output.txt", Filename: "output.txt", MediaType: "text/plain"}}
)

func (m *request) complete(text string) error {
	return m.reply("task_response", client.A2AText(text), nil)
}

func (m *request) work() error { return m.reply("status_update", client.A2AText("Working"), nil) }

// message answers with a message in place of a task.
func (m *request) message() error {
	return m.reply("dm", client.A2AText("Direct message response"), map[string]any{"as": "message"})
}

// ask says what is missing, and waits for it.
func (m *request) ask(reason string) error {
	if err := m.reply("status_update", client.A2AText("More is needed: "+reason), nil); err != nil {
		return err
	}
	return m.move("input_required", reason)
}

// turn asks for more until it is told that it is done.
func (m *request) turn() error {
	if m.text == "done" {
		return m.complete("All turns taken")
	}
	return m.ask("more input")
}

// stream works, and completes the task after a pause.
func (m *request) stream(text string, pause time.Duration) error {
	if err := m.work(); err != nil {
		return err
	}
	select {
	case <-time.After(pause):
		return m.complete(text)
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

// chunks answers bit by bit. A reply completes the task with one artifact, so the bits are
// status messages.
func (m *request) chunks() error {
	for _, text := range []string{"chunk-1", "chunk-2"} {
		if err := m.reply("status_update", client.A2AText(text), nil); err != nil {
			return err
		}
	}
	return m.complete("chunk-1 chunk-2")
}

func (m *request) move(status, reason string) error {
	_, err := m.r.agent.Client.Messages.SetStatus(m.ctx, api.StatusPatch{ID: m.to.ConversationID, ActingAgent: m.r.agent.ID().String(), Status: status, Reason: &reason})
	return err
}

func (m *request) reply(kind string, parts []client.A2APart, more map[string]any) error {
	text, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	inner := map[string]any{"parts": parts, "cleartext": true}
	for name, value := range more {
		inner[name] = value
	}
	metadata, err := json.Marshal(map[string]any{"a2a": inner})
	if err != nil {
		return err
	}
	_, err = m.r.agent.Client.Messages.Reply(m.ctx, api.Reply{
		ID: m.to.ID, ActingAgent: m.r.agent.ID().String(), Type: m.r.agent.Client.MessageType(kind),
		EncryptedPayload: base64.RawURLEncoding.EncodeToString(text), Metadata: metadata, ContentType: "application/json",
	})
	return err
}
