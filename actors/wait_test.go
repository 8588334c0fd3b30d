package actors

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"parley/actors/group"
	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// countingJournal counts the rows that are read through it.
type countingJournal struct {
	journal.Journal
	rows atomic.Int64
}

func (j *countingJournal) View() journal.View {
	return journal.ViewOf(&countingView{j.Journal.View(), &j.rows})
}

// reads returns how many rows fn reads. The test has waited for the key log, which reads
// rows when it appends.
func (j *countingJournal) reads(fn func()) int {
	before := j.rows.Load()
	fn()
	return int(j.rows.Load() - before)
}

type countingView struct {
	journal.View
	rows *atomic.Int64
}

func (v *countingView) Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	return v.View.Feed(agent, from, upTo, func(e journal.FeedEntry) bool {
		v.rows.Add(1)
		return fn(e)
	})
}

func (v *countingView) Inbox(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	return v.View.Inbox(agent, from, upTo, func(e journal.FeedEntry) bool {
		v.rows.Add(1)
		return fn(e)
	})
}

func (v *countingView) InboxBefore(agent parley.AgentID, before uint64, fn func(journal.FeedEntry) bool) error {
	return v.View.InboxBefore(agent, before, func(e journal.FeedEntry) bool {
		v.rows.Add(1)
		return fn(e)
	})
}

func (v *countingView) FeedReceipts(agent parley.AgentID, low, high uint64, fn func(uint64, journal.Receipts)) error {
	return v.View.FeedReceipts(agent, low, high, func(position uint64, m journal.Receipts) {
		v.rows.Add(1)
		fn(position, m)
	})
}

func (v *countingView) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	v.rows.Add(1)
	return v.View.Row(slot, table, key)
}

func (v *countingView) Rows(slot parley.Slot, table journal.Table, prefix, beyond []byte, reverse bool, fn func(key, value []byte) bool) error {
	return v.View.Rows(slot, table, prefix, beyond, reverse, func(key, value []byte) bool {
		v.rows.Add(1)
		return fn(key, value)
	})
}

func (v *countingView) Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error {
	return v.View.Events(s, from, reverse, func(seq uint64, at int64, f journal.StoredEvent) bool {
		v.rows.Add(1)
		return fn(seq, at, f)
	})
}

// Untransferred counts the feed entries that were scanned: from the stored transferred
// position up to where the scan ended.
func (v *countingView) Untransferred(agent parley.AgentID, from uint64, rows int, fn func(uint64, parley.MessageID) bool) (uint64, int, error) {
	told, read, err := v.View.Untransferred(agent, from, rows, fn)
	if err != nil {
		return told, read, err
	}
	noted, err := query.TransferredUpTo(v.View, agent)
	if err != nil {
		return told, read, err
	}
	return told, read, v.View.Inbox(agent, max(noted, max(from, 1)-1), told, func(journal.FeedEntry) bool {
		v.rows.Add(1)
		return true
	})
}

