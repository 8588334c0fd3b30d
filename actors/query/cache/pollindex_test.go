package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/journal"
)

// feedView is a view that contains one feed only.
type feedView struct {
	journal.View
	lines []journal.FeedEntry
	read  *int
}

func (v feedView) Inbox(_ parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	for _, e := range v.lines {
		if e.Kind.BringsMessage() && e.Position > from && e.Position <= upTo {
			if *v.read++; !fn(e) {
				break
			}
		}
	}
	return nil
}

func (v feedView) InboxBefore(_ parley.AgentID, before uint64, fn func(journal.FeedEntry) bool) error {
	for _, e := range slices.Backward(v.lines) {
		if e.Kind.BringsMessage() && e.Position < before {
			if *v.read++; !fn(e) {
				break
			}
		}
	}
	return nil
}

// countLines is the number of entries in a block of the tests' indexes.
const countLines = 128

// counted returns the count by its definition.
func counted(lines []journal.FeedEntry, since int64) (n int) {
	for _, e := range lines {
		if e.Kind.BringsMessage() && e.Ref.Time().UnixMilli() > since {
			n++
		}
	}
	return n
}

// growing is a feed that grows, with messages that took varying times to arrive.
type growing struct {
	t     *rapid.T
	lines []journal.FeedEntry
	at    int64
}

func (g *growing) grow() {
	for range rapid.IntRange(0, 12).Draw(g.t, "new lines") {
		g.at += rapid.SampledFrom([]int64{0, 0, 1, 3, 50}).Draw(g.t, "after")
		created := g.at - rapid.SampledFrom([]int64{0, 0, 0, 1, 7, 200}).Draw(g.t, "late")
		e := journal.FeedEntry{
			Position: 1, At: g.at, Kind: rapid.SampledFrom([]journal.FeedKind{1, 1, 3, 2, 4, 5}).Draw(g.t, "kind"),
			Ref: parley.NewID[parley.AnyID](1, time.UnixMilli(created), [10]byte{byte(len(g.lines))}),
		}
		if n := len(g.lines); n > 0 {
			e.Position = g.lines[n-1].Position + rapid.Uint64Range(1, 3).Draw(g.t, "hole")
		}
		g.lines = append(g.lines, e)
	}
}

func indexOf(blockEntries int) *PollIndex { return NewPollIndex(&blockEntries) }

// polls polls an index of a growing feed with views of any age, and returns the first
// wrong count as an error. spoil alters the index before each poll.
func polls(t *rapid.T, spoil func(*FeedIndex)) error {
	g, c, agent := &growing{t: t, at: 1_000_000}, indexOf(countLines), parley.AgentID{15: 1}
	*c.blockEntries = rapid.IntRange(1, 9).Draw(t, "lines of a block")
	for range rapid.IntRange(1, 20).Draw(t, "polls") {
		g.grow()
		if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
			c.feeds.InvalidateAll()
		}
		spoil(c.Of(agent))
		// The view may be older than the views of earlier polls. It is durable up to
		// any of its entries.
		v := feedView{lines: g.lines[:rapid.IntRange(0, len(g.lines)).Draw(t, "shown")], read: new(int)}
		edge, durable, err := uint64(0), rapid.IntRange(0, len(v.lines)).Draw(t, "durable"), error(nil)
		if durable > 0 {
			edge = v.lines[durable-1].Position
		}
		since := g.at - rapid.Int64Range(-3, 700).Draw(t, "ago")
		// Entries that an earlier poll found durable are counted as well.
		most := g.lines
		for len(most) > len(v.lines) && most[len(most)-1].Position > c.Of(agent).upTo {
			most = most[:len(most)-1]
		}
		ctx, cancel := context.WithCancel(context.Background())
		if rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
			cancel()
		}
		least := counted(v.lines, since)
		x := c.Of(agent)
		n, known := x.Known(edge, since)
		if known { // the caller saw nothing beyond the durable position
			least = counted(v.lines[:durable], since)
		} else {
			n, err = c.Count(ctx, journal.ViewOf(v), x, edge, since)
		}
		cancel()
		if !errors.Is(err, context.Canceled) && (err != nil || n < least || n > counted(most, since)) {
			return fmt.Errorf("since %d: %d (%v), and there are %d", since, n, err, least)
		}
	}
	return nil
}

