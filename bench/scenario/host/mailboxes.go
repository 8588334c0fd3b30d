package host

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	"parley/bench/result"
	"parley/bench/target"
	"parley/bench/wire"
)

// VerifyReaders is the number of mailboxes that are read back concurrently.
const VerifyReaders = 8

// ReadMailboxes reads every mailbox, of a cluster on every node.
func ReadMailboxes(ctx context.Context, h *Host) (*result.Verification, error) {
	if len(h.endpoint.Nodes) == 0 {
		a, err := readFrom(ctx, h, h.endpoint.Address)
		if err != nil {
			return nil, err
		}
		return a.verdict(), nil
	}
	var all result.Verification
	var first *comparison
	for i, address := range h.endpoint.Nodes {
		name := target.NodeName(i)
		h.Note("reading %d acknowledged messages from node %s", h.Acknowledged(), name)
		a, err := readFrom(ctx, h, address)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		v := *a.verdict()
		v.Node = name
		if first == nil {
			all, first = v, a
			all.Node, all.Nodes = "", []result.Verification{v}
			continue
		}
		v.Differing = a.differing(first)
		all.Add(v)
	}
	return &all, nil
}

// readFrom reads every mailbox at an address.
func readFrom(ctx context.Context, h *Host, address string) (*comparison, error) {
	a := h.Log.compare(len(h.Deployment.Mailboxes))
	err := Concurrently(ctx, VerifyReaders, len(h.Deployment.Mailboxes), func(ctx context.Context, i int) error {
		owner := h.Deployment.Mailboxes[i]
		err := ReadInbox(ctx, address, owner, func(m Message) error {
			key, sound := h.Payloads.Read(m.Payload)
			a.Read(m.ID, key, sound, owner.Mailbox)
			return nil
		})
		if err != nil {
			return fmt.Errorf("inbox of %s: %w", owner.Handle, err)
		}
		return nil
	})
	return a, err
}

// ErrEnough ends ReadInbox.
var ErrEnough = errors.New("no further messages are needed")

// ReadInbox passes the messages of an agent's inbox at an address to each, newest first, until the
// inbox ends or each returns an error.
func ReadInbox(ctx context.Context, address string, owner *Agent, each func(Message) error) error {
	conn, err := wire.DialHTTP(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var pages answers
	for cursor := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		token, err := owner.Org.Client.Token(ctx) // a new token if the old one is about to expire
		if err != nil {
			return err
		}
		body, err := Get(conn, "/agents/"+owner.ID.String()+"/messages?limit=100"+cursor, token)
		if err != nil {
			return err
		}
		p, err := pages.readPage(body, each)
		switch {
		case errors.Is(err, ErrEnough):
			return nil
		case err != nil:
			return err
		case !p.HasMore:
			return nil
		case len(p.Cursor) == 0:
			return Wrong("more messages and no cursor to them")
		}
		cursor = "&cursor=" + url.QueryEscape(p.Cursor)
	}
}

// ReadSample reads each message that Params.Sample kept, by its id.
func ReadSample(ctx context.Context, h *Host) (*result.Verification, error) {
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	entries := h.Log.Entries
	var found, missing, altered atomic.Int64
	err := h.OnConnections(ctx, VerifyReaders, len(entries), func(c *Caller, i int) error {
		kept, err := h.lookUp(c.Conn, entries[i])
		switch {
		case err != nil:
			return err
		case kept == nil:
			missing.Add(1)
		case *kept:
			found.Add(1)
		default:
			altered.Add(1)
		}
		return nil
	})
	return &result.Verification{
		Acknowledged: int64(len(entries)), SampleOf: h.Log.Count,
		Found: found.Load(), Missing: missing.Load(), Altered: altered.Load(),
	}, err
}

// lookUp reports whether a message is as it was sent; nil means that it is missing.
func (h *Host) lookUp(conn *wire.HTTP, e Entry) (kept *bool, err error) {
	answer, err := conn.Call("GET", "/messages/"+e.ID.String(), h.Deployment.ReceivingOrg.Token, nil, nil)
	if err != nil {
		return nil, err
	}
	if answer.Status == 404 {
		return nil, nil
	}
	if answer.Status != 200 {
		err, _ := Refusal(answer)
		return nil, err
	}
	m, err := ReadMessage(answer.Body)
	if err != nil {
		return nil, err
	}
	key, sound := h.Payloads.Read(m.Payload)
	same := m.ID == e.ID && sound && key == e.Key && string(m.toAgent) == h.Deployment.Mailboxes[e.Mailbox].ID.String()
	return &same, nil
}
