package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// ErrOlderCopy means that a node has not what it had acknowledged: its data directory is an
// older copy. It must not take part, because others count on what it acknowledged.
var ErrOlderCopy = errors.New("the data directory lacks entries that this node had acknowledged: it is an older copy, or was damaged")

// acknowledged knows up to which committed index each member has acknowledged the order. The
// leader learns it, and keeps it over its own restarts.
type acknowledged struct {
	mu    sync.Mutex
	upTo  map[uint64]uint64
	store func(map[uint64]uint64) error
	saved time.Time
	dirty bool
}

// saveEvery is how often what was learned is stored.
const saveEvery = time.Second

// Remember gives the group what it had learned, and stores what it learns.
func (g *Group) Remember(upTo map[uint64]uint64, store func(map[uint64]uint64) error) {
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	g.known.upTo, g.known.store = maps.Clone(upTo), store
}

// learn updates what members have acknowledged, if this node leads.
func (g *Group) learn(ctx context.Context, now time.Time) error {
	s, err := g.Status(ctx)
	if err != nil || s.Leads == 0 {
		return nil
	}
	k := &g.known
	k.mu.Lock()
	for _, p := range s.Progress {
		if at := min(p.Match, s.Commit); p.ID != s.ID && at > k.upTo[p.ID] {
			if k.upTo == nil {
				k.upTo = map[uint64]uint64{}
			}
			k.upTo[p.ID], k.dirty = at, true
		}
	}
	due := k.dirty && k.store != nil && now.Sub(k.saved) >= saveEvery
	var copied map[uint64]uint64
	if due {
		k.dirty, k.saved, copied = false, now, maps.Clone(k.upTo)
	}
	k.mu.Unlock()
	if due {
		return k.store(copied)
	}
	return nil
}

// acknowledgedBy is up to which index a member has acknowledged the order, as far as this node
// knows.
func (g *Group) acknowledgedBy(ctx context.Context, id uint64, now time.Time) uint64 {
	_ = g.learn(ctx, now) // what cannot be stored is known all the same
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	return g.known.upTo[id]
}

// CheckComplete asks the other voters what this node had acknowledged, until so many have
// answered that they and this node are a majority. It is ErrOlderCopy if this node, whose log
// ends at last, has less.
func (n *Node) CheckComplete(ctx context.Context, self, last uint64, voters []uint64, peer func(uint64) Peer) error {
	answered := map[uint64]bool{}
	for pause := retryFirst; ; pause = min(2*pause, retryMax) {
		for _, id := range voters {
			if id == self || answered[id] {
				continue
			}
			asking, cancel := context.WithTimeout(ctx, time.Second)
			reply, err := n.call(asking, peer(id), askAcknowledged{self})
			cancel()
			known, ok := reply.(acknowledgedUpTo)
			if err != nil || !ok {
				continue
			}
			if known.Index > last {
				return fmt.Errorf("%w; it has entries up to %d, and another node knows that it had %d", ErrOlderCopy, last, known.Index)
			}
			answered[id] = true
		}
		if len(answered)+1 > len(voters)/2 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
