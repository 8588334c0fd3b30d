package membership

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tellEvery is how often a node tells the others what callers have spent of their rates.
	tellEvery = 100 * time.Millisecond
	// tellTimeout bounds how long it waits for one that does not listen. What was sent until
	// then still arrives.
	tellTimeout = 100 * time.Millisecond
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

func (s *spending) hear(content []byte) {
	if by := s.by.Load(); by != nil {
		if err := (*by).SpentElsewhere(content); err != nil {
			s.failed(err)
		}
	}
}

// ShareSpending has callers spend their rates on all nodes together, until ctx is done. A node
// that misses what another one tells admits so much more.
func (p *Part) ShareSpending(ctx context.Context, by Spender) {
	p.spending.by.Store(&by)
	tick := time.NewTicker(tellEvery)
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
			p.tell(ctx, content)
		}
	}
}

// tell tells all other members.
func (p *Part) tell(ctx context.Context, content []byte) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	var telling sync.WaitGroup
	for id := range p.group.Table() {
		if id != uint64(p.identity.ID) {
			telling.Go(func() { _ = p.node.Tell(ctx, p.transport.Peer(id), content) })
		}
	}
	telling.Wait()
}
