package persistence

import (
	"sync"

	"parley"
)

// hubShards spreads subscribers over locks.
const hubShards = 64

// subscriptionRing bounds what a subscriber may leave unread before it reads
// rows again instead. Nothing is lost by that: the rows are the truth.
const subscriptionRing = 64

// hub passes durable feed entries on to those who follow a feed.
type hub struct {
	shards [hubShards]struct {
		mu     sync.Mutex
		topics map[parley.AgentID]map[*Subscription]struct{}
	}
}

func newHub() *hub {
	h := &hub{}
	for i := range h.shards {
		h.shards[i].topics = map[parley.AgentID]map[*Subscription]struct{}{}
	}
	return h
}

// Subscription follows one agent's feed from a position on: every entry once,
// in order.
//
// Invariant, under mu: entries up to backlog are read from rows, entries beyond
// it are in live; live is ascending and lies wholly beyond backlog.
type Subscription struct {
	store  *Store
	agent  parley.AgentID
	notify func()

	mu       sync.Mutex
	position uint64 // of the last entry given
	backlog  uint64
	live     []parley.FeedEntry
}

// Subscribe follows agent's feed beyond the position after. notify is called,
// under a lock and from the acker, when there may be something new: it must not
// block and must not call back.
func (s *Store) Subscribe(agent parley.AgentID, after uint64, notify func()) *Subscription {
	shard := &s.hub.shards[uint(agent[15])%hubShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	sub := &Subscription{store: s, agent: agent, notify: notify, position: after}
	// The edge is set before its entries are published: what it covers is read
	// from rows, and what is published later lies beyond it or is recognized.
	sub.backlog = max(after, s.Edge(agent))
	subs := shard.topics[agent]
	if subs == nil {
		subs = make(map[*Subscription]struct{}, 1)
		shard.topics[agent] = subs
	}
	subs[sub] = struct{}{}
	return sub
}

// Edge is the position up to which agent's feed is durable.
func (s *Store) Edge(agent parley.AgentID) uint64 { return s.home(agent.Slot()).edge.level.Load() }

func (h *hub) publish(agent parley.AgentID, e parley.FeedEntry) {
	shard := &h.shards[uint(agent[15])%hubShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for sub := range shard.topics[agent] {
		sub.offer(e)
		sub.notify()
	}
}

func (sub *Subscription) offer(e parley.FeedEntry) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if e.Position <= sub.backlog {
		return
	}
	if len(sub.live) >= subscriptionRing {
		sub.live, sub.backlog = nil, e.Position
		return
	}
	sub.live = append(sub.live, e)
}

// Next gives the entries that follow those given before, at most limit; none
// means that the subscriber has all that is durable.
func (sub *Subscription) Next(limit int) ([]parley.FeedEntry, error) {
	for {
		sub.mu.Lock()
		from, upTo := sub.position, sub.backlog
		if from >= upTo {
			out := sub.live[:min(limit, len(sub.live))]
			if sub.live = sub.live[len(out):]; len(sub.live) == 0 {
				sub.live = nil
			}
			if len(out) > 0 {
				sub.position = out[len(out)-1].Position
			}
			sub.mu.Unlock()
			return out, nil
		}
		sub.mu.Unlock()
		entries, err := sub.read(from, upTo, limit)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
}

// read gives rows of (from, upTo]; all of them are durable.
func (sub *Subscription) read(from, upTo uint64, limit int) ([]parley.FeedEntry, error) {
	v := sub.store.View()
	defer v.Close()
	var entries []parley.FeedEntry
	err := v.Feed(sub.agent, from, upTo, func(e parley.FeedEntry) bool {
		entries = append(entries, e)
		return len(entries) < limit
	})
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.position = upTo
	if len(entries) == limit {
		sub.position = entries[limit-1].Position
	}
	return entries, nil
}

// Position is that of the last entry given.
func (sub *Subscription) Position() uint64 {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.position
}

// Close ends the subscription; notify is not called again.
func (sub *Subscription) Close() {
	shard := &sub.store.hub.shards[uint(sub.agent[15])%hubShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	subs := shard.topics[sub.agent]
	if delete(subs, sub); len(subs) == 0 {
		delete(shard.topics, sub.agent)
	}
}
