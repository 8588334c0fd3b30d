package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Messages makes the calls about messages and conversations.
type Messages struct {
	// Get returns one message. This marks it as delivered if the organization owns the
	// recipient, and as read if the recipient is the acting agent.
	Get Call[api.GetMessage, api.Message] `call:"GET /messages/{id}"`
	// Read marks a message as read, for the organization that owns its recipient, and
	// returns it.
	Read Call[parley.MessageID, api.Message] `call:"POST /messages/{id}/read repeatable"`
	// Ack marks messages that the agent in.ID received as read: those of in.IDs, or all up to
	// in.UpTo.
	Ack Call[api.Ack, api.Acked] `call:"POST /agents/{id}/messages/ack repeatable"`
	// Trace returns the attempts to deliver a message, and why it is not delivered yet.
	Trace Call[parley.MessageID, api.Traced] `call:"GET /messages/{id}/trace"`
	// Inbox returns a page of the messages that the agent in.ID received, newest first. The
	// messages it transfers count as delivered.
	Inbox Call[api.Inbox, api.Page[api.Message]] `call:"GET /agents/{id}/messages"`
	// Transcript returns a page of both sides of the conversation in.ID, oldest first unless
	// in.Order is desc.
	Transcript Call[api.Transcript, api.Page[api.Message]] `call:"GET /conversations/{id}/messages"`
	// Conversation returns one conversation's record.
	Conversation Call[parley.ConversationID, api.Conversation] `call:"GET /conversations/{id}"`
	// Participants returns the participants of a conversation.
	Participants List[parley.ConversationID, api.Participant] `call:"GET /conversations/{id}/participants"`
	// SetStatus changes the status of the conversation in.ID.
	SetStatus Call[api.StatusPatch, api.Conversation] `call:"PATCH /conversations/{id}/status"`
	// Conversations returns a page of the conversations the agent in.ID takes part in, newest
	// first.
	Conversations Call[api.AgentConversations, api.Page[api.Conversation]] `call:"GET /agents/{id}/conversations"`
	// Receipt returns the signed statement of the server that it accepted a message. See
	// package receipts.
	Receipt Call[parley.MessageID, api.MessageReceipt] `call:"GET /messages/{id}/receipt"`

	s *Session
	// sign returns the signature of a body; nil if bodies are not signed.
	sign func(body []byte) string
}

// Signed returns Messages whose sends and replies carry the signature that sign makes of
// their bodies.
func (m Messages) Signed(sign func(body []byte) string) Messages {
	m.sign = sign
	return m
}

// SentMessage is the answer to a send or a reply.
type SentMessage struct {
	api.Message
	// Replayed reports that the Idempotency-Key had been used before: this is the stored
	// message, and nothing was sent again.
	Replayed bool
}

// Send sends a message unchanged. Without an idempotency key in in, the client generates
// one, so that a retry after a lost answer sends nothing twice.
func (m Messages) Send(ctx context.Context, in api.Send) (*SentMessage, error) {
	return m.sent(ctx, post("/messages"), in)
}

// Reply answers the message in.ID in its conversation.
func (m Messages) Reply(ctx context.Context, in api.Reply) (*SentMessage, error) {
	return m.sent(ctx, post("/messages/{id}/reply"), in)
}

func (m Messages) sent(ctx context.Context, r route, in any) (*SentMessage, error) {
	k := m.s.call(r.idempotent(), in)
	k.sign = m.sign
	var out SentMessage
	header, err := m.s.do(ctx, k, &out.Message)
	if err != nil {
		return nil, err
	}
	out.Replayed = header.Get("Idempotency-Replayed") == "true"
	return &out, nil
}

// Sync sends a message and waits for its reply, for at most in.TimeoutMS.
func (m Messages) Sync(ctx context.Context, in api.Sync) (*api.SyncResult, error) {
	k := m.s.call(post("/messages/sync").idempotent(), in)
	k.sign, k.wait = m.sign, millisOr(in.TimeoutMS, parley.SyncTimeoutDefault)
	return perform[api.SyncResult](ctx, m.s, k)
}

func millisOr(ms int, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func randomKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// waitTimeoutDefault is how long the server waits by default.
const waitTimeoutDefault = 30 * time.Second

// Wait returns messages to the agent in.ID, oldest first, as soon as there are any, or
// none after in.TimeoutMS. To continue, pass the After of the answer.
func (m Messages) Wait(ctx context.Context, in api.Wait) (*api.Waited, error) {
	r := get("/agents/{id}/wait")
	r.wait = millisOr(in.TimeoutMS, waitTimeoutDefault)
	return fetch[api.Waited](ctx, m.s, r, in)
}
