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

// inTurn measures sends to two servers in turn, so that a moment in which the machine is slow
// hits both. It returns the sums of their windows, and the last window of the second, which the
// watch observes; it may be nil.
func inTurn(ctx context.Context, plan load.Plan, meter host.Meter, servers [2]*Set, watch load.Watch) (sums [2]load.Measurement, last *load.Measurement, err error) {
	for n := range inTurnWindows {
		for i, server := range servers {
			dial, err := server.Prepare(ctx, Send, plan.Clients)
			if err != nil {
				return sums, nil, err
			}
			var observer load.Watch
			if i == 1 && n == inTurnWindows-1 {
				observer = watch
			}
			meter.Settle(ctx)
			if last, err = load.Run(ctx, plan, dial, observer); err != nil {
				return sums, nil, err
			}
			sums[i].Add(last)
			if err := server.SettleUnmeasured(); err != nil {
				return sums, nil, err
			}
		}
	}
	return sums, last, nil
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
