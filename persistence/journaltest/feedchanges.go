package journaltest

import (
	"context"

	"parley/client/parley"
	"parley/journal"
)

// testFeedChanges: a view notices each change of a feed and of its receipts, from the
// journal of the feed and from another one, and notices that there was none.
func testFeedChanges(r *rig) {
	for _, agent := range []parley.AgentID{r.agent(near2), r.agent(far)} {
		a := r.appender(r.stream(near), 0)
		a.mustAppend(&journal.Entry{})
		before := r.commit()
		changed := func(what string) {
			r.Helper()
			r.must(r.Journal.Settle(context.Background()))
			r.expect(what+": the feed is unchanged", r.feedUnchanged(agent, before), false)
			if before = r.commit(); before > 0 { // 0: of a view of many instants
				r.until("a feed that rests is unchanged", func() bool { return r.feedUnchanged(agent, before) })
			}
		}
		id := r.message(near)
		old := r.Journal.View()
		a.mustAppend(&journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte("body")}},
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
		})
		changed("a message")
		r.expect("an older view shows what a later one does", old.FeedUnchanged(agent, before), false)
		old.Close()
		r.must(r.await(r.append(&journal.Entry{Slot: near, Effects: []journal.Effect{
			journal.Fanout{Kind: journal.StatusEntry, Ref: parley.AnyID(id), To: []parley.Seat{{Agent: agent, Number: 1}}},
		}})))
		changed("a part of a fan-out")
		r.recordReceipt(journal.RecordReceipt{Recipient: agent, Message: id, Position: r.positions(agent)[0], Receipts: journal.Receipts{ReadAt: 5}})
		changed("a receipt")
		r.must(r.await(r.append(&journal.Entry{Slot: near, Effects: []journal.Effect{dropped(agent, r.feed(agent), 0)}})))
		changed("a dropped entry")
		latest := r.Journal.Latest()
		r.expect("a view of many instants", latest.Commit(), uint64(0))
		latest.Close()
		r.reopen()
		before = r.commit()
		r.expect("the feed after a reopening is unchanged", r.feedUnchanged(agent, before), before > 0)
	}
}

// commit is the number of a commit that a new view shows.
func (r *reads) commit() (n uint64) {
	r.view(func(v journal.View) { n = v.Commit() })
	return n
}

func (r *reads) feedUnchanged(agent parley.AgentID, since uint64) (unchanged bool) {
	r.view(func(v journal.View) { unchanged = v.FeedUnchanged(agent, since) })
	return unchanged
}
