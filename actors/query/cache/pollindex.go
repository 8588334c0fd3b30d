package cache

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley/client/parley"
	"parley/journal"
)

const (
	// countBytes bounds the memory of all indexes: blocks for 75 million entries.
	countBytes = 32 << 20
	// blockBytes and countOverhead are about how many bytes a block takes, and an index
	// besides its blocks.
	blockBytes, countOverhead = 56, 4096
)

// PollIndex counts the messages of feeds by time of arrival, so that a poll of a long
// feed reads few rows. It is filled from rows as polls ask for it and may be dropped at
// any time.
type PollIndex struct {
	feeds *otter.Cache[parley.AgentID, *FeedIndex]
	// blockEntries is how many feed entries one block covers.
	blockEntries *int
}

// NewPollIndex returns an empty index. Only tests change the number of entries in a block.
func NewPollIndex(blockEntries *int) *PollIndex {
	return &PollIndex{blockEntries: blockEntries, feeds: otter.Must(&otter.Options[parley.AgentID, *FeedIndex]{
		MaximumWeight: countBytes,
		Weigher: func(_ parley.AgentID, x *FeedIndex) uint32 {
			return uint32(min(math.MaxUint32, countOverhead+blockBytes*x.size.Load()))
		},
	})}
}

// FeedIndex counts the messages of one feed in blocks.
//
// Invariant, under mu: blocks are adjacent and ascending, and cover every message from
// the first block up to position upTo, which is durable. Each has blockEntries messages,
// except the newest and, if whole is set, the oldest.
type FeedIndex struct {
	agent        parley.AgentID
	blockEntries int
	size         atomic.Int64 // number of blocks
	// lastRead is the block whose entries were read last.
	lastRead atomic.Pointer[blockTimes]

	mu       sync.Mutex
	blocks   []feedBlock
	upTo     uint64
	whole    bool  // the blocks begin with the feed's first message
	maxDelay int64 // longest time from creation to arrival, in milliseconds
}

// feedBlock is a run of messages in a feed. Arrival times never decrease along the feed and
// are never before the message's creation. Creation times are in no order. All times
// are Unix milliseconds.
type feedBlock struct {
	first, last  uint64 // positions
	began, ended int64  // arrival times of first and last
	oldest       int64  // creation time of its oldest message
	total        int64  // messages from the beginning of the index to the end of the block
	messages     int32
}

// blockTimes holds the creation times of a block's messages.
type blockTimes struct {
	first, last uint64
	created     []int64
}

// Count counts the messages to an agent that were created after an instant in Unix milliseconds,
// in a view that has everything up to durable. The index was taken before the view was opened: what
// is forgotten meanwhile is not put into the index of later polls.
func (c *PollIndex) Count(ctx context.Context, v journal.View, x *FeedIndex, durable uint64, since int64) (int, error) {
	had := x.size.Load()
	t, upTo, err := x.count(ctx, v, durable, since)
	if x.size.Load() != had {
		c.weigh(x)
	}
	if err != nil {
		return 0, err
	}
	for i := range t.mixed {
		times, err := x.read(v, &t.mixed[i])
		if err != nil {
			return 0, err
		}
		t.certain += times.since(since)
	}
	// Entries of the view after the index become durable before the view returns.
	err = v.Inbox(x.agent, upTo, math.MaxUint64, func(e journal.FeedEntry) bool {
		if createdAt(e) > since {
			t.certain++
		}
		return true
	})
	return t.certain, err
}

func (c *PollIndex) Of(agent parley.AgentID) *FeedIndex {
	x, found := c.feeds.GetIfPresent(agent)
	if !found {
		x, _ = c.feeds.SetIfAbsent(agent, &FeedIndex{agent: agent, blockEntries: *c.blockEntries})
	}
	return x
}

// weigh updates the weight of an index.
func (c *PollIndex) weigh(x *FeedIndex) {
	c.feeds.Compute(x.agent, func(have *FeedIndex, found bool) (*FeedIndex, otter.ComputeOp) {
		if found && have == x {
			return x, otter.WriteOp
		}
		return have, otter.CancelOp
	})
}

// Forget drops the index of a feed.
func (c *PollIndex) Forget(agent parley.AgentID) { c.feeds.Invalidate(agent) }

// ForgetAll drops all indexes.
func (c *PollIndex) ForgetAll() { c.feeds.InvalidateAll() }

// createdAt is the creation time of an entry's message, in Unix milliseconds.
func createdAt(e journal.FeedEntry) int64 { return e.Ref.Time().UnixMilli() }

// estimate is what an index knows about messages created after an instant: how many
// there certainly are, and the blocks that have messages from before and after it.
type estimate struct {
	certain int
	mixed   []feedBlock
}

// Known counts from memory alone. It returns false if the index does not cover
// everything up to durable or a block has to be read.
func (x *FeedIndex) Known(durable uint64, since int64) (count int, known bool) {
	x.mu.Lock()
	if x.upTo < durable || !x.reaches(since) {
		x.mu.Unlock()
		return 0, false
	}
	t := x.estimate(since)
	x.mu.Unlock()
	for i := range t.mixed {
		times := x.lastRead.Load()
		if times == nil || !times.isOf(&t.mixed[i]) {
			return 0, false
		}
		t.certain += times.since(since)
	}
	return t.certain, true
}

