package scenario

import (
	"context"
	"math/rand/v2"

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
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		if h.Endpoint().Kind == target.NATS {
			conn, err := host.DialNATS(h.Endpoint().Address)
			if err != nil {
				return nil, err
			}
			return &host.NATSReader{NATSConn: conn, Choice: h.Choice(run, worker), Agents: h.Params.Agents}, nil
		}
		r, err := host.NewReader(ctx, h)
		if err != nil {
			return nil, err
		}
		return &reading{Reader: r, choice: h.Choice(run, worker)}, nil
	}, nil
}

// reading is the client of Inbox.
type reading struct {
	*host.Reader
	choice *rand.Rand
}

// Do implements load.Client.
func (r *reading) Do(context.Context, int, *load.Laps) error {
	_, err := r.Newest(r.choice.IntN(r.Agents))
	return err
}
