package membership

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gossipEvery is how often a node tells the others what callers have spent of their rates.
	gossipEvery = 100 * time.Millisecond
	// gossipTimeout bounds how long it waits for one that does not listen. What was sent until
	// then still arrives.
	gossipTimeout = 100 * time.Millisecond
)

// Spender counts what callers spend of their rates.
type Spender interface {
	// Spent returns what was spent here since the last call, nil if nothing was.
	Spent() ([]byte, error)
	// SpentElsewhere counts what Spent returned on another node.
	SpentElsewhere([]byte) error
}

// spending is a Spender that this node may not have yet.
type spending struct {
	by     atomic.Pointer[Spender]
	failed func(error)
}

func (s *spending) receive(content []byte) error {
	if by := s.by.Load(); by != nil {
		return (*by).SpentElsewhere(content)
	}
	return nil
}

// ShareSpending has callers spend their rates on all nodes together, until ctx is done. A node
// that misses what another one tells admits so much more.
func (p *Part) ShareSpending(ctx context.Context, by Spender) {
	p.spending.by.Store(&by)
	tick := time.NewTicker(gossipEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		content, err := by.Spent()
		if err != nil {
			p.spending.failed(err)
		}
		if content != nil {
			p.gossip(ctx, content)
		}
	}
}

// gossip tells all other members.
func (p *peers) gossip(ctx context.Context, content []byte) {
	ctx, cancel := context.WithTimeout(ctx, gossipTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for id := range p.group.Table() {
		if id != uint64(p.identity.ID) {
			calls.Go(func() { _ = p.node.Gossip(ctx, p.transport.Peer(id), content) })
		}
	}
	calls.Wait()
}
