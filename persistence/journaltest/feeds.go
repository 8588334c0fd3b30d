package journaltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/client/parley"
	"parley/journal"
)

func (r *reads) positions(agent parley.AgentID) []uint64 {
	var all []uint64
	for _, e := range r.feed(agent) {
		all = append(all, e.Position)
	}
	return all
}

func testFeed(r *rig) {
	speakers := []*appender{r.appender(r.stream(near), 0), r.appender(r.stream(far), 0)}
	for _, agent := range []parley.AgentID{r.agent(near2), r.agent(far)} {
		var want []string
		highest := uint64(0)
		for i := range 12 {
			kind, note := journal.MessageEntry, journal.TypeHash("type")
			if i%3 == 0 {
				kind, note = journal.StatusEntry, []byte(line("status", i))
			}
			ref := parley.AnyID(r.message(near))
			a := speakers[i%2]
			// The sender's clock jumps back and forth.
			at := r.Clock().Add(time.Duration(i%5) * time.Minute)
			a.mustAppend(&journal.Entry{At: at, Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: kind, Ref: ref, Note: note}}})
			want = append(want, line(kind, ref, note))
			r.until("the entry", func() bool { return len(r.feed(agent)) == i+1 })
			last := r.feed(agent)[i]
			if last.Position <= highest || last.At < at.UnixMilli() {
				r.Errorf("entry %d at %d of %d, after %d", i, last.Position, last.At, highest)
			}
			// A view may show an entry a moment before it is known to be durable.
			r.until("a durable entry", func() bool { return r.Journal.DurablePosition(agent) >= last.Position })
			highest = last.Position
			switch i {
			case 5:
				r.reopen()
			case 8:
				r.crash()
			default:
				continue
			}
			speakers = []*appender{r.appender(speakers[0].stream, 0), r.appender(speakers[1].stream, 0)}
		}
		var got []string
		arrival := int64(0)
		for _, e := range r.feed(agent) {
			got = append(got, line(e.Kind, e.Ref, e.Note))
			if e.At < arrival {
				r.Errorf("arrival goes back from %d to %d", arrival, e.At)
			}
			arrival = e.At
		}
		r.expect("feed", got, want)
	}
}

// testFeedPages reads pages of a feed in which other entries lie between the messages, and pages of
// the messages alone.
func testFeedPages(r *rig) {
	agent, other := r.agent(near), r.agent(near)
	a := r.appender(r.stream(near), 0)
	kinds := []journal.FeedKind{journal.StatusEntry, journal.MessageEntry, journal.CopyEntry, journal.GroupEntry, journal.ReceiptEntry, journal.MessageEntry, journal.StatusEntry, journal.StatusEntry, journal.CopyEntry}
	for _, kind := range kinds {
		for _, to := range []parley.AgentID{agent, other} {
			a.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: to, Kind: kind, Ref: parley.AnyID(r.message(near))}}})
		}
	}
	p := r.positions(agent)
	messages := func(page []uint64) (only []uint64) {
		for _, at := range page {
			if kinds[slices.Index(p, at)].BringsMessage() {
				only = append(only, at)
			}
		}
		return only
	}
	pages := []struct {
		from, upTo uint64
		want       []uint64
	}{
		{0, ^uint64(0), p},
		{0, p[8], p},
		{0, p[8] - 1, p[:8]},
		{p[2], p[5], p[3:6]},
		{p[2] - 1, p[2], p[2:3]},
		{p[5], p[2], nil},
		{p[8], ^uint64(0), nil},
		{^uint64(0), ^uint64(0), nil},
	}
	r.view(func(v journal.View) {
		for _, page := range pages {
			var got []uint64
			r.must(v.Feed(agent, page.from, page.upTo, func(e journal.FeedEntry) bool { got = append(got, e.Position); return true }))
			r.expect(line("feed from", page.from, "to", page.upTo), got, page.want)
			got = nil
			r.must(v.Inbox(agent, page.from, page.upTo, func(e journal.FeedEntry) bool { got = append(got, e.Position); return true }))
			r.expect(line("inbox from", page.from, "to", page.upTo), got, messages(page.want))
		}
		for before, want := range map[uint64][]uint64{0: p, ^uint64(0): p, p[8]: p[:8], p[4]: p[:4], p[0]: nil, 1: nil} {
			var got []uint64
			r.must(v.InboxBefore(agent, before, func(e journal.FeedEntry) bool { got = append(got, e.Position); return true }))
			slices.Reverse(got)
			r.expect(line("inbox before", before), got, messages(want))
		}
		var got []uint64
		r.must(v.Feed(agent, 0, p[8], func(e journal.FeedEntry) bool { got = append(got, e.Position); return len(got) < 3 }))
		r.expect("the oldest three", got, p[:3])
		got = nil
		r.must(v.InboxBefore(agent, 0, func(e journal.FeedEntry) bool { got = append(got, e.Position); return len(got) < 3 }))
		r.expect("the newest three messages", got, []uint64{p[8], p[5], p[2]})
	})
}

