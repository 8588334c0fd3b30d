package a2a

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type a2aEchoCmd struct {
	profile.SealingFlags
	Count int `short:"n" placeholder:"N" help:"End after the messages of this many tasks were answered; default: go on until interrupted."`
}

// Help lists the prefixes by which a text chooses its answer.
func (*a2aEchoCmd) Help() string {
	return `The answer depends on how the text of a message begins:

  stream:TEXT   a status update for each word, then the text as the result
  auth:TEXT     says TEXT and waits for an authorization; the next message is answered as any other
  input:TEXT    asks TEXT and waits for input; the next message is answered as any other
  message:TEXT  answers with a message that leaves the task working
  alone:TEXT    answers with a message instead of a task, if it is the first answer
  reject:TEXT   rejects a new task for this reason
  fail:TEXT     fails with this text
  wait:N TEXT   the text as the result, after N seconds (at most 300)
  anything else the same parts as the result, which completes the task

If the agent has no card, one is published that makes it reachable over A2A.`
}

const (
	// echoesMax bounds the messages that are being answered at the same time.
	echoesMax = 256
	// echoWordsMax bounds the status updates of stream:.
	echoWordsMax = 20
	// echoWaitMax bounds wait:, in seconds.
	echoWaitMax = 300
	// echoInlineMax is how many bytes of parts may stand in metadata, whose limit is 4 KB.
	echoInlineMax = 2 << 10
)