// count extends the index up to durable, and back to entries that arrived at the instant
// since, and estimates the messages created after it. upTo is the end of the index.
func (x *FeedIndex) count(ctx context.Context, v journal.View, durable uint64, since int64) (t estimate, upTo uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.extend(ctx, v, durable)
	if len(x.blocks) > 0 && x.blocks[0].first > durable+1 && !x.reaches(since) {
		// The index began with a later view. This view may lack entries before the
		// index, so it is counted without the index.
		return estimate{}, 0, err
	}
	if err == nil {
		err = x.reach(ctx, v, since)
	}
	x.size.Store(int64(len(x.blocks)))
	if err == nil {
		t = x.estimate(since)
	}
	return t, x.upTo, err
}

// reaches reports whether the index covers everything that arrived after an instant.
func (x *FeedIndex) reaches(since int64) bool {
	return x.whole || len(x.blocks) > 0 && x.blocks[0].began <= since
}

func (x *FeedIndex) estimate(since int64) (t estimate) {
	// Messages that arrived by the instant were created by then. Messages that arrived
	// more than maxDelay later were created later.
	first := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].ended > since })
	certain := first + sort.Search(len(x.blocks)-first, func(i int) bool { return x.blocks[first+i].began-x.maxDelay > since })
	if certain < len(x.blocks) {
		t.certain = int(x.total() - x.blocks[certain].total + int64(x.blocks[certain].messages))
	}
	for _, b := range x.blocks[first:certain] {
		if b.oldest > since {
			t.certain += int(b.messages)
		} else {
			t.mixed = append(t.mixed, b)
		}
	}
	return t
}

// total is how many messages the index covers.
func (x *FeedIndex) total() int64 {
	if len(x.blocks) == 0 {
		return 0
	}
	return x.blocks[len(x.blocks)-1].total
}

// extend adds the entries after the index, up to durable.
func (x *FeedIndex) extend(ctx context.Context, v journal.View, durable uint64) error {
	if len(x.blocks) == 0 && !x.whole { // it begins where this view is complete
		x.upTo = durable
	}
	if x.upTo >= durable {
		return nil
	}
	err := v.Inbox(x.agent, x.upTo, durable, func(e journal.FeedEntry) bool {
		n := len(x.blocks)
		if n == 0 || int(x.blocks[n-1].messages) == x.blockEntries {
			if ctx.Err() != nil {
				return false
			}
			x.blocks = append(x.blocks, newBlock(x.total()))
			n++
		}
		b := &x.blocks[n-1]
		if b.messages == 0 {
			b.first, b.began = e.Position, e.At
		}
		b.last, b.ended, x.upTo = e.Position, e.At, e.Position
		x.addEntry(b, e)
		b.total++
		return true
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		x.upTo = durable
	}
	return err
}

// reach adds the entries before the index, until a block begins with an entry that
// arrived at the instant since or before.
func (x *FeedIndex) reach(ctx context.Context, v journal.View, since int64) error {
	if x.reaches(since) {
		return nil
	}
	before, until := x.upTo+1, int64(0)
	if len(x.blocks) > 0 {
		before, until = x.blocks[0].first, x.blocks[0].total-int64(x.blocks[0].messages)
	}
	var below []feedBlock // newest first
	b, whole := newBlock(until), true
	err := v.InboxBefore(x.agent, before, func(e journal.FeedEntry) bool {
		if int(b.messages) == x.blockEntries {
			below = append(below, b)
			if whole = b.began > since && ctx.Err() == nil; !whole {
				return false
			}
			b = newBlock(b.total - int64(b.messages))
		}
		if b.messages == 0 {
			b.last, b.ended = e.Position, e.At
		}
		b.first, b.began = e.Position, e.At
		x.addEntry(&b, e)
		return true
	})
	if err != nil {
		return err
	}
	if whole && b.messages > 0 {
		below = append(below, b)
	}
	x.whole = whole
	slices.Reverse(below)
	x.blocks = append(below, x.blocks...)
	return ctx.Err()
}

func newBlock(until int64) feedBlock { return feedBlock{oldest: math.MaxInt64, total: until} }

// addEntry counts an entry in a block.
func (x *FeedIndex) addEntry(b *feedBlock, e journal.FeedEntry) {
	created := createdAt(e)
	b.messages, b.oldest, x.maxDelay = b.messages+1, min(b.oldest, created), max(x.maxDelay, e.At-created)
}

// read returns the creation times of a block's messages. The last result is cached.
func (x *FeedIndex) read(v journal.View, b *feedBlock) (*blockTimes, error) {
	if times := x.lastRead.Load(); times != nil && times.isOf(b) {
		return times, nil
	}
	times := &blockTimes{first: b.first, last: b.last, created: make([]int64, 0, b.messages)}
	err := v.Inbox(x.agent, b.first-1, b.last, func(e journal.FeedEntry) bool {
		times.created = append(times.created, createdAt(e))
		return true
	})
	if err == nil && len(times.created) == int(b.messages) { // an older view may lack entries
		x.lastRead.Store(times)
	}
	return times, err
}

func (l *blockTimes) isOf(b *feedBlock) bool { return l.first == b.first && l.last == b.last }

// since counts the messages created after an instant.
func (l *blockTimes) since(instant int64) (count int) {
	for _, created := range l.created {
		if created > instant {
			count++
		}
	}
	return count
}
