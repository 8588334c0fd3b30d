package scenario

import (
	"context"
	"math/rand/v2"

	"parley/bench/load"
	"parley/bench/target"
)

// inbox is Inbox.
type inbox struct{ host *Host }

// Prepare implements Load.
func (x *inbox) Prepare(ctx context.Context, _ int) (load.Dial, error) {
	h := x.host
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		if h.Endpoint().Kind == target.NATS {
			conn, err := dialNATS(h.Endpoint().Address)
			if err != nil {
				return nil, err
			}
			return &natsReading{natsConn: conn, choice: h.choice(run, worker), agents: h.params.Agents}, nil
		}
		r, err := newReader(ctx, h)
		if err != nil {
			return nil, err
		}
		return &reading{reader: r, choice: h.choice(run, worker)}, nil
	}, nil
}

// reading is the client of Inbox.
type reading struct {
	*reader
	choice *rand.Rand
}

// Do implements load.Client.
func (r *reading) Do(context.Context, int, *load.Laps) error {
	_, err := r.newest(r.choice.IntN(r.agents))
	return err
}
