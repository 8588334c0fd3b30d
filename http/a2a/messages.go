package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/content"
	"parley/http/rest"
	"parley/http/submission"
)

const (
	// replyWait is how long SendMessage waits for a reply, unless X-A2A-Timeout says so.
	replyWait = 60 * time.Second
	// replyWaitMax is the largest X-A2A-Timeout.
	replyWaitMax = 300 * time.Second
	// gonePoll is how often a wait checks that its client is still connected.
	gonePoll = time.Second
	// eventBatch is how many events are read at a time.
	eventBatch = 32
	// idMax bounds the ids that clients choose, in bytes.
	idMax = 255
)

// sendParams are the parameters of SendMessage and SendStreamingMessage.
type sendParams struct {
	Message       *Message      `json:"message"`
	Configuration configuration `json:"configuration"`
}

type configuration struct {
	HistoryLength     *int        `json:"historyLength"`
	ReturnImmediately bool        `json:"returnImmediately"`
	Push              *pushParams `json:"taskPushNotificationConfig"`
	FormerPush        *pushParams `json:"pushNotificationConfig"` // its name in 0.3
}

// sent is a message that was stored, and the task that it belongs to.
type sent struct {
	posted actors.Posted
	from   *agent.State
	view   view
	// before is the task before the message, or at its beginning.
	before query.Moment
	// passed is set once the message was seen among the events: what follows may answer it.
	passed bool
}

// sendMessage sends a message and waits for the reply of the agent.
func (b *Bridge) sendMessage(c *call) (any, error) {
	in, patience, err := readSend(c)
	if err != nil {
		return nil, err
	}
	s, err := b.send(c, in)
	if err != nil {
		return nil, err
	}
	if !in.Configuration.ReturnImmediately {
		lone, err := b.awaitReply(c, s, patience)
		if err != nil {
			return nil, afterStored(err)
		}
		if lone != nil && c.Reserve(rest.PageFrame+3*content.Size(lone.Record)) == nil {
			return s.loneAnswer(c, lone)
		}
	}
	t, err := b.taskAfter(c, s.posted.Message.Conversation(), s.view, in.Configuration.HistoryLength)
	return sendResult{Task: t}, afterStored(err)
}

// loneAnswer answers with the message that the agent has answered instead of a task.
func (s *sent) loneAnswer(c *call, lone *query.Message) (any, error) {
	if !c.Gone() {
		if err := s.view.bridge.transfer(c.Context(), c.Now(), s.view, []query.Message{*lone}); err != nil {
			return nil, afterStored(err)
		}
	}
	m := s.view.message(lone.Record)
	m.TaskID = ""
	return sendResult{Message: m}, nil
}

// readSend reads and checks the parameters of a send.
func readSend(c *call) (in *sendParams, patience time.Duration, err error) {
	if c.Caller.Tier < 1 {
		return nil, 0, rest.ErrTier
	}
	if in, err = params[sendParams](c); err != nil {
		return nil, 0, err
	}
	m := in.Message
	switch {
	case m == nil:
		return nil, 0, invalid("message", "is required")
	case len(m.Kind) > 0:
		return nil, 0, invalid("message.kind", "is of A2A 0.3; send the shapes of 1.0")
	case m.MessageID == "":
		return nil, 0, invalid("message.messageId", "is required")
	case m.Role != roleUser:
		return nil, 0, invalid("message.role", "must be "+roleUser+": requests come from the user's side")
	case len(m.Metadata) > 0 && m.Metadata.Kind() != '{' && m.Metadata.Kind() != 'n':
		return nil, 0, invalid("message.metadata", "must be an object")
	}
	for _, id := range []struct{ field, value string }{{"messageId", m.MessageID}, {"taskId", m.TaskID}, {"contextId", m.ContextID}} {
		if len(id.value) > idMax {
			return nil, 0, invalid("message."+id.field, fmt.Sprintf("takes more than %d bytes", idMax))
		}
	}
	if err := checkHistory("configuration.historyLength", in.Configuration.HistoryLength); err != nil {
		return nil, 0, err
	}
	patience = replyWait
	if c.in.Timeout != "" {
		seconds, err := strconv.Atoi(strings.TrimSpace(c.in.Timeout))
		if err != nil || seconds < 1 || seconds > int(replyWaitMax/time.Second) {
			return nil, 0, invalid("X-A2A-Timeout", "must be a number of seconds from 1 to 300")
		}
		patience = time.Duration(seconds) * time.Second
	}
	return in, patience, nil
}

func checkHistory(field string, n *int) error {
	if n != nil && *n < 0 {
		return invalid(field, "must not be negative")
	}
	return nil
}

