package journaltest

import (
	"context"
	"sync/atomic"

	"parley/client/parley"
	"parley/journal"
)

// dropped drops the entries of a feed at these places.
func dropped(of parley.AgentID, feed []journal.FeedEntry, places ...int) journal.DropFeed {
	w := journal.DropFeed{Of: of}
	for _, i := range places {
		w.Messages = append(w.Messages, journal.DroppedMessage{Position: feed[i].Position, Kind: feed[i].Kind, Ref: feed[i].Ref})
	}
	return w
}

// testDropFeed drops entries of feeds at the entry's home and at another one.
func testDropFeed(r *rig) {
	agents := []parley.AgentID{r.agent(near), r.agent(far)}
	a := r.appender(r.stream(near), 0)
	for _, agent := range agents {
		for range 5 {
			id := r.message(near)
			a.mustAppend(&journal.Entry{
				Records: []journal.Record{{ID: id, Data: []byte("body")}},
				Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
			})
		}
	}
	r.must(r.Journal.Settle(context.Background()))
	for i, agent := range agents {
		var reported atomic.Bool
		r.Journal.Observe(journal.Observer{Dropped: func(id parley.AgentID) { reported.CompareAndSwap(false, id == agent) }})
		p := r.positions(agent)
		follower := r.Journal.Follow(agent, 0, func() {})
		defer follower.Close()
		for _, e := range r.feed(agent) {
			r.recordReceipt(journal.RecordReceipt{Recipient: agent, Message: parley.MessageID(e.Ref), Position: e.Position, Receipts: journal.Receipts{TransferredAt: 7}})
		}
		r.must(r.await(r.append(&journal.Entry{Slot: near, Effects: []journal.Effect{dropped(agent, r.feed(agent), 1, 3)}})))
		r.must(r.Journal.Settle(context.Background()))
		want := []uint64{p[0], p[2], p[4]}
		r.expect("the feed", r.positions(agent), want)
		if !reported.Load() {
			r.Error("no observer learns that the feed lost entries")
		}
		var followed, received []uint64
		entries, err := follower.Next(10)
		r.must(err)
		for _, e := range entries {
			followed = append(followed, e.Position)
		}
		r.expect("a subscriber that had read nothing gets", followed, want)
		r.view(func(v journal.View) {
			r.must(v.FeedReceipts(agent, 0, ^uint64(0), func(position uint64, _ journal.Receipts) { received = append(received, position) }))
		})
		r.expect("positions with receipts", received, want)
		if i == 0 {
			r.reopen()
			r.expect("the feed after a reopening", r.positions(agent), want)
		}
	}
}

// testDropFeedLive drops an entry that a subscriber has in memory and has not fetched.
func testDropFeedLive(r *rig) {
	agent := r.agent(far)
	follower := r.Journal.Follow(agent, 0, func() {})
	defer follower.Close()
	a := r.appender(r.stream(near), 0)
	for range 3 {
		id := r.message(near)
		a.mustAppend(&journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte("body")}},
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
		})
	}
	r.must(r.Journal.Settle(context.Background()))
	p := r.positions(agent)
	r.must(r.await(r.append(&journal.Entry{Slot: near, Effects: []journal.Effect{dropped(agent, r.feed(agent), 1)}})))
	r.must(r.Journal.Settle(context.Background()))
	var followed []uint64
	for entries, err := follower.Next(1); len(entries) > 0 || err != nil; entries, err = follower.Next(1) {
		r.must(err)
		followed = append(followed, entries[0].Position)
	}
	r.expect("a subscriber gets", followed, []uint64{p[0], p[2]})
}

// testSettle: what was appended before is applied in all journals, and a context ends the
// wait.
func testSettle(r *rig) {
	agents := []parley.AgentID{r.agent(near), r.agent(far), r.agent(farther)}
	for n := range 20 {
		e := r.numberedEntry(near, n, agents)
		e.Events, e.Slot = nil, near
		r.append(e)
		r.must(r.Journal.Settle(context.Background()))
		for _, agent := range agents {
			if got := len(r.feed(agent)); got != n+1 {
				r.Fatalf("after %d entries have settled, a feed has %d", n+1, got)
			}
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for r.Journal.Settle(over) == nil { // it may be faster than the look at the context
		r.append(r.numberedEntry(near, 0, agents))
	}
}
