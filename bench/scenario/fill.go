package scenario

import (
	"context"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
)

const (
	// fillPart bounds the operations under one token, and the number of acknowledged messages
	// that one run records.
	fillPart = 250_000
	// inTurnWindows is how many windows each of two servers gets, in turn.
	inTurnWindows = 3
)

// inParts performs n operations as fast as the target accepts them, in parts, each of which is
// prepared and settled separately.
func inParts(ctx context.Context, h *host.Host, what string, clients int, n int64, prepare func(part int64) (load.Dial, error), settle func() error) (sum load.Measurement, err error) {
	for left := n; left > 0; {
		part := min(left, fillPart)
		dial, err := prepare(part)
		if err != nil {
			return sum, err
		}
		m, err := load.Run(ctx, load.Plan{Clients: int(min(int64(clients), part)), Operations: part}, dial, nil)
		if m != nil {
			sum.Add(m)
		}
		if settled := settle(); err == nil {
			err = settled
		}
		if err != nil {
			return sum, err
		}
		left -= part
		h.Note("%d of %d %s", n-left, n, what)
	}
	return sum, nil
}

// inTurn measures sends to two servers in turn.
func inTurn(ctx context.Context, plan load.Plan, meter host.Meter, servers [2]*Set, watch load.Watch) ([2]host.Turns, *load.Measurement, error) {
	var prepare [2]func(context.Context, int) (load.Dial, error)
	for i, server := range servers {
		prepare[i] = func(ctx context.Context, clients int) (load.Dial, error) { return server.Prepare(ctx, Send, clients) }
	}
	return host.InTurn(ctx, plan, meter, inTurnWindows, prepare, watch, func(i int) error { return servers[i].SettleUnmeasured() })
}

// opened records when a window opens.
type opened struct {
	load.Watch
	at    time.Time
	begun chan struct{}
}

// Begin implements load.Watch.
func (o *opened) Begin() {
	o.at = time.Now()
	o.Watch.Begin()
	close(o.begun)
}
