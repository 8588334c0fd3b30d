package persistence

import (
	"slices"
	"sync"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/rows"
)

// hubShards spreads topics over locks.
const hubShards = 64

// subscriptionRing is how many entries a subscriber may leave unread before it has
// to read rows. Nothing is lost: the rows are the truth.
const subscriptionRing = 64

// subscriptionBytes bounds the records held for a subscriber that does not fetch
// them; they are read from rows then.
const subscriptionBytes = 1 << 20

// publishedInline is how many subscribers of a feed the acknowledger notifies
// itself. A goroutine notifies larger numbers, so that callers that wait for the
// acknowledger do not wait for them.
const publishedInline = 32

// hub passes durable feed entries on to the subscribers of a feed.
type hub struct{ shards [hubShards]hubShard }

type hubShard struct {
	mu     sync.Mutex
	topics map[parley.AgentID]*topic
}

// topic holds the subscribers of one agent's feed.
//
// Invariant, under the shard's mu: while spreading, entries reach subscribers
// through pending only, so that each subscriber gets them in order.
type topic struct {
	subs      []*subscription
	pending   []journal.FeedEntry
	spreading bool
}

func newHub() *hub {
	h := &hub{}
	for i := range h.shards {
		h.shards[i].topics = map[parley.AgentID]*topic{}
	}
	return h
}

func (h *hub) shard(agent parley.AgentID) *hubShard { return &h.shards[uint(agent[15])%hubShards] }

// subscription follows one agent's feed from a position on: every entry once, in
// order.
//
// Invariant, under mu: entries up to backlog are read from rows, entries beyond it
// are in live; live is ascending and wholly beyond backlog.
type subscription struct {
	store  *Store
	agent  parley.AgentID
	notify func()
	place  int  // in the topic's subs; under the shard's mu
	deaf   bool // it is notified, and gets no entries

	mu       sync.Mutex
	closed   bool
	position uint64 // of the last entry given
	backlog  uint64
	live     []journal.FeedEntry
}

// Follow follows agent's feed beyond the position after. notify is called when
// there may be something new, under a lock and perhaps by the acknowledger: it must
// not block and must not call back.
func (s feeds) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	return s.subscribe(agent, after, notify)
}

func (s *Store) subscribe(agent parley.AgentID, after uint64, notify func()) *subscription {
	sub := &subscription{store: s, agent: agent, notify: notify, position: after}
	sub.enter()
	return sub
}

// enter adds the subscription to its topic.
func (sub *subscription) enter() {
	shard := sub.store.hub.shard(sub.agent)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	// The durable position is raised before its entries are published: entries up to
	// it are read from rows; a later publication of one of them is recognized.
	sub.backlog = max(sub.position, sub.store.DurablePosition(sub.agent))
	t := shard.topics[sub.agent]
	if t == nil {
		t = &topic{}
		shard.topics[sub.agent] = t
	}
	sub.place = len(t.subs)
	t.subs = append(t.subs, sub)
}

// Watch calls notify when there is something new in agent's feed, until stop is
// called. notify must not block and must not call back.
func (s feeds) Watch(agent parley.AgentID, notify func()) (stop func()) {
	sub := &subscription{store: s.Store, agent: agent, notify: notify, deaf: true}
	sub.enter()
	return sub.Close
}

// DurablePosition is the position up to which agent's feed is durable.
func (s feeds) DurablePosition(agent parley.AgentID) uint64 {
	return s.positionsOf(agent.Slot()).durable.Level()
}

// AssignedPosition is a position beyond which no view opened so far shows an entry
// of agent's feed. If the durable position has reached it, nothing is under way.
func (s feeds) AssignedPosition(agent parley.AgentID) uint64 {
	return s.positionsOf(agent.Slot()).assigned.Load()
}

// publish gives a durable entry to the subscribers of agent.
func (h *hub) publish(agent parley.AgentID, e journal.FeedEntry) {
	shard := h.shard(agent)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if t := shard.topics[agent]; t != nil {
		shard.publish(t, e)
	}
}

// publishItem gives the durable entries of an item to the subscribers of their feeds, in
// the order of their positions: an entry may append to a feed before a fan-out, and after it.
func (h *hub) publishItem(it *item) {
	appended := it.Appended
	for i := range it.Fanouts {
		f := &it.Fanouts[i]
		for len(appended) > 0 && appended[0].Entry.Position < f.First() {
			h.publish(appended[0].Agent, appended[0].Entry)
			appended = appended[1:]
		}
		h.publishMany(f)
	}
	for i := range appended {
		h.publish(appended[i].Agent, appended[i].Entry)
	}
}

// publishMany gives the durable entries of a fan-out to those who follow one of its
// agents. Most agents nobody follows.
func (h *hub) publishMany(f *apply.FanoutPart) {
	for i := range f.To {
		agent := f.To[i].Agent
		shard := h.shard(agent)
		shard.mu.Lock()
		if t := shard.topics[agent]; t != nil {
			shard.publish(t, f.Entry(i))
		}
		shard.mu.Unlock()
	}
}

// publish gives an entry to a topic's subscribers. The caller holds the shard's
// lock.
func (h *hubShard) publish(t *topic, e journal.FeedEntry) {
	switch {
	case t.spreading:
		t.keep(e)
	case len(t.subs) > publishedInline:
		t.keep(e)
		t.spreading = true
		go h.spread(t)
	default:
		entries := []journal.FeedEntry{e}
		for _, sub := range t.subs {
			sub.offer(entries...)
		}
	}
}