func testRecords(r *rig) {
	a := r.appender(r.stream(near), 0)
	same, away, away2 := r.agent(near2), r.agent(far), r.agent(far)
	send := func(id parley.MessageID, to ...parley.AgentID) {
		e := &journal.Entry{Records: []journal.Record{{ID: id, Data: []byte("body of " + id.String())}}}
		for _, agent := range to {
			e.Effects = append(e.Effects, journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)})
		}
		a.mustAppend(e)
	}
	direct, remote, both, kept := r.message(near), r.message(near), r.message(near), r.message(near)
	send(direct, same)
	send(remote, away)
	send(both, same, away, away2)
	send(kept)
	r.until("the far feed", func() bool { return len(r.feed(away2)) == 1 })
	check := func() {
		r.Helper()
		r.view(func(v journal.View) {
			for _, c := range []struct {
				reader   parley.Slot
				id       parley.MessageID
				position uint64
			}{
				{near, direct, r.positions(same)[0]},
				{near2, direct, r.positions(same)[0]},
				{far, remote, r.positions(away)[0]},
				{near, both, r.positions(same)[1]},
				{near, kept, 0},
			} {
				record, position, err := recordOf(v, c.reader, c.id)
				r.expect(line("record for", c.reader), line(string(record), position, err), line("body of "+c.id.String(), c.position, nil))
			}
			for _, c := range []struct {
				reader parley.Slot
				id     parley.MessageID
			}{{near, remote}, {far, both}} {
				record, _, err := recordOf(v, c.reader, c.id)
				r.expect(line("record for", c.reader), line(string(record), err), line("body of "+c.id.String(), nil))
			}
			record, _, err := recordOf(v, far, kept)
			r.expect("a record that nobody far needs", len(record) > 0 || err != nil, r.homes == 1)
			record, position, err := recordOf(v, near, r.message(near))
			r.expect("a record that is not", line(record, position, err), "[] 0 <nil>")
		})
	}
	check()
	r.reopen()
	check()
}

func testUntransferred(r *rig) {
	a := r.appender(r.stream(near), 0)
	for _, agent := range []parley.AgentID{r.agent(near2), r.agent(far)} {
		var want []string
		for i := range 5 {
			id := r.message(near)
			a.mustAppend(&journal.Entry{Effects: []journal.Effect{
				journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)},
				journal.AppendFeed{To: agent, Kind: journal.StatusEntry, Ref: parley.AnyID(id)},
			}})
			r.until("the entries", func() bool { return len(r.feed(agent)) == 2*i+2 })
			want = append(want, line(r.feed(agent)[2*i].Position, id))
		}
		r.expect("untransferred", r.untransferred(agent, 0), want)
		feed := r.feed(agent)
		r.expect("untransferred from the third on", r.untransferred(agent, feed[4].Position), want[2:])
		r.expect("untransferred beyond the third", r.untransferred(agent, feed[4].Position+1), want[3:])
		r.recordReceipt(journal.RecordReceipt{Recipient: agent, Message: parley.MessageID(feed[2].Ref), Position: feed[2].Position, Receipts: journal.Receipts{TransferredAt: 5}})
		want = slices.Delete(want, 1, 2)
		r.expect("untransferred after a receipt", r.untransferred(agent, 0), want)
	}
}

// recordReceipt records receipts without an actor.
func (r *rig) recordReceipt(m journal.RecordReceipt) {
	r.Helper()
	if err := r.await(r.append(&journal.Entry{Slot: m.Recipient.Slot(), Effects: []journal.Effect{m}})); err != nil {
		r.Fatal(err)
	}
}

