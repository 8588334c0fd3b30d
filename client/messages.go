package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// SentMessage is the answer to a send or a reply.
type SentMessage struct {
	api.Message
	// Replayed reports that the Idempotency-Key had been used before: this is the stored
	// message, and nothing was sent again.
	Replayed bool
}

// Send sends a message unchanged. If in has no idempotency key, the client generates one,
// so that a retry after a lost answer sends nothing twice.
func (c *Client) Send(ctx context.Context, in api.Send) (*SentMessage, error) {
	return c.send(ctx, in, nil)
}

func (c *Client) send(ctx context.Context, in api.Send, sign func([]byte) string) (*SentMessage, error) {
	k := call{method: http.MethodPost, path: "/messages", in: in, sign: sign, repeatable: true}
	k.header = c.sendHeader(in.IdempotencyKey, in.ActingAgent, in.MessageSignature)
	return c.sent(ctx, k)
}

// Reply answers the message in.ID in its conversation.
func (c *Client) Reply(ctx context.Context, in api.Reply) (*SentMessage, error) {
	return c.reply(ctx, in, nil)
}

func (c *Client) reply(ctx context.Context, in api.Reply, sign func([]byte) string) (*SentMessage, error) {
	k := call{method: http.MethodPost, path: "/messages/" + in.ID.String() + "/reply", in: in, sign: sign, repeatable: true}
	k.header = c.sendHeader(in.IdempotencyKey, in.ActingAgent, in.MessageSignature)
	return c.sent(ctx, k)
}

func (c *Client) sent(ctx context.Context, k call) (*SentMessage, error) {
	var out SentMessage
	header, err := c.do(ctx, k, &out.Message)
	if err != nil {
		return nil, err
	}
	out.Replayed = header.Get("Idempotency-Replayed") == "true"
	return &out, nil
}

// Sync sends a message and waits for its reply, for at most in.TimeoutMS.
func (c *Client) Sync(ctx context.Context, in api.Sync) (*api.SyncResult, error) {
	return c.sync(ctx, in, nil)
}

func (c *Client) sync(ctx context.Context, in api.Sync, sign func([]byte) string) (*api.SyncResult, error) {
	k := call{method: http.MethodPost, path: "/messages/sync", in: in.Send, sign: sign, repeatable: true}
	k.header = c.sendHeader(in.IdempotencyKey, in.ActingAgent, in.MessageSignature)
	wait := parley.SyncTimeoutDefault
	if in.TimeoutMS != 0 {
		wait = time.Duration(in.TimeoutMS) * time.Millisecond
		k.query = url.Values{"timeout_ms": {strconv.Itoa(in.TimeoutMS)}}
	}
	k.timeout = wait + c.timeout
	return fetch[api.SyncResult](ctx, c, k)
}

func (c *Client) sendHeader(key, agent string, signature *string) http.Header {
	if key == "" {
		key = randomKey()
	}
	h := http.Header{}
	h.Set("Idempotency-Key", key)
	c.setHeader(h, "Agent", agent)
	if signature != nil {
		h.Set(c.header("Message-Signature"), *signature)
	}
	return h
}

func (c *Client) setHeader(h http.Header, name, value string) {
	if value != "" {
		h.Set(c.header(name), value)
	}
}

func randomKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// Message returns one message. This marks it as delivered if the organization owns the
// recipient, and as read if the recipient is the acting agent.
func (c *Client) Message(ctx context.Context, in api.GetMessage) (*api.Message, error) {
	k := get("/messages/" + in.ID.String())
	k.header = http.Header{}
	c.setHeader(k.header, "Agent", in.ActingAgent)
	return fetch[api.Message](ctx, c, k)
}

// Inbox returns a page of the messages that the agent in.ID received, newest first. The
// messages it transfers count as delivered.
func (c *Client) Inbox(ctx context.Context, in api.Inbox) (*api.Page[api.Message], error) {
	k := get("/agents/" + in.ID.String() + "/messages")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	setText(k.query, "type", in.Type)
	return fetch[api.Page[api.Message]](ctx, c, k)
}

// InboxAll returns all messages that the agent in.ID received, newest first, starting at
// in.Cursor. It ends after the first error.
func (c *Client) InboxAll(ctx context.Context, in api.Inbox) iter.Seq2[api.Message, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.Message], error) {
		in.Cursor = cursor
		return c.Inbox(ctx, in)
	})
}

// Transcript returns a page of both sides of the conversation in.ID.
func (c *Client) Transcript(ctx context.Context, in api.Transcript) (*api.Page[api.Message], error) {
	k := get("/conversations/" + in.ID.String() + "/messages")
	k.query, k.header = url.Values{}, http.Header{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	if in.Order != "" {
		k.query.Set("order", in.Order)
	}
	c.setHeader(k.header, "Agent", in.ActingAgent)
	return fetch[api.Page[api.Message]](ctx, c, k)
}

// TranscriptAll returns the whole conversation, oldest first unless in.Order is desc. It
// ends after the first error.
func (c *Client) TranscriptAll(ctx context.Context, in api.Transcript) iter.Seq2[api.Message, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.Message], error) {
		in.Cursor = cursor
		return c.Transcript(ctx, in)
	})
}

// Conversation returns one conversation's record.
func (c *Client) Conversation(ctx context.Context, id parley.ConversationID) (*api.Conversation, error) {
	return fetch[api.Conversation](ctx, c, get("/conversations/"+id.String()))
}

// Participants returns the participants of a conversation.
func (c *Client) Participants(ctx context.Context, id parley.ConversationID) ([]api.Participant, error) {
	out, err := fetch[[]api.Participant](ctx, c, get("/conversations/"+id.String()+"/participants"))
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// SetStatus changes the status of the conversation in.ID.
func (c *Client) SetStatus(ctx context.Context, in api.StatusPatch) (*api.Conversation, error) {
	k := call{method: http.MethodPatch, path: "/conversations/" + in.ID.String() + "/status", in: in, header: http.Header{}}
	c.setHeader(k.header, "Agent", in.ActingAgent)
	return fetch[api.Conversation](ctx, c, k)
}

// Conversations returns a page of the conversations the agent in.ID takes part in, newest
// first.
func (c *Client) Conversations(ctx context.Context, in api.AgentConversations) (*api.Page[api.Conversation], error) {
	k := get("/agents/" + in.ID.String() + "/conversations")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	return fetch[api.Page[api.Conversation]](ctx, c, k)
}

// ConversationsAll returns all conversations of the agent in.ID, newest first. It ends
// after the first error.
func (c *Client) ConversationsAll(ctx context.Context, in api.AgentConversations) iter.Seq2[api.Conversation, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.Conversation], error) {
		in.Cursor = cursor
		return c.Conversations(ctx, in)
	})
}

// pages iterates over all rows of a list. It stops when has_more is false: a transcript's
// cursor never ends.
func pages[T any](cursor *string, page func(*string) (*api.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for next := cursor; ; {
			p, err := page(next)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range p.Items {
				if !yield(row, nil) {
					return
				}
			}
			if !p.HasMore || p.NextCursor == nil {
				return
			}
			next = p.NextCursor
		}
	}
}