// keep adds an entry to those to be spread. If more are pending than a subscription
// takes, only the last counts: subscribers read rows up to it.
func (t *topic) keep(e journal.FeedEntry) {
	if len(t.pending) > subscriptionRing {
		t.pending[subscriptionRing] = e
		return
	}
	t.pending = append(t.pending, e)
}

// spread gives pending entries to a topic's subscribers until there are none. A
// subscriber that joins meanwhile finds what was pending in rows.
func (h *hubShard) spread(t *topic) {
	var subs []*subscription
	for {
		h.mu.Lock()
		entries := t.pending
		t.pending = nil
		t.spreading = len(entries) > 0
		subs = append(subs[:0], t.subs...)
		h.mu.Unlock()
		if len(entries) == 0 {
			return
		}
		for _, sub := range subs {
			sub.offer(entries...)
		}
	}
}

// offer takes entries and notifies, unless the subscription is closed. It keeps the
// slice, which is shared, and does not change it.
func (sub *subscription) offer(entries ...journal.FeedEntry) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.closed {
		return
	}
	if !sub.deaf {
		sub.take(entries)
	}
	sub.notify()
}

func (sub *subscription) take(entries []journal.FeedEntry) {
	last, many := entries[len(entries)-1].Position, len(entries) > subscriptionRing
	for len(entries) > 0 && entries[0].Position <= sub.backlog {
		entries = entries[1:]
	}
	switch {
	case len(entries) == 0:
	case many || len(sub.live)+len(entries) > subscriptionRing || sub.bytes(entries) > subscriptionBytes:
		sub.live, sub.backlog = nil, last
	case sub.live == nil:
		sub.live = slices.Clip(entries)
	default:
		sub.live = append(sub.live, entries...)
	}
}

// rereadAll has all subscribers read from rows: the content of the store was replaced, up to
// the durable positions of their feeds.
func (h *hub) rereadAll() {
	for i := range h.shards {
		shard := &h.shards[i]
		shard.mu.Lock()
		for _, t := range shard.topics {
			for _, sub := range t.subs {
				sub.catchUp()
			}
		}
		shard.mu.Unlock()
	}
}

// catchUp has a subscription read rows up to the durable position of its feed.
func (sub *subscription) catchUp() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.closed {
		return
	}
	sub.live, sub.backlog = nil, max(sub.backlog, sub.store.DurablePosition(sub.agent))
	sub.notify()
}

// reread has the subscribers of a feed read from rows what they would have got from
// memory: entries of it were dropped.
func (h *hub) reread(agent parley.AgentID) {
	shard := h.shard(agent)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	t := shard.topics[agent]
	if t == nil {
		return
	}
	for i := range t.pending {
		t.pending[i].Record = nil
	}
	for _, sub := range t.subs {
		sub.reread()
	}
}

func (sub *subscription) reread() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if n := len(sub.live); n > 0 {
		sub.live, sub.backlog = nil, sub.live[n-1].Position
	}
}

// bytes is the size of the records held, including those of more.
func (sub *subscription) bytes(more []journal.FeedEntry) (n int) {
	for _, e := range sub.live {
		n += len(e.Record)
	}
	for _, e := range more {
		n += len(e.Record)
	}
	return n
}

// Live returns what Next would return from memory. behind means that rows have to
// be read first, which may wait for the disk.
func (sub *subscription) Live(limit int) (entries []journal.FeedEntry, behind bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.position < sub.backlog {
		return nil, true
	}
	// Later appends must not overwrite what is returned, nor write into a
	// slice that others share.
	n := min(limit, len(sub.live))
	entries = sub.live[:n:n]
	if sub.live = sub.live[n:]; len(sub.live) == 0 {
		sub.live = nil
	}
	if n > 0 {
		sub.position = entries[n-1].Position
	}
	return entries, false
}

// Next returns the entries after those returned before, at most limit. None means
// that the subscriber has everything that is durable.
func (sub *subscription) Next(limit int) ([]journal.FeedEntry, error) {
	for {
		entries, behind := sub.Live(limit)
		if !behind {
			return entries, nil
		}
		from, upTo := sub.Behind()
		entries, err := sub.read(from, upTo, limit)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
}

// read returns rows of (from, upTo]; all of them are durable.
func (sub *subscription) read(from, upTo uint64, limit int) ([]journal.FeedEntry, error) {
	v := sub.store.view()
	defer v.Close()
	var entries []journal.FeedEntry
	err := rows.FeedReader{View: &v.View}.Feed(sub.agent, from, upTo, func(e journal.FeedEntry) bool {
		entries = append(entries, e)
		return len(entries) < limit
	})
	if err != nil {
		return nil, err
	}
	if len(entries) == limit {
		upTo = entries[limit-1].Position
	}
	sub.Pass(upTo)
	return entries, nil
}

// Behind is the range of positions that has to be read from rows: beyond from, up
// to upTo, all durable. The two are equal if there is none.
func (sub *subscription) Behind() (from, upTo uint64) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.position, max(sub.position, sub.backlog)
}

// Pass skips the entries up to a position within Behind.
func (sub *subscription) Pass(position uint64) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.position = position
}

// Position is the position of the last entry returned.
func (sub *subscription) Position() uint64 {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.position
}

// Close ends the subscription; notify is not called again.
func (sub *subscription) Close() {
	sub.mu.Lock()
	closed := sub.closed
	sub.closed, sub.live = true, nil
	sub.mu.Unlock()
	if closed {
		return
	}
	shard := sub.store.hub.shard(sub.agent)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	t := shard.topics[sub.agent]
	last := len(t.subs) - 1
	moved := t.subs[last]
	t.subs[sub.place], moved.place = moved, sub.place
	t.subs[last] = nil
	if t.subs = t.subs[:last]; last == 0 {
		delete(shard.topics, sub.agent)
	}
}