// send stores the message of a request, and the push notification configuration that it
// brings, which is checked before.
func (b *Bridge) send(c *call, in *sendParams) (sent, error) {
	p, err := b.inlinePush(c, in)
	if err != nil {
		return sent{}, err
	}
	s, err := b.store(c, in)
	if err == nil && p != nil {
		_, err = b.setPush(c.Context(), p, s.before.State, s.before.Event)
		err = afterStored(err)
	}
	return s, err
}

// store stores the message of a request: it begins a task, or continues one.
func (b *Bridge) store(c *call, in *sendParams) (sent, error) {
	parts, compact, err := readParts(in.Message.Parts)
	if err != nil {
		return sent{}, err
	}
	sealed, err := b.sealedIn(parts)
	if err != nil {
		return sent{}, err
	}
	m := &outgoing{text: in.Message, parts: compact, sealed: sealed}
	if sealed == nil {
		if err := checkClear(compact); err != nil {
			return sent{}, err
		}
		policy, err := b.Cards.policyOf(c.Context(), c.to)
		if err != nil {
			return sent{}, err
		}
		m.unsupported = policy.judge(parts)
	}
	if in.Message.TaskID != "" {
		return b.follow(c, in, m)
	}
	return b.begin(c, in, m)
}

// begin starts a task.
func (b *Bridge) begin(c *call, in *sendParams, m *outgoing) (sent, error) {
	metadata, err := m.metadata()
	if err != nil {
		return sent{}, err
	}
	to := c.to.AgentID()
	send := &api.Send{ToAgentID: &to, Type: b.Brand + ".v1." + submission.TaskRequest, ContentType: rest.JSONMedia, Metadata: metadata, IdempotencyKey: m.key(to)}
	send.EncryptedPayload, send.EncryptionVersion, send.SenderSigningKid = m.payload()
	out := sent{passed: true}
	if in.Message.ContextID != "" {
		if send.ParentConversationID, out.from, err = b.within(c, in.Message.ContextID); err != nil {
			return sent{}, err
		}
	}
	if c.in.ActingAgent != "" || out.from == nil {
		if out.from, err = b.sender(c); err != nil {
			return sent{}, err
		}
	}
	out.posted, err = b.Desk.SendTask(c.Call, send, out.from, m.task(in.Message.ContextID))
	if err = m.failed(b, out.posted, err); err != nil {
		return sent{}, err
	}
	id := out.posted.Message.Conversation()
	if out.before, err = b.Node.Messages.ConversationAt(c.Context(), id, 0, 0, nil); err != nil {
		return sent{}, err
	}
	if out.view, err = b.viewOf(c.Context(), out.before.State); err != nil || send.ParentConversationID == nil {
		return out, err
	}
	if out.view.waiting, err = b.waiting(c, out.posted.Message, *send.ParentConversationID); err != nil {
		b.Logger.Warn("a new task cannot name those that wait for input", "request_id", c.RequestID(), "error", err)
	}
	return out, nil
}

// within returns the conversation that a context id names, which has to be the root of
// conversations of the caller, and the caller's agent in it.
func (b *Bridge) within(c *call, contextID string) (*parley.ConversationID, *agent.State, error) {
	unknown := invalid("message.contextId", "is no context of yours; leave it out to begin one")
	id, err := parley.ParseID[parley.ConversationID](contextID)
	if err != nil {
		return nil, nil, unknown
	}
	root, err := b.Node.Messages.Conversation(c.Context(), id)
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrGone) {
		return nil, nil, unknown
	}
	if err != nil {
		return nil, nil, err
	}
	if top, err := b.contextOf(c.Context(), c.Caller.Org, root); err != nil || top != id {
		return nil, nil, cmp.Or(err, error(unknown))
	}
	for _, p := range root.GetParticipants() {
		a, err := b.Node.Agents.Get(c.Context(), p.Agent())
		if err != nil {
			return nil, nil, err
		}
		if c.Caller.Owns(a.Owner(), a.AgentID()) {
			if a.Revoked() || a.AgentID() == c.to.AgentID() {
				a = nil
			}
			return &id, a, nil
		}
	}
	return nil, nil, unknown
}

// sender returns the agent that the header names, else the caller's first active agent that
// is not the addressed one.
func (b *Bridge) sender(c *call) (*agent.State, error) {
	if c.in.ActingAgent != "" {
		return b.Agents.Acting(c.Call, c.in.ActingAgent)
	}
	first, err := b.Agents.ActingOrFirst(c.Call, "")
	if err != nil || first.AgentID() != c.to.AgentID() {
		return first, err
	}
	var other *agent.State
	err = b.Agents.EachActive(c.Call, 0, func(_ uint64, a *agent.State) bool {
		if a.AgentID() == c.to.AgentID() {
			return true
		}
		other = a
		return false
	})
	if err == nil && other == nil {
		err = access.ErrAgentRequired.With("candidates", []string{})
	}
	return other, err
}

