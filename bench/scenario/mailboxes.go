package scenario

import (
	"context"
	"fmt"
	"sync/atomic"

	"parley/bench/result"
	"parley/bench/target"
	"parley/bench/wire"
)

// verifyReaders is the number of mailboxes that are read back concurrently.
const verifyReaders = 8

// readMailboxes reads every mailbox, of a cluster on every node.
func readMailboxes(ctx context.Context, h *Host) (*result.Verification, error) {
	if len(h.endpoint.Nodes) == 0 {
		a, err := readFrom(ctx, h, h.endpoint.Address)
		if err != nil {
			return nil, err
		}
		return a.verdict(), nil
	}
	var all result.Verification
	var first *audit
	for i, address := range h.endpoint.Nodes {
		name := target.NodeName(i)
		h.note("reading %d acknowledged messages from node %s", h.Acknowledged(), name)
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
func readFrom(ctx context.Context, h *Host, address string) (*audit, error) {
	a := h.acknowledged.audit(len(h.world.boxes))
	err := together(ctx, verifyReaders, len(h.world.boxes), func(ctx context.Context, i int) error {
		if err := readBack(ctx, h, address, h.world.boxes[i], a); err != nil {
			return fmt.Errorf("inbox of %s: %w", h.world.boxes[i].handle, err)
		}
		return nil
	})
	return a, err
}

// readBack reads one mailbox to its end.
func readBack(ctx context.Context, h *Host, address string, owner *agent, a *audit) error {
	conn, err := wire.DialHTTP(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	cursor := ""
	var pages answers
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		token, err := owner.org.client.Token(ctx) // a new token if the old one is about to expire
		if err != nil {
			return err
		}
		path := "/agents/" + owner.id.String() + "/messages?limit=100" + cursor
		answer, err := conn.Do(wire.Request("GET", path, token, nil, nil))
		if err != nil {
			return err
		}
		if answer.Status != 200 {
			err, _ := refusal(answer)
			return err
		}
		p, err := pages.readPage(answer.Body, func(m message) error {
			key, sound := h.payloads.read(m.payload)
			a.read(m.id, key, sound, owner.box)
			return nil
		})
		switch {
		case err != nil:
			return err
		case !p.hasMore:
			return nil
		case len(p.cursor) == 0:
			return wrong("more messages and no cursor to them")
		}
		cursor = "&cursor=" + escapeCursor(p.cursor)
	}
}

// readSample reads each message that Params.Sample kept, by its id.
func readSample(ctx context.Context, h *Host) (*result.Verification, error) {
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	entries := h.acknowledged.entries
	var found, missing, altered atomic.Int64
	err := h.aside(ctx, verifyReaders, func(conn *wire.HTTP, reader, readers int) error {
		for i := reader; i < len(entries); i += readers {
			kept, err := h.lookUp(conn, entries[i])
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
		}
		return ctx.Err()
	})
	return &result.Verification{
		Acknowledged: int64(len(entries)), SampleOf: h.acknowledged.count,
		Found: found.Load(), Missing: missing.Load(), Altered: altered.Load(),
	}, err
}

// lookUp reports whether a message is as it was sent; nil means that it is missing.
func (h *Host) lookUp(conn *wire.HTTP, e entry) (kept *bool, err error) {
	answer, err := conn.Do(wire.Request("GET", "/messages/"+e.id.String(), h.world.acme.token, nil, nil))
	if err != nil {
		return nil, err
	}
	if answer.Status == 404 {
		return nil, nil
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return nil, err
	}
	m, err := readMessage(answer.Body)
	if err != nil {
		return nil, err
	}
	key, sound := h.payloads.read(m.payload)
	same := m.id == e.id && sound && key == e.key && string(m.toAgent) == h.world.boxes[e.box].id.String()
	return &same, nil
}
