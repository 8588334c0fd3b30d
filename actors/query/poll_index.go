package query

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley"
	"parley/journal"
)

const (
	// countBytes bounds what all indexes take: blocks for 75 million lines.
	countBytes = 32 << 20
	// blockBytes and countOverhead are about what a block, and an index besides
	// its blocks, take.
	blockBytes, countOverhead = 56, 4096
)

// pollIndex knows of feeds how many messages came by when, so that a poll of a
// long feed reads next to none of it. What it knows is found out from the rows
// as polls ask for it, and may be forgotten at any time.
type pollIndex struct {
	feeds  *otter.Cache[parley.AgentID, *feedIndex]
	limits *Limits
}

func newPollIndex(limits *Limits) *pollIndex {
	return &pollIndex{limits: limits, feeds: otter.Must(&otter.Options[parley.AgentID, *feedIndex]{
		MaximumWeight: countBytes,
		Weigher: func(_ parley.AgentID, x *feedIndex) uint32 {
			return uint32(min(math.MaxUint32, countOverhead+blockBytes*x.size.Load()))
		},
	})}
}

// feedIndex counts the messages of one feed by blocks of its lines.
//
// Invariant, under mu: blocks are adjacent, ascending, and hold every line from
// the first of them up to the position upTo, which is durable. All have as many
// lines as the index says but the newest and, once whole, the oldest.
type feedIndex struct {
	agent        parley.AgentID
	blockEntries int
	size         atomic.Int64 // how many blocks there are
	// lastRead is the block that was looked through last.
	lastRead atomic.Pointer[blockTimes]

	mu       sync.Mutex
	blocks   []feedBlock
	upTo     uint64
	whole    bool  // there is no line below the blocks
	maxDelay int64 // the longest that a message took to arrive
}

// feedBlock is a run of lines of a feed. Arrivals never decrease along the feed
// and are never before their message; the messages' own instants are in no order.
type feedBlock struct {
	first, last  uint64 // positions of its ends
	began, ended int64  // their arrivals
	oldest       int64  // when the oldest of its messages was created
	total        int64  // messages up to its end, from where the index began
	messages     int32
	entries      int32
}

// blockTimes is when the messages of a block were created.
type blockTimes struct {
	first, last uint64
	created     []int64
}

// CountSince counts the messages to an agent created after an instant in Unix
// milliseconds, whatever became of them, without reading their bodies. What was
// answered before it was asked is counted. // spec: Messaging
func (q *Messages) CountSince(ctx context.Context, agent parley.AgentID, since int64) (count int, err error) {
	// Asked for in this order: where they meet, whatever could be seen before is
	// durable. And before the view opens, so that it has all up to the edge.
	tip, edge := q.journal.AssignedPosition(agent), q.journal.DurablePosition(agent)
	x := q.counts.of(agent)
	if tip <= edge {
		if count, known := x.known(edge, since); known {
			return count, nil
		}
	}
	err = q.view(ctx, func(v journal.View) error {
		count, err = q.counts.since(ctx, v, x, edge, since)
		return err
	})
	return count, err
}

func (c *pollIndex) of(agent parley.AgentID) *feedIndex {
	x, found := c.feeds.GetIfPresent(agent)
	if !found {
		x, _ = c.feeds.SetIfAbsent(agent, &feedIndex{agent: agent, blockEntries: c.limits.CountEntries})
	}
	return x
}

// since counts what a view shows, which has all that is durable up to edge.
func (c *pollIndex) since(ctx context.Context, v journal.View, x *feedIndex, edge uint64, since int64) (int, error) {
	had := x.size.Load()
	t, upTo, err := x.count(ctx, v, edge, since)
	if x.size.Load() != had {
		c.feeds.Set(x.agent, x) // weighs it anew
	}
	if err != nil {
		return 0, err
	}
	for i := range t.mixed {
		looked, err := x.read(v, &t.mixed[i])
		if err != nil {
			return 0, err
		}
		t.certain += looked.since(since)
	}
	// What the view has beyond the index is durable once the view is.
	err = v.Feed(x.agent, upTo, math.MaxUint64, func(e journal.FeedEntry) bool {
		if e.Kind.BringsMessage() && createdAt(e) > since {
			t.certain++
		}
		return true
	})
	return t.certain, err
}

// createdAt is when the message of a line that carries one was created.
func createdAt(e journal.FeedEntry) int64 { return e.Ref.Time().UnixMilli() }

// estimate is what an index knows of the messages created after an instant: how many
// there are for sure, and the blocks that have some of both.
type estimate struct {
	certain int
	mixed   []feedBlock
}

