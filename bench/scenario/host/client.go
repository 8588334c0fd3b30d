package host

import (
	"context"
	"math/rand/v2"

	"parley/bench/load"
)

// Client is a client of a run: one connection, and what its operations need.
type Client struct {
	*Caller
	Worker int
	// Key is that of the operation in progress.
	Key    Key
	Choice *rand.Rand
	do     func(c *Client, parts *load.Parts) error
}

// Clients begins a run and returns the Dial of clients whose operations are do.
func (h *Host) Clients(do func(c *Client, parts *load.Parts) error) load.Dial {
	return h.ClientsInto(&h.Log, do)
}

// ClientsInto is Clients for messages that are recorded in another log.
func (h *Host) ClientsInto(log *Log, do func(c *Client, parts *load.Parts) error) load.Dial {
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.CallerInto(ctx, log)
		if err != nil {
			return nil, err
		}
		return &Client{c, worker, Key{Run: run, Worker: uint32(worker)}, h.Choice(run, worker), do}, nil
	}
}

// Do implements load.Client.
func (c *Client) Do(_ context.Context, n int, parts *load.Parts) error {
	c.Key.N, c.Key.Kind = uint32(n), 0
	return c.do(c, parts)
}