// TestForgottenWhileCounted: what is forgotten while a view counts it is not in the index of later
// polls, although the view still has it. The control takes the index after that, as a poll must not.
func TestForgottenWhileCounted(t *testing.T) {
	for _, late := range []bool{false, true} {
		c, agent := indexOf(countLines), parley.AgentID{15: 1}
		lines := make([]journal.FeedEntry, 3*countLines)
		for i := range lines {
			lines[i] = journal.FeedEntry{Position: uint64(i + 1), At: 1_000_000}
		}
		x := c.Of(agent)
		c.Forget(agent) // after the view was opened
		if late {
			x = c.Of(agent)
		}
		if n, err := c.Count(t.Context(), journal.ViewOf(feedView{lines: lines, read: new(int)}), x, uint64(len(lines)), 0); err != nil {
			t.Fatal(n, err)
		}
		if n, known := c.Of(agent).Known(uint64(len(lines)), 0); known != late {
			t.Errorf("index taken late %v: %d messages are known: %v", late, n, known)
		}
	}
}

// TestPollsOfAnyFeed compares the index with the definition.
func TestPollsOfAnyFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := polls(t, func(*FeedIndex) {}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPollsOfAnyFeedSeeDefects plants one defect at a time.
func TestPollsOfAnyFeedSeeDefects(t *testing.T) {
	for name, spoil := range map[string]func(*FeedIndex){
		"late messages are forgotten": func(x *FeedIndex) { x.maxDelay = 0 },
		"the oldest is not known": func(x *FeedIndex) {
			for i := range x.blocks {
				x.blocks[i].oldest = x.blocks[i].ended
			}
		},
		"the index believes it is whole": func(x *FeedIndex) { x.whole = len(x.blocks) > 0 },
		"a line is taken in twice": func(x *FeedIndex) {
			if n := len(x.blocks); n > 0 && x.blocks[n-1].messages > 0 {
				x.upTo = x.blocks[n-1].last - 1
			}
		},
		"a block is mistaken for another": func(x *FeedIndex) {
			if looked := x.lastRead.Load(); looked != nil && len(x.blocks) > 1 {
				b := x.blocks[len(x.blocks)-2]
				x.lastRead.Store(&blockTimes{b.first, b.last, looked.created})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			flagged := false
			for seed := 0; seed < 3000 && !flagged; seed++ {
				rapid.Custom(func(t *rapid.T) bool {
					flagged = flagged || polls(t, spoil) != nil
					return true
				}).Example(seed)
			}
			if !flagged {
				t.Error("the defect was not found")
			}
		})
	}
}

// TestPollReadsAtMostOneBlock: once a long feed is indexed, a poll reads at most one
// block, and reads no entry twice.
func TestPollReadsAtMostOneBlock(t *testing.T) {
	c, agent, read := indexOf(countLines), parley.AgentID{15: 1}, 0
	v := feedView{read: &read}
	for n := range 20 * countLines {
		at := int64(1_000_000 + n)
		v.lines = append(v.lines, journal.FeedEntry{
			Position: uint64(n + 1), Kind: journal.MessageEntry, At: at, Ref: parley.NewID[parley.AnyID](1, time.UnixMilli(at), [10]byte{}),
		})
	}
	ask := func(since int64, most int) {
		t.Helper()
		read = 0
		var err error
		edge := uint64(len(v.lines))
		x := c.Of(agent)
		n, known := x.Known(edge, since)
		if !known {
			n, err = c.Count(context.Background(), journal.ViewOf(v), c.Of(agent), edge, since)
		}
		if want := counted(v.lines, since); n != want || err != nil || read > most {
			t.Errorf("since %d: %d (%v) of %d, %d entries were read, want at most %d", since, n, err, want, read, most)
		}
	}
	ask(1_000_000+19*countLines, 3*countLines+1) // older entries are not read
	ask(0, 20*countLines)
	ask(0, 0)
	ask(1_000_000+7*countLines+9, countLines)
	ask(1_000_000+7*countLines+10, 0)
	ask(math.MaxInt64, 0)
	ask(math.MinInt64, 0)
}