// follow continues a task on behalf of the agent that began it.
func (b *Bridge) follow(c *call, in *sendParams, m *outgoing) (sent, error) {
	state, err := b.visible(c, in.Message.TaskID)
	if err != nil {
		return sent{}, err
	}
	out := sent{}
	if out.view, err = b.viewOf(c.Context(), state); err != nil {
		return sent{}, err
	}
	if in.Message.ContextID != "" && in.Message.ContextID != out.view.in {
		return sent{}, invalid("message.contextId", "is not the context of the task")
	}
	if out.before, err = b.Node.Messages.ConversationAt(c.Context(), state.ConversationID(), query.Latest, 0, nil); err != nil {
		return sent{}, err
	}
	metadata, err := m.metadata()
	if err != nil {
		return sent{}, err
	}
	if out.from, err = b.Node.Agents.Get(c.Context(), state.Initiator()); err != nil {
		return sent{}, err
	}
	if out.from.Revoked() {
		return sent{}, access.ErrActingAgent
	}
	original, err := b.Node.Messages.GetRecord(c.Context(), state.LastMessage().Slot(), state.LastMessage())
	if original, err = submission.Readable(c.Call, original, err); err != nil {
		return sent{}, err
	}
	reply := &api.Reply{
		Type: b.Brand + ".v1." + submission.TaskRequest, ContentType: rest.JSONMedia, Metadata: metadata, IdempotencyKey: m.key(c.to.AgentID()),
	}
	reply.EncryptedPayload, reply.EncryptionVersion, reply.SenderSigningKid = m.payload()
	out.posted, err = b.Desk.Continue(c.Call, reply, original, out.from, c.to, submission.ViaA2A, m.task(out.view.in))
	switch err = m.failed(b, out.posted, err); {
	case errors.Is(err, conversation.ErrClosed):
		return sent{}, errEnded
	case err == nil && out.posted.Repeated: // it may have been answered long ago
		out.before, err = b.Node.Messages.ConversationAt(c.Context(), state.ConversationID(), 0, 0, nil)
	}
	return out, err
}

// taskNow renders a task as it is, and records that the agent's messages in it reached the
// initiator.
func (b *Bridge) taskNow(c *call, id parley.ConversationID, v view, history *int) (*Task, error) {
	m, err := b.moment(c.Call, id, query.Latest)
	if err != nil {
		return nil, err
	}
	if !c.Gone() {
		if err := b.transfer(c.Context(), c.Now(), v, messagesOf(&m)); err != nil {
			return nil, err
		}
	}
	return v.task(&m, history), nil
}

// taskAfter is taskNow for a request that has changed the task: if the caller holds too much
// memory for the messages, it answers without them, because the change is made.
func (b *Bridge) taskAfter(c *call, id parley.ConversationID, v view, history *int) (*Task, error) {
	t, err := b.taskNow(c, id, v, history)
	if !errors.Is(err, rest.ErrHeld) {
		return t, err
	}
	m, err := b.Node.Messages.ConversationAt(c.Context(), id, query.Latest, 0, nil)
	if err != nil {
		return nil, parley.ErrOutcomeUnknown
	}
	return v.task(&m, history), nil
}

// transfer records that messages of the agent reached the initiator.
func (b *Bridge) transfer(ctx context.Context, now time.Time, v view, messages []query.Message) error {
	var theirs []query.Message
	for _, m := range messages {
		if m.Record.Sender() == v.responder && m.Receipts.TransferredAt == 0 {
			theirs = append(theirs, m)
		}
	}
	return b.Transferred(ctx, now, theirs)
}

// messagesOf returns all messages of a moment, each once: the artifacts before the latest messages,
// and these.
func messagesOf(m *query.Moment) []query.Message {
	older := m.Artifacts
	if len(m.Messages) > 0 {
		first := m.Messages[0].Record.MessageID() // ids ascend
		older = older[:sort.Search(len(older), func(i int) bool {
			id := older[i].Record.MessageID()
			return bytes.Compare(id[:], first[:]) >= 0
		})]
	}
	return slices.Concat(older, m.Messages)
}

// moment reads a task with its newest artifacts and its latest messages, within 1 MiB and the
// memory that the caller may hold. query.Messages.TaskAt says what that costs.
func (b *Bridge) moment(c *rest.Call, id parley.ConversationID, at uint64) (query.Moment, error) {
	return b.Node.Messages.TaskAt(c.Context(), id, at, historyMax, fitsTask(c.Reserve))
}

// fitsTask lets messages into a task as long as its JSON takes at most 1 MiB, or has one message.
// The first may be shown twice, as that of the status and in the history. reserve gets the memory
// that they and the answer take.
func fitsTask(reserve func(int) error) query.Fits {
	size, first := rest.PageFrame, true
	return func(r *record.Message) (bool, error) {
		n := content.Size(r)
		if first {
			n *= 2
		}
		if !first && size+n > parley.PageBytesMax {
			return false, nil
		}
		first = false
		size += n
		return true, reserve(2 * size)
	}
}