// memberWithLongFeed returns a test node with a member whose feed holds n copies, all
// transferred in pages.
func memberWithLongFeed(t *testing.T, n int, tune func(*Node)) (*testNode, *countingJournal, *testGroup, []parley.AgentID) {
	o := &countingJournal{}
	r := newTestNode(t, withTuning(tune), withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
	owner, ids := r.agents("acme", 2)
	c := must(r.createGroup(owner, ids[0], "board", group.Open, false))(t)
	must(c.join(ids[1]))(t)
	for i := range n {
		must(c.say(ids[0], fmt.Sprint(i), ""))(t)
	}
	for _, m := range r.inbox(ids[1]) {
		r.setReceiptsOf(m, journal.Receipts{TransferredAt: 1, TransferredBy: journal.InboxChannel})
	}
	awaitKeyLog(t, r.node, ids...)
	return r, o, c, ids
}

const (
	floodedCopies = 400
	floodedRows   = 32
)

// TestWaitScansAFeedOnce: one scan reads a bounded number of entries, and later waits
// skip the entries that were found to be transferred.
func TestWaitScansAFeedOnce(t *testing.T) {
	r, o, c, ids := memberWithLongFeed(t, floodedCopies, func(n *Node) {
		n.queries.Limits().WaitRows, n.queries.Limits().TransferredStep = floodedRows, floodedRows
	})
	to, ctx := ids[1], context.Background()
	place, looks := r.node.Feeds.Untransferred(to), 0
	for more := true; more; looks++ {
		if read := o.reads(func() {
			var w query.Waiting
			w, more, _ = place.Look(ctx, 20, nil)
			if len(w.Items) > 0 {
				t.Fatalf("unexpected messages: %v", contents(w))
			}
		}); read > floodedRows+2 { // including the row of the transferred position
			t.Fatalf("scan %d has read %d rows", looks, read)
		}
	}
	if looks < floodedCopies/floodedRows {
		t.Fatalf("%d scans reached the end", looks)
	}
	eventually(t, "what was passed by is noted", func() bool {
		value, found, err := r.store.Row(to.Slot(), journal.TransferredTable, to[:])
		return err == nil && found && binary.BigEndian.Uint64(value) > r.inbox(to)[floodedRows].Position
	})
	for i := range 5 {
		text := fmt.Sprint("more ", i)
		must(c.say(ids[0], text, ""))(t)
		// At most two scans: entries after the stored position, and the new ones.
		if read := o.reads(func() {
			if w := r.wait(r.node.Feeds.Untransferred(to), 20); !slices.Equal(contents(w), []string{text}) {
				t.Errorf("got %v", contents(w))
			}
		}); read > 3*floodedRows {
			t.Errorf("a wait has read %d rows of %d", read, floodedCopies)
		}
		r.setReceiptsOf(r.inbox(to)[0], journal.Receipts{TransferredAt: 1, TransferredBy: journal.WaitChannel})
	}
}

// TestWaitScansAFeedOnceControl does not store how far the feed was scanned: each wait
// reads all of it.
func TestWaitScansAFeedOnceControl(t *testing.T) {
	r, o, _, ids := memberWithLongFeed(t, floodedCopies, func(n *Node) {
		n.queries.Limits().WaitRows, n.queries.Limits().TransferredStep = math.MaxInt, math.MaxInt
	})
	for range 3 {
		if read := o.reads(func() { r.wait(r.node.Feeds.Untransferred(ids[1]), 20) }); read < floodedCopies {
			t.Errorf("a wait has read %d rows of %d", read, floodedCopies)
		}
	}
}

// TestWaitCountsUnreadNearby: counting the remaining messages reads a bounded number
// of entries, however many there are.
func TestWaitCountsUnreadNearby(t *testing.T) {
	bounded := func(n *Node) { n.queries.Limits().WaitRows = floodedRows }
	for name, row := range map[string]struct {
		tune func(*Node)
		most int
		says int
	}{
		"bounded": {bounded, 5 * floodedRows, floodedRows},
		"control": {func(n *Node) { n.queries.Limits().WaitRows = math.MaxInt }, math.MaxInt, floodedCopies - 20},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _, ids := memberWithLongFeed(t, floodedCopies, row.tune)
			read := o.reads(func() {
				if w := r.wait(r.node.Feeds.After(ids[1], 0), 20); len(w.Items) != 20 || w.Unread != row.says {
					t.Errorf("got %d messages, %d follow", len(w.Items), w.Unread)
				}
			})
			if read > row.most || name == "control" && read < floodedCopies {
				t.Errorf("%d rows were read", read)
			}
		})
	}
}

// TestPagesStayFull: other feed entries, however many lie between and before the messages, neither
// blank a page nor are they read for it.
func TestPagesStayFull(t *testing.T) {
	const messages, notices = 30, 10_000
	o := &countingJournal{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
	owner, ids := r.agents("acme", 2)
	from, to := ids[0], ids[1]
	var talk parley.ConversationID
	for i := range messages {
		talk = must(r.send(direct(owner, from, to, fmt.Sprint(i), "")))(t).Message.Conversation()
	}
	for i := range 10 {
		status := []string{"open", "paused"}[i%2]
		must(r.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: talk, By: ids[:1], Status: status}))(t)
	}
	for range notices / 100 {
		stored := make(chan error, 1)
		e := &journal.Entry{Slot: to.Slot(), At: r.node.clock(), Release: func(err error) { stored <- err }}
		for range 100 {
			e.Effects = append(e.Effects, journal.AppendFeed{To: to, Kind: journal.ReceiptEntry, Ref: parley.AnyID(to)})
		}
		r.store.Append(e)
		must(0, <-stored)(t)
	}
	awaitKeyLog(t, r.node, ids...)
	ctx, limit := context.Background(), 20
	pages := map[string]func() int{
		"inbox": func() int { return len(must2(r.node.Messages.Inbox(ctx, to, 0, limit, "", nil))(t)) },
		"deep inbox": func() int {
			return len(must2(r.node.Messages.Inbox(ctx, to, r.inbox(to)[2].Position, limit, "", nil))(t))
		},
		"of one type": func() int {
			return len(must2(r.node.Messages.Inbox(ctx, to, 0, limit, r.inbox(to)[0].Record.GetType(), nil))(t))
		},
		"wait":          func() int { return len(r.wait(r.node.Feeds.After(to, 0), limit).Items) },
		"untransferred": func() int { return len(r.wait(r.node.Feeds.Untransferred(to), limit).Items) },
	}
	for name, page := range pages {
		items := 0
		if read := o.reads(func() { items = page() }); items != limit || read > 4*messages {
			t.Errorf("%s: %d of %d messages, for which %d rows were read", name, items, limit, read)
		}
	}
}