// testAnnounced: a message or copy that a webhook announced stays untransferred
// until it is transferred, whichever comes first.
func testAnnounced(r *rig) {
	a, g := r.appender(r.stream(near), 0), r.appender(r.group(near), 0)
	id, mass := r.message(near), r.broadcast()
	direct, seats := []parley.AgentID{r.agent(near2), r.agent(far)}, r.seats(2)
	for _, agent := range direct {
		a.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}}})
	}
	g.mustAppend(broadcastEntry(mass, "body", seats))
	r.waitForEntries(seats, 1)
	receipts := []journal.RecordReceipt{}
	for _, agent := range direct {
		r.until("the entry", func() bool { return len(r.feed(agent)) == 1 })
		receipts = append(receipts, journal.RecordReceipt{Recipient: agent, Message: id, Position: r.positions(agent)[0]})
	}
	for _, seat := range seats {
		mine := parley.Copy(mass, seat.Number)
		receipts = append(receipts, journal.RecordReceipt{Recipient: seat.Agent, Message: mine, Position: r.positions(seat.Agent)[0], Copy: true})
	}
	untransferred := func(when string, want int) {
		r.Helper()
		for _, m := range receipts {
			r.expect("untransferred by "+m.Recipient.String()+" "+when, len(r.untransferred(m.Recipient, 0)), want)
		}
	}
	say := func(made journal.Receipts) {
		for _, m := range receipts {
			m.Receipts = made
			r.recordReceipt(m)
		}
	}
	say(journal.Receipts{AnnouncedAt: 5})
	untransferred("after the news of it", 1)
	r.crash()
	untransferred("after a crash", 1)
	say(journal.Receipts{TransferredAt: 9, TransferredBy: journal.StreamChannel})
	untransferred("after it was transferred", 0)
	say(journal.Receipts{AnnouncedAt: 3})
	untransferred("after more news", 0)
	r.view(func(v journal.View) {
		for _, m := range receipts {
			got, err := v.Receipts(m)
			r.expect("receipts", line(got, err), line(journal.Receipts{TransferredAt: 9, TransferredBy: journal.StreamChannel, AnnouncedAt: 3}, nil))
		}
	})
}

func testReceipts(r *rig) {
	steps := []journal.Receipts{
		{TransferredAt: 70, TransferredBy: journal.InboxChannel},
		{TransferredAt: 50, TransferredBy: journal.SyncChannel, ReadAt: 90},
		{ReadAt: 60},
		{AnnouncedAt: 40},
		{TransferredAt: 80, TransferredBy: journal.StreamChannel, ReadAt: 95},
		{TransferredAt: 50, TransferredBy: journal.StreamChannel, AnnouncedAt: 45},
	}
	a := r.appender(r.stream(near), 0)
	all := journal.Receipts{TransferredAt: 50, TransferredBy: journal.StreamChannel, AnnouncedAt: 40, ReadAt: 60}
	check := func(reader parley.Slot, to parley.AgentID, id parley.MessageID) {
		r.Helper()
		r.until("receipts", func() bool {
			var receipts journal.Receipts
			r.view(func(v journal.View) { receipts, _ = receiptsOf(v, reader, to, id) })
			return receipts == all
		})
	}
	type message struct {
		to parley.AgentID
		id parley.MessageID
	}
	var withReceipts []message
	for round := range 6 {
		order := rand.New(rand.NewPCG(1, uint64(round))).Perm(len(steps))
		for _, agent := range []parley.AgentID{r.agent(near2), r.agent(far)} {
			id := r.message(near)
			a.mustAppend(&journal.Entry{
				Records: []journal.Record{{ID: id, Data: []byte("body")}},
				Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
			})
			r.until("the entry", func() bool { return len(r.feed(agent)) == 1 })
			at := r.positions(agent)[0]
			r.view(func(v journal.View) {
				receipts, err := receiptsOf(v, agent.Slot(), agent, id)
				r.expect("no receipts yet", line(receipts, err), line(journal.Receipts{}, nil))
			})
			for _, i := range order {
				r.recordReceipt(journal.RecordReceipt{Recipient: agent, Message: id, Position: at, Receipts: steps[i]})
			}
			check(agent.Slot(), agent, id)
			check(near, agent, id) // at the home of the conversation
			withReceipts = append(withReceipts, message{agent, id})
			// The home of the conversation may record receipts too.
			a.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.RecordReceipt{Recipient: agent, Message: id, Position: at, Receipts: journal.Receipts{TransferredAt: 60}}}})
			r.view(func(v journal.View) {
				var beside []string
				r.must(v.FeedReceipts(agent, at, at, func(position uint64, m journal.Receipts) { beside = append(beside, line(position, m)) }))
				r.must(v.FeedReceipts(agent, at+1, ^uint64(0), func(position uint64, m journal.Receipts) { beside = append(beside, line("beyond", position, m)) }))
				r.expect("receipts beside the feed", beside, []string{line(at, all)})
			})
		}
		if round == 3 {
			r.reopen()
			a = r.appender(a.stream, 0)
		}
	}
	for _, m := range withReceipts {
		check(near, m.to, m.id)
		check(m.to.Slot(), m.to, m.id)
	}
}

