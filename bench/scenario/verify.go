package scenario

import (
	"context"
	"fmt"

	"parley/bench/result"
	"parley/bench/wire"
)

// verifyReaders is the number of mailboxes that are read back concurrently.
const verifyReaders = 8

// Verify reads back every mailbox of the bench, in pages of a hundred, and compares the
// messages with the acknowledged ones. The host's Params should have Keep set, because
// otherwise there is nothing to compare with.
func (h *Host) Verify(ctx context.Context) (*result.Verification, error) {
	if h.world == nil {
		return nil, fmt.Errorf("%s gives no inboxes to read back", h.name)
	}
	h.acknowledged.settle(h.params.keep())
	a := h.acknowledged.audit()
	var undelivered int64
	var err error
	if h.hooks != nil { // before the mailboxes are read: that would delay deliveries
		if undelivered, err = h.lateNews(ctx); err != nil {
			return nil, fmt.Errorf("%s cannot be verified: %w", h.name, err)
		}
	}
	err = together(ctx, verifyReaders, len(h.world.boxes), func(ctx context.Context, i int) error {
		if err := h.readBack(ctx, h.world.boxes[i], a); err != nil {
			return fmt.Errorf("inbox of %s: %w", h.world.boxes[i].handle, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be verified: %w", h.name, err)
	}
	v := a.verdict()
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

// readBack reads one mailbox to its end.
func (h *Host) readBack(ctx context.Context, owner *agent, a *audit) error {
	conn, err := wire.DialHTTP(ctx, h.door.Address)
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
