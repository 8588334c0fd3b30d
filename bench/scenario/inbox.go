package scenario

import (
	"context"

	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

// inbox is Inbox.
type inbox struct{ host *host.Host }

// Prepare implements Load.
func (x *inbox) Prepare(ctx context.Context, _ int) (load.Dial, error) {
	h := x.host
	if err := h.Fill(ctx); err != nil {
		return nil, err
	}
	if h.Endpoint().Kind != target.NATS {
		workers := h.Workers()
		return h.Clients(func(c *host.Client, _ *load.Parts) error {
			return c.Newest(workers[c.Choice.IntN(len(workers))])
		}), nil
	}
	run := h.NextRun()
	return func(_ context.Context, worker int) (load.Client, error) {
		conn, err := host.DialNATS(h.Endpoint().Address)
		if err != nil {
			return nil, err
		}
		return &host.NATSReader{NATSConn: conn, Choice: h.Choice(run, worker), Agents: h.Params.Agents}, nil
	}, nil
}