func (c *a2aEchoCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	endpoint, err := enableA2A(ctx, agent)
	if err != nil {
		return err
	}
	err = (&echoer{agent: agent, std: std, slots: make(chan struct{}, echoesMax)}).follow(ctx, c.Count, func() {
		std.Note("answering the tasks of %s at %s", agent.Handle(), endpoint)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// enableA2A returns the address of the agent at the bridge. An agent without a card gets
// one.
func enableA2A(ctx context.Context, agent *e2ee.Agent) (endpoint string, err error) {
	card, err := agent.Client.Agents.Card(ctx, agent.ID().String())
	if errors.Is(err, client.NotFound) {
		card, err = agent.Client.Agents.PutCard(ctx, api.PutCard{
			ID: agent.ID(), Name: agent.Record.Name, Description: "Answers every task with its own parts.",
			DefaultInputModes: []string{"*/*"}, DefaultOutputModes: []string{"*/*"},
			Extension: &api.PutCardExtension{A2AEnabled: true},
		})
	}
	switch {
	case err != nil:
		return "", err
	case !card.Extension.A2AEnabled || card.Extension.A2AEndpoint == nil:
		return "", program.ExitError{Code: program.ExitRefused, Err: fmt.Errorf("the card of %s is not A2A-enabled: set a2a_enabled in it and publish it with \"%s\"", agent.Handle(), program.Typed("card put"))}
	}
	return *card.Extension.A2AEndpoint, nil
}

// echoer answers tasks.
type echoer struct {
	agent    *e2ee.Agent
	std      *program.Streams
	slots    chan struct{}
	printing sync.Mutex
	tasks    sync.WaitGroup
}

// follow answers the messages of the agent's stream, count of them if it is not 0.
func (e *echoer) follow(ctx context.Context, count int, connected func()) error {
	ctx, cancel := context.WithCancel(ctx)
	options := client.StreamOptions{OnConnect: connected, OnReconnect: func(cause error, pause time.Duration) {
		e.std.Note("disconnected (%v), again in %v", cause, pause.Round(time.Millisecond))
	}}
	defer cancel()
	defer e.tasks.Wait()
	seen := 0
	for event, err := range e.agent.Client.Messages.Stream(ctx, e.agent.ID(), options) {
		if err != nil {
			cancel()
			return err
		}
		if event.Message == nil || event.Message.Type != e.agent.Client.MessageType("task_request") {
			continue
		}
		select {
		case e.slots <- struct{}{}:
		case <-ctx.Done():
			continue // the next event is the error
		}
		e.tasks.Go(func() {
			defer func() { <-e.slots }()
			e.answer(ctx, *event.Message)
		})
		if seen++; seen == count {
			return nil
		}
	}
	return nil
}

// echoed is one line of `a2a echo --json`.
type echoed struct {
	Task    parley.ConversationID `json:"task_id"`
	Message parley.MessageID      `json:"message_id"`
	// Answer is how the message was answered, such as completed; empty if it failed.
	Answer string `json:"answer,omitzero"`
	Error  string `json:"error,omitzero"`
}

// answer answers a message and prints how.
func (e *echoer) answer(ctx context.Context, m api.Message) {
	line := echoed{Task: m.ConversationID, Message: m.ID}
	request, err := e.read(ctx, m)
	if err == nil {
		line.Answer, err = request.answer(ctx)
	}
	if err != nil {
		line.Error = err.Error()
	}
	e.printing.Lock()
	defer e.printing.Unlock()
	switch {
	case e.std.JSON:
		_ = e.std.Value(line)
	case err != nil:
		e.std.Note("task %s: %s", line.Task, line.Error)
	default:
		_ = e.std.Say("task %s: %s", line.Task, line.Answer)
	}
}

// echo is a message to answer.
type echo struct {
	agent *e2ee.Agent
	to    api.Message
	// parts are nil if the message was sealed, and is answered sealed.
	parts []client.A2APart
	text  string
	step  int
	as    string // metadata.a2a.as of the next reply
}

// a2aMetadata is metadata.a2a of a message.
type a2aMetadata struct {
	Parts     []client.A2APart `json:"parts,omitempty"`
	Cleartext bool             `json:"cleartext,omitempty"`
	As        string           `json:"as,omitempty"`
}

// object returns the metadata of a message.
func (m a2aMetadata) object() api.Object {
	text, _ := json.Marshal(map[string]a2aMetadata{"a2a": m}) // parts were decoded from JSON
	return api.Object(text)
}

// read returns a message as it is to be answered.
func (e *echoer) read(ctx context.Context, m api.Message) (*echo, error) {
	request := &echo{agent: e.agent, to: m}
	var cleartext bool
	if request.parts, cleartext = client.A2ACleartext(m); !cleartext {
		opened, err := e.agent.OpenMessage(ctx, m)
		if err != nil {
			return nil, err
		}
		request.text = string(opened.Payload)
		return request, nil
	}
	for _, p := range request.parts {
		if p.Text != nil {
			request.text = *p.Text
			break
		}
	}
	return request, nil
}

// answer does what the text asks for and returns a word for it.
func (m *echo) answer(ctx context.Context) (did string, err error) {
	word, rest, _ := strings.Cut(m.text, ":")
	rest = strings.TrimSpace(rest)
	switch word {
	case "stream":
		for i, word := range strings.Fields(rest) {
			if i == echoWordsMax {
				break
			}
			if err := m.reply(ctx, "status_update", word); err != nil {
				return "", err
			}
		}
		return "completed", m.reply(ctx, "task_response", rest)
	case "input":
		if err := m.reply(ctx, "status_update", rest); err != nil {
			return "", err
		}
		return "input_required", m.move(ctx, "input_required", rest)
	case "auth":
		if err := m.reply(ctx, "status_update", rest); err != nil {
			return "", err
		}
		return "auth_required", m.move(ctx, "input_required", "auth_required")
	case "alone":
		m.as = "message"
		return "answered", m.reply(ctx, "dm", rest)
	case "message":
		return "replied", m.reply(ctx, "dm", rest)
	case "reject":
		return "rejected", m.move(ctx, "rejected", rest)
	case "fail":
		return "failed", m.reply(ctx, "error", rest)
	case "wait":
		number, after, _ := strings.Cut(rest, " ")
		seconds, err := strconv.Atoi(number)
		if err != nil || seconds < 0 || seconds > echoWaitMax {
			return "failed", m.reply(ctx, "error", fmt.Sprintf("%q is no number of seconds from 0 to %d", number, echoWaitMax))
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
			return "completed", m.reply(ctx, "task_response", after)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if m.parts == nil {
		return "completed", m.reply(ctx, "task_response", m.text)
	}
	return "completed", m.replyParts(ctx, "task_response", m.parts)
}

// move changes the status of the task.
func (m *echo) move(ctx context.Context, status, reason string) error {
	in := api.StatusPatch{ID: m.to.ConversationID, ActingAgent: m.agent.ID().String(), Status: status}
	if reason != "" {
		const reasonMax = 500
		runes := []rune(reason)
		reason = string(runes[:min(len(runes), reasonMax)])
		in.Reason = &reason
	}
	_, err := m.agent.Client.Messages.SetStatus(ctx, in)
	return err
}

// reply answers with a text, sealed if the message was.
func (m *echo) reply(ctx context.Context, kind, text string) error {
	if m.parts != nil {
		return m.replyParts(ctx, kind, client.A2AText(text))
	}
	var metadata api.Object
	if m.as != "" {
		metadata = a2aMetadata{As: m.as}.object()
	}
	_, err := m.agent.ReplySealed(ctx, m.to, []byte(text), m.agent.Client.MessageType(kind), func(in *api.Reply) {
		in.ContentType, in.Metadata, in.IdempotencyKey = "text/plain; charset=utf-8", metadata, m.key()
	})
	return err
}

// replyParts answers with parts that are not sealed.
func (m *echo) replyParts(ctx context.Context, kind string, parts []client.A2APart) error {
	text, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	inner := a2aMetadata{Cleartext: true, As: m.as}
	if len(text) <= echoInlineMax {
		inner.Parts = parts
	}
	_, err = m.agent.Client.Messages.Reply(ctx, api.Reply{
		ID: m.to.ID, ActingAgent: m.agent.ID().String(), Type: m.agent.Client.MessageType(kind), IdempotencyKey: m.key(),
		EncryptedPayload: base64.RawURLEncoding.EncodeToString(text), Metadata: inner.object(), ContentType: "application/json",
	})
	return err
}

// key is the same if the message is answered once more, after a restart.
func (m *echo) key() string {
	m.step++
	return fmt.Sprintf("echo-%s-%d", m.to.ID, m.step)
}