// known counts from memory alone, if all that is durable is there.
func (x *feedIndex) known(edge uint64, since int64) (count int, known bool) {
	x.mu.Lock()
	if x.upTo < edge || !x.reaches(since) {
		x.mu.Unlock()
		return 0, false
	}
	t := x.estimate(since)
	x.mu.Unlock()
	for i := range t.mixed {
		looked := x.lastRead.Load()
		if looked == nil || !looked.isOf(&t.mixed[i]) {
			return 0, false
		}
		t.certain += looked.since(since)
	}
	return t.certain, true
}

// count brings the index up to edge, and down to what came by an instant, and
// counts what was created after that. upTo is where the index ends.
func (x *feedIndex) count(ctx context.Context, v journal.View, edge uint64, since int64) (t estimate, upTo uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.extend(ctx, v, edge)
	if len(x.blocks) > 0 && x.blocks[0].first > edge+1 && !x.reaches(since) {
		// The index began with a later view. This one may lack lines below it, and
		// is counted alone.
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

// reaches reports whether all that came after an instant is in the index.
func (x *feedIndex) reaches(since int64) bool {
	return x.whole || len(x.blocks) > 0 && x.blocks[0].began <= since
}

func (x *feedIndex) estimate(since int64) (t estimate) {
	// What arrived by then was created by then, and what arrived later than the
	// slowest message takes was created later.
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

// total is how many messages there are up to the end, from where the index began.
func (x *feedIndex) total() int64 {
	if len(x.blocks) == 0 {
		return 0
	}
	return x.blocks[len(x.blocks)-1].total
}

// extend takes in what the feed has beyond the index, up to edge.
func (x *feedIndex) extend(ctx context.Context, v journal.View, edge uint64) error {
	if len(x.blocks) == 0 && !x.whole { // it begins where this view has all
		x.upTo = edge
	}
	if x.upTo >= edge {
		return nil
	}
	err := v.Feed(x.agent, x.upTo, edge, func(e journal.FeedEntry) bool {
		n := len(x.blocks)
		if n == 0 || int(x.blocks[n-1].entries) == x.blockEntries {
			if ctx.Err() != nil {
				return false
			}
			x.blocks = append(x.blocks, newBlock(x.total()))
			n++
		}
		b := &x.blocks[n-1]
		if b.entries == 0 {
			b.first, b.began = e.Position, e.At
		}
		b.last, b.ended, x.upTo = e.Position, e.At, e.Position
		b.total += int64(x.addEntry(b, e))
		return true
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		x.upTo = edge
	}
	return err
}

// reach takes in what the feed has below the index, until a block begins with a
// line that arrived by an instant.
func (x *feedIndex) reach(ctx context.Context, v journal.View, since int64) error {
	if x.reaches(since) {
		return nil
	}
	before, until := x.upTo+1, int64(0)
	if len(x.blocks) > 0 {
		before, until = x.blocks[0].first, x.blocks[0].total-int64(x.blocks[0].messages)
	}
	var below []feedBlock // newest first
	b, whole := newBlock(until), true
	err := v.FeedBefore(x.agent, before, func(e journal.FeedEntry) bool {
		if int(b.entries) == x.blockEntries {
			below = append(below, b)
			if whole = b.began > since && ctx.Err() == nil; !whole {
				return false
			}
			b = newBlock(b.total - int64(b.messages))
		}
		if b.entries == 0 {
			b.last, b.ended = e.Position, e.At
		}
		b.first, b.began = e.Position, e.At
		x.addEntry(&b, e)
		return true
	})
	if err != nil {
		return err
	}
	if whole && b.entries > 0 {
		below = append(below, b)
	}
	x.whole = whole
	slices.Reverse(below)
	x.blocks = append(below, x.blocks...)
	return ctx.Err()
}

func newBlock(until int64) feedBlock { return feedBlock{oldest: math.MaxInt64, total: until} }

// addEntry counts a line in a block and gives how many messages it brings.
func (x *feedIndex) addEntry(b *feedBlock, e journal.FeedEntry) int32 {
	b.entries++
	if !e.Kind.BringsMessage() {
		return 0
	}
	created := createdAt(e)
	b.messages, b.oldest, x.maxDelay = b.messages+1, min(b.oldest, created), max(x.maxDelay, e.At-created)
	return 1
}

// read gives when the messages of a block were created, which is at hand if it
// was asked for last.
func (x *feedIndex) read(v journal.View, b *feedBlock) (*blockTimes, error) {
	if looked := x.lastRead.Load(); looked != nil && looked.isOf(b) {
		return looked, nil
	}
	looked := &blockTimes{first: b.first, last: b.last, created: make([]int64, 0, b.messages)}
	err := v.Feed(x.agent, b.first-1, b.last, func(e journal.FeedEntry) bool {
		if e.Kind.BringsMessage() {
			looked.created = append(looked.created, createdAt(e))
		}
		return true
	})
	if err == nil && len(looked.created) == int(b.messages) { // a view from before the block has less
		x.lastRead.Store(looked)
	}
	return looked, err
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