func testFollowing(r *rig) {
	const each, publishers, followers = 150, 4, 12
	agents := []parley.AgentID{r.agent(near), r.agent(far)}
	var publishing, following sync.WaitGroup
	got := make([][]uint64, followers)
	for i := range followers {
		following.Go(func() { got[i] = r.follow(agents[i%2], i, publishers*each) })
	}
	for p := range publishers {
		a := r.appender(r.stream(SpreadSlot(p)), 0)
		publishing.Go(func() {
			for i := range each {
				released := a.begin(&journal.Entry{Effects: []journal.Effect{
					journal.AppendFeed{To: agents[i%2], Kind: journal.StatusEntry, Ref: a.stream.ID},
					journal.AppendFeed{To: agents[1-i%2], Kind: journal.MessageEntry, Ref: a.stream.ID},
				}})
				if i%40 == 0 {
					<-released
				}
			}
		})
	}
	publishing.Wait()
	following.Wait()
	for i := range followers {
		if want := r.positions(agents[i%2]); !slices.Equal(got[i], want) {
			r.Errorf("follower %d got %d entries, the feed has %d: %s", i, len(got[i]), len(want), firstDifference(got[i], want))
		}
	}
}

// follow reads a feed to its end. manner determines whether the reader is fast, lags,
// starts late, reads one entry at a time, or unsubscribes and returns.
func (r *rig) follow(agent parley.AgentID, manner, total int) []uint64 {
	news := make(chan struct{}, 1)
	notify := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	time.Sleep(time.Duration(manner) * time.Millisecond)
	sub := r.Journal.Follow(agent, 0, notify)
	defer func() { sub.Close() }()
	limit := []int{1, 7, 1000}[manner%3]
	var got []uint64
	for len(got) < total {
		entries, err := sub.Next(limit)
		if err != nil || len(entries) > limit {
			r.Errorf("follower %d: %d entries of at most %d (%v)", manner, len(entries), limit, err)
			return got
		}
		for _, e := range entries {
			got = append(got, e.Position)
		}
		if len(got) > 0 && sub.Position() < got[len(got)-1] {
			r.Errorf("follower %d stands at %d and was given %d", manner, sub.Position(), got[len(got)-1])
		}
		if manner%4 == 1 && len(entries) > 0 {
			time.Sleep(3 * time.Millisecond)
		}
		if manner%5 == 4 && len(entries) > 0 {
			sub.Close()
			sub = r.Journal.Follow(agent, sub.Position(), notify)
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-news:
		case <-time.After(patience * time.Millisecond):
			return got
		}
	}
	return got
}

func firstDifference(got, want []uint64) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("place %d has %d, want %d", i, got[i], want[i])
		}
	}
	return "the shorter is the beginning of the longer"
}

func testFollowingFrom(r *rig) {
	agent := r.agent(near)
	a := r.appender(r.stream(near), 0)
	announce := func(text string) {
		id := r.message(near)
		a.mustAppend(&journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte(text)}},
			Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
		})
	}
	announce("1")
	announce("2")
	announce("3")
	p := r.positions(agent)
	notified := make(chan struct{}, 100)
	all := r.Journal.Follow(agent, 0, func() { notified <- struct{}{} })
	some := r.Journal.Follow(agent, p[1], func() {})
	none := r.Journal.Follow(agent, r.Journal.DurablePosition(agent), func() {})
	next := func(s journal.Subscription, limit int) []uint64 {
		entries, err := s.Next(limit)
		r.must(err)
		var got []uint64
		for _, e := range entries {
			got = append(got, e.Position)
		}
		return got
	}
	r.expect("all but the last", next(all, 2), p[:2])
	r.expect("the last", next(all, 2), p[2:])
	r.expect("no more", next(all, 2), "[]")
	r.expect("from the second on", next(some, 9), p[2:])
	r.expect("from the durable position on", next(none, 9), "[]")
	announce("4")
	if len(notified) == 0 {
		r.Error("an entry was released and the subscriber was not notified")
	}
	entries, err := none.Next(9)
	r.must(err)
	if len(entries) != 1 || string(entries[0].Record) != "4" && !(r.Follower && entries[0].Record == nil) || entries[0].Position <= p[2] {
		r.Errorf("live: got %v", entries)
	}
	all.Close()
	for len(notified) > 0 {
		<-notified
	}
	announce("5")
	r.expect("told after the end", len(notified), 0)
	some.Close()
	none.Close()
}
