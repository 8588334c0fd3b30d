package scenario

import (
	"context"
	"sync"
	"time"

	"parley/bench/load"
)

// Outage finds the first message that is acknowledged after a fault. Its methods may be
// called concurrently.
type Outage struct {
	mu    sync.Mutex
	since time.Time
	first chan time.Time
}

// Begin says that something failed before now, and returns a channel that gets the time of the
// first 201 to a request that was sent later. An answer to an earlier request may have been
// under way when it failed, so it proves nothing.
func (o *Outage) Begin() <-chan time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since, o.first = time.Now(), make(chan time.Time, 1)
	return o.first
}

// acknowledged notes a 201 to a request that was sent at a time.
func (o *Outage) acknowledged(sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first != nil && sent.After(o.since) {
		o.first <- time.Now()
		o.first = nil
	}
}

// surviving is the client of Failover.
type surviving struct {
	load.Client
	outage *Outage
}

// Do implements load.Client.
func (s surviving) Do(ctx context.Context, n int, laps *load.Laps) error {
	sent := time.Now()
	err := s.Client.Do(ctx, n, laps)
	if err == nil {
		s.outage.acknowledged(sent)
	}
	return err
}

// PrepareFailover is Prepare for Send, whose answers tell when an outage is over.
func (h *Host) PrepareFailover(ctx context.Context, clients int, outage *Outage) (load.Dial, error) {
	dial, err := h.Prepare(ctx, Send, clients)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := dial(ctx, worker)
		if err != nil {
			return nil, err
		}
		return surviving{c, outage}, nil
	}, nil
}
