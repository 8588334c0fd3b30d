package scenario

import (
	"context"
	"fmt"

	"parley/bench/result"
	"parley/bench/target"
	"parley/bench/wire"
)

// verifyReaders is the number of mailboxes that are read back concurrently.
const verifyReaders = 8

// Verify reads back every mailbox of the bench, in pages of a hundred, and compares the
// messages with the acknowledged ones. Of a cluster it reads every node, not through the
// balancer. The host's Params should have Keep set, because otherwise there is nothing to
// compare with.
func (h *Host) Verify(ctx context.Context) (*result.Verification, error) {
	if h.world == nil {
		return nil, fmt.Errorf("%s gives no inboxes to read back", h.name)
	}
	h.acknowledged.settle(h.params.keep())
	var undelivered int64
	var err error
	if h.hooks != nil { // before the mailboxes are read: that would delay deliveries
		if undelivered, err = h.lateNews(ctx); err != nil {
			return nil, fmt.Errorf("%s cannot be verified: %w", h.name, err)
		}
	}
	v, err := h.readAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be verified: %w", h.name, err)
	}
	if h.house != nil {
		if v.Commands, v.CommandsLost, err = h.recount(ctx); err != nil {
			return nil, fmt.Errorf("%s cannot be verified: %w", h.name, err)
		}
	}
	if h.hooks != nil {
		c := h.hooks.sink.catch()
		v.Deliveries, v.DeliveriesLost, v.DeliveredAgain = int64(c.accepted), undelivered, int64(c.again)
	}
	return v, nil
}

// readAll reads every mailbox, of a cluster on every node.
func (h *Host) readAll(ctx context.Context) (*result.Verification, error) {
	if len(h.door.Nodes) == 0 {
		a, err := h.readFrom(ctx, h.door.Address)
		if err != nil {
			return nil, err
		}
		return a.verdict(), nil
	}
	var all *result.Verification
	var first *audit
	for i, address := range h.door.Nodes {
		name := target.NodeName(i)
		h.note("reading %d acknowledged messages from node %s", h.Acknowledged(), name)
		a, err := h.readFrom(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		v := a.verdict()
		if all == nil {
			all, first = &result.Verification{}, a
			*all = *v
		} else {
			all.Add(v)
		}
		all.Nodes = append(all.Nodes, result.NodeVerification{
			Node: name, Found: v.Found, Missing: v.Missing, Twice: v.Twice, Altered: v.Altered, Stray: v.Stray, Reordered: v.Reordered,
			Differing: a.differing(first),
		})
	}
	return all, nil
}

// readFrom reads every mailbox at an address.
func (h *Host) readFrom(ctx context.Context, address string) (*audit, error) {
	a := h.acknowledged.audit(len(h.world.boxes))
	err := together(ctx, verifyReaders, len(h.world.boxes), func(ctx context.Context, i int) error {
		if err := h.readBack(ctx, address, h.world.boxes[i], a); err != nil {
			return fmt.Errorf("inbox of %s: %w", h.world.boxes[i].handle, err)
		}
		return nil
	})
	return a, err
}

// readBack reads one mailbox to its end.
func (h *Host) readBack(ctx context.Context, address string, owner *agent, a *audit) error {
	conn, err := wire.DialHTTP(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	cursor := ""
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
		p, err := readPage(answer.Body, func(m message) error {
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
