package membership

import (
	"context"
	"sync"
	"time"

	"parley/client/parley"
	"parley/cluster"
)

// clocksEvery is how often a node compares its wall clock with those of the others.
const clocksEvery = 2 * time.Second

var errClock = parley.Refuse(parley.Unavailable, "clock", "The wall clock of the node differs from those of most nodes of its cluster.")

// compareClocks learns whether the wall clock of this node is wrong, until ctx is done.
func (p *peers) compareClocks(ctx context.Context, clocks *cluster.Clocks) {
	tick := time.NewTicker(clocksEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.measureClocks(ctx, clocks)
		case <-ctx.Done():
			return
		}
	}
}

// measureClocks asks all other members what their wall clocks show.
func (p *peers) measureClocks(ctx context.Context, clocks *cluster.Clocks) {
	var others []uint64
	var asking sync.WaitGroup
	var mu sync.Mutex
	offsets := map[uint64]time.Duration{}
	for id := range p.group.Table() {
		if id == uint64(p.identity.ID) {
			continue
		}
		others = append(others, id)
		asking.Go(func() {
			if offset, ok := p.node.ClockOffset(ctx, p.transport.Peer(id)); ok {
				mu.Lock()
				defer mu.Unlock()
				offsets[id] = offset
			}
		})
	}
	asking.Wait()
	clocks.Note(others, offsets)
}
