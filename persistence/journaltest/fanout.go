package journaltest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"parley/client/parley"
	"parley/journal"
)

func (r *rig) group(slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: journal.GroupStream, ID: parley.NewID[parley.AnyID](slot, r.Clock(), r.entropy())}
}

// seats returns the seats of n agents in all homes, the first one at near. The numbers
// have gaps, as if members had left.
func (r *rig) seats(n int) []parley.Seat {
	all := make([]parley.Seat, n)
	for i := range all {
		all[i] = parley.Seat{Agent: r.agent(SpreadSlot(i)), Number: uint32(i + i/50 + 1)}
	}
	return all
}

func (r *rig) broadcast() parley.MessageID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Zero() {
		r.last = parley.NewID[parley.MessageID](near, r.Clock(), [10]byte{})
	}
	r.last = parley.NextBroadcastID(r.last, r.Clock(), [10]byte{})
	return r.last
}

// broadcastEntry is an entry that sends one message to many agents.
func broadcastEntry(id parley.MessageID, text string, to []parley.Seat) *journal.Entry {
	return &journal.Entry{
		Records: []journal.Record{{ID: id, Data: []byte(text)}},
		Effects: []journal.Effect{journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(id), Note: []byte(text), To: to}},
	}
}

// feedTexts describes the entries of a feed.
func (r *reads) feedTexts(agent parley.AgentID) []string {
	r.Helper()
	var all []string
	for _, e := range r.feed(agent) {
		all = append(all, line(e.Kind, e.Ref, string(e.Note)))
	}
	return all
}

// waitForEntries waits until every feed has n entries, and no more.
func (r *rig) waitForEntries(to []parley.Seat, n int) {
	r.Helper()
	next := 0
	r.until(line(n, "entries for everybody"), func() bool {
		r.view(func(v journal.View) {
			for ; next < len(to); next++ {
				got := 0
				r.must(v.Feed(to[next].Agent, 0, ^uint64(0), func(journal.FeedEntry) bool { got++; return true }))
				if got > n {
					r.Fatalf("seat %d has %d entries, want %d", to[next].Number, got, n)
				}
				if got < n {
					return
				}
			}
		})
		return next == len(to)
	})
}

func testFanout(r *rig) {
	for _, n := range []int{1, 3, 300, less(1000, 2)} {
		to, id := r.seats(n), r.broadcast()
		talk := parley.ConversationID(r.message(near))
		a := r.appender(r.group(near), 0)
		e := broadcastEntry(id, "body", to)
		many := e.Effects[0].(journal.Fanout)
		many.Begins = true
		e.Effects = []journal.Effect{many, journal.Fanout{Kind: journal.StatusEntry, Ref: parley.AnyID(talk), Note: []byte("open"), To: to}}
		a.mustAppend(e)
		r.waitForEntries(to, 2)
		r.checkCopies(id, talk, to)
		if n == 300 {
			r.reopen()
			r.waitForEntries(to, 2)
			r.checkCopies(id, talk, to)
		}
	}
}

// checkCopies checks what a fan-out has written: one copy for each recipient, and
// the lists at the broadcast's home.
func (r *rig) checkCopies(id parley.MessageID, talk parley.ConversationID, to []parley.Seat) {
	r.Helper()
	for i, seat := range to {
		if i%17 != 0 && i%251 > 8 && i < len(to)-3 { // a sample that includes the ends of chunks
			continue
		}
		mine := parley.Copy(id, seat.Number)
		feed := r.feed(seat.Agent)
		r.expect("the feed", r.feedTexts(seat.Agent), []string{line(journal.CopyEntry, mine, "body"), line(journal.StatusEntry, talk, "open")})
		r.expect("untransferred", r.untransferred(seat.Agent, 0), []string{line(feed[0].Position, mine)})
		r.view(func(v journal.View) {
			for _, reader := range []parley.Slot{seat.Agent.Slot(), near} {
				to, position, found, err := v.Copy(reader, mine)
				if reader == near && position == 0 && r.homes > 1 && int(seat.Agent.Slot())*r.homes >= parley.Slots {
					position = feed[0].Position
				}
				r.expect("the copy", line(to, position, found, err), line(seat.Agent, feed[0].Position, true, nil))
				r.expect("the record", r.text(v, reader, id), "body true <nil>")
			}
			r.expect("entries that begin a conversation", line(feed[0].Begins, feed[1].Begins), "true false")
		})
	}
	last := to[len(to)-1].Number
	r.view(func(v journal.View) {
		for _, n := range []uint32{0, last + 1, last + 3*journal.FanoutChunk, 51} {
			if slices.ContainsFunc(to, func(s parley.Seat) bool { return s.Number == n }) {
				continue
			}
			_, _, found, err := v.Copy(near, parley.Copy(id, n))
			r.expect(line("a copy for seat", n), line(found, err), "false <nil>")
		}
		_, _, found, err := v.Copy(near, parley.Copy(r.broadcast(), 1))
		r.expect("a copy of what was never sent", line(found, err), "false <nil>")
		r.expect("its record", r.text(v, near, r.broadcast()), " false <nil>")
	})
}

func (r *reads) text(v journal.View, reader parley.Slot, id parley.MessageID) string {
	text := ""
	found, err := v.Broadcast(reader, id, func(record []byte) error { text = string(record); return nil })
	return line(text, found, err)
}

// testFanoutOrder makes a stream append several fan-outs and feed entries at once.
func testFanoutOrder(r *rig) {
	to := r.seats(560)
	a := r.appender(r.group(near), 0)
	want := make([][]string, len(to))
	every := func(kind journal.FeedKind, ref parley.MessageID, note string) {
		for i, seat := range to {
			mine := ref
			if kind == journal.CopyEntry {
				mine = parley.Copy(ref, seat.Number)
			}
			want[i] = append(want[i], line(kind, mine, note))
		}
	}
	one := func(i int, n int) *journal.Entry {
		id := r.message(near)
		want[i] = append(want[i], line(journal.MessageEntry, id, n))
		return &journal.Entry{
			Records: []journal.Record{{ID: id, Data: []byte("reply")}},
			Effects: []journal.Effect{journal.AppendFeed{To: to[i].Agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id), Note: fmt.Append(nil, n)}},
		}
	}
	const rounds = 6
	for n := range rounds {
		id := r.broadcast()
		every(journal.CopyEntry, id, line(n))
		e := broadcastEntry(id, line(n), to)
		if n%2 == 0 { // all in one entry: effects keep their order
			every(journal.StatusEntry, id, "changed")
			e.Effects = append(e.Effects, journal.Fanout{Kind: journal.StatusEntry, Ref: parley.AnyID(id), Note: []byte("changed"), To: to})
			answer := one(len(to)-1, n)
			e.Records, e.Effects = append(e.Records, answer.Records...), append(e.Effects, answer.Effects...)
			every(journal.GroupEntry, id, "again")
			e.Effects = append(e.Effects, journal.Fanout{Kind: journal.GroupEntry, Ref: parley.AnyID(id), Note: []byte("again"), To: to})
		}
		a.begin(e)
		for _, i := range []int{0, 1, 2, 3, 299, 300, 301, 302, 550} {
			a.begin(one(i, n))
		}
		switch n {
		case 2:
			r.reopen()
			a = r.appender(a.stream, 0)
		case 4:
			r.must(r.await(a.begin(&journal.Entry{})))
			r.crash()
			a = r.appender(a.stream, 0)
		}
	}
	for i, seat := range to {
		if len(r.feed(seat.Agent)) < len(want[i]) {
			r.until("all entries", func() bool { return len(r.feed(seat.Agent)) >= len(want[i]) })
		}
		r.expect(line("feed of seat", seat.Number), r.feedTexts(seat.Agent), want[i])
	}
	for _, i := range []int{0, 300, 550} { // the record of a reply that came by outbox has its position
		for _, e := range r.feed(to[i].Agent) {
			if e.Kind == journal.MessageEntry {
				r.view(func(v journal.View) {
					record, position, err := recordOf(v, to[i].Agent.Slot(), parley.MessageID(e.Ref))
					r.expect("a reply", line(string(record), position, err), line("reply", e.Position, nil))
				})
			}
		}
	}
}

// testFanoutSettled checks the first chunk as soon as the entry is released.
func testFanoutSettled(r *rig) {
	to := r.seats(1000)
	a := r.appender(r.group(near), 0)
	inTime := 0
	for n := range less(5, 2) {
		e := broadcastEntry(r.broadcast(), "body", to)
		if r.inTime(func() { a.mustAppend(e) }) {
			inTime++
			for _, seat := range to[:200] {
				if got := len(r.feed(seat.Agent)); got != n+1 {
					r.Fatalf("seat %d has %d entries at the answer, want %d", seat.Number, got, n+1)
				}
			}
		}
		r.waitForEntries(to, n+1)
	}
	if inTime == 0 {
		r.Skipf("this disk is too slow to tell: no answer came within %v", parley.SettleWait)
	}
}

// testArrived checks that all parts of fan-outs have been applied, at the home of each
// recipient, when the journal says that they have arrived there.
func testArrived(r *rig) {
	to := r.seats(1000)
	a := r.appender(r.group(near), 0)
	for n := range less(10, 3) {
		for range 2 {
			a.mustAppend(broadcastEntry(r.broadcast(), "body", to))
		}
		for i, seat := range slices.Backward(to) {
			if i%97 != 0 && i < len(to)-9 {
				continue
			}
			r.must(r.Journal.Arrived(context.Background(), near, seat.Agent.Slot()))
			r.expect(line("entries of seat", seat.Number), len(r.feed(seat.Agent)), 2*(n+1))
		}
	}
}

// testFanoutCrash simulates a power failure in the middle of fan-outs.
func testFanoutCrash(r *rig) {
	to := r.seats(less(1000, 600))
	group := r.group(near)
	sent := 0
	for round := range 3 {
		a := r.appender(group, uint64(len(r.events(group))))
		var released []<-chan error
		for range 3 {
			e := broadcastEntry(r.broadcast(), "body", to)
			e.Events = []journal.StoredEvent{storedEvent("sent")}
			released = append(released, a.begin(e))
		}
		for _, c := range released[:round] {
			r.must(r.await(c))
		}
		sent += round
		if round == 2 {
			r.reopen()
		} else {
			r.crash()
		}
		there := len(r.events(group))
		if there < sent {
			r.Fatalf("%d broadcasts were answered, %d are there", sent, there)
		}
		sent = there
		r.waitForEntries(to, sent)
	}
	for _, seat := range to {
		var refs []string
		for _, e := range r.feed(seat.Agent) {
			refs = append(refs, line(e.Ref))
		}
		if !slices.IsSorted(refs) || len(slices.Compact(refs)) != sent {
			r.Errorf("seat %d: %v", seat.Number, refs)
		}
	}
}

// testFollowingOrder follows feeds to which one entry appends before, between and after its
// fan-outs: subscribers get what the feed has, in its order.
func testFollowingOrder(r *rig) {
	to := r.seats(8)
	subs := make([]journal.Subscription, len(to))
	for i, seat := range to {
		subs[i] = r.Journal.Follow(seat.Agent, 0, func() {})
		defer subs[i].Close()
	}
	a := r.appender(r.group(near), 0)
	for n := range less(10, 3) {
		e := &journal.Entry{}
		for i := range 3 {
			for _, seat := range to[:4] {
				e.Effects = append(e.Effects, journal.AppendFeed{To: seat.Agent, Kind: journal.GroupEntry, Note: []byte(line("own", n, i))})
			}
			e.Effects = append(e.Effects, journal.Fanout{Kind: journal.GroupEntry, Note: []byte(line("all", n, i)), To: to[i:]})
		}
		e.Effects = append(e.Effects, journal.AppendFeed{To: to[5].Agent, Kind: journal.GroupEntry, Note: []byte(line("last", n))})
		a.mustAppend(e)
		for i, seat := range to {
			want := 3*(n+1) - max(0, 2-i)*(n+1)
			switch {
			case i < 4:
				want += 3 * (n + 1)
			case i == 5:
				want += n + 1
			}
			r.until("the entries are there", func() bool { return len(r.feed(seat.Agent)) == want })
		}
	}
	for i, seat := range to {
		var got, all []string
		before := uint64(0)
		for _, e := range r.feed(seat.Agent) {
			all = append(all, line(e.Position, string(e.Note)))
		}
		r.until("the subscriber has everything", func() bool {
			entries, err := subs[i].Next(3)
			r.must(err)
			for _, e := range entries {
				got = append(got, line(e.Position, string(e.Note)))
			}
			if subs[i].Position() < before {
				r.Errorf("seat %d: the position went back from %d to %d", seat.Number, before, subs[i].Position())
			}
			before = subs[i].Position()
			return len(got) >= len(all)
		})
		r.expect(line("what the subscriber of seat", seat.Number, "got"), got, all)
	}
}

// testFanoutFollowing follows feeds while broadcasts arrive.
func testFanoutFollowing(r *rig) {
	rounds := less(20, 10)
	to := r.seats(600)
	a := r.appender(r.group(near), 0)
	got := make(chan []string)
	following := []int{0, 1, 2, 400, 401, 599}
	for _, i := range following {
		news := make(chan struct{}, 1)
		sub := r.Journal.Follow(to[i].Agent, 0, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		go func() {
			var all []string
			for len(all) < rounds {
				<-news
				entries, err := sub.Next(100)
				if err != nil {
					all = append(all, line(err))
				}
				for _, e := range entries {
					record := string(e.Record)
					if e.Record == nil { // must be read
						v := r.Journal.View()
						record = r.text(v, to[i].Agent.Slot(), parley.MessageID(e.Ref).Broadcast())
						record = record[:len(record)-len(" true <nil>")]
						v.Close()
					}
					all = append(all, line(e.Kind, e.Ref.Seat(), record))
				}
			}
			sub.Close()
			got <- append(all, line(to[i].Number))
		}()
	}
	for n := range rounds {
		e := broadcastEntry(r.broadcast(), line(n), to)
		if n%3 == 0 {
			a.mustAppend(e)
		} else {
			a.begin(e)
		}
	}
	for range following {
		all := <-got
		for n, text := range all[:rounds] {
			r.expect("what a follower gets", text, line(journal.CopyEntry, all[rounds], n))
		}
	}
}

func testCopyReceipts(r *rig) {
	to, id := r.seats(8), r.broadcast()
	a := r.appender(r.group(near), 0)
	a.mustAppend(broadcastEntry(id, "body", to))
	r.waitForEntries(to, 1)
	receipts := func() {
		r.Helper()
		for i, seat := range to {
			at := r.positions(seat.Agent)[0]
			mine := parley.Copy(id, seat.Number)
			want, untransferred := journal.Receipts{TransferredAt: 5, ReadAt: 7}, 0
			if i == 0 {
				want, untransferred = journal.Receipts{}, 1
			}
			r.expect("untransferred", len(r.untransferred(seat.Agent, 0)), untransferred)
			r.view(func(v journal.View) {
				got, err := v.Receipts(journal.RecordReceipt{Recipient: seat.Agent, Position: at})
				r.expect("receipts", line(got, err), line(want, nil))
				got, err = v.Receipts(journal.RecordReceipt{Message: mine})
				r.expect("receipts where the broadcast lives", line(got, err), line(journal.Receipts{}, nil))
			})
		}
	}
	for _, seat := range to[1:] {
		receipt := journal.RecordReceipt{Recipient: seat.Agent, Message: parley.Copy(id, seat.Number), Position: r.positions(seat.Agent)[0], Copy: true}
		receipt.Receipts = journal.Receipts{TransferredAt: 9}
		r.recordReceipt(receipt)
		receipt.Receipts = journal.Receipts{TransferredAt: 5, ReadAt: 7}
		a.mustAppend(&journal.Entry{Effects: []journal.Effect{receipt}}) // from the broadcast's home
		r.until("the receipt", func() bool {
			read := false
			r.view(func(v journal.View) {
				m, _ := v.Receipts(journal.RecordReceipt{Recipient: seat.Agent, Position: receipt.Position})
				read = m.ReadAt != 0
			})
			return read
		})
	}
	receipts()
	r.reopen()
	receipts()
}

// testUntransferredCopies: copies and messages are listed in the order of the feed,
// without the copies that count as transferred.
func testUntransferredCopies(r *rig) {
	to := r.seats(8)
	a := r.appender(r.group(near), 0)
	for _, seat := range []parley.Seat{to[1], to[7]} {
		r.expect("nothing yet", len(r.untransferred(seat.Agent, 0)), 0)
	}
	for n := range 4 {
		a.mustAppend(broadcastEntry(r.broadcast(), "body", to))
		a.mustAppend(&journal.Entry{Effects: []journal.Effect{
			journal.AppendFeed{To: to[1].Agent, Kind: journal.MessageEntry, Ref: parley.AnyID(r.message(near))},
			journal.AppendFeed{To: to[7].Agent, Kind: journal.MessageEntry, Ref: parley.AnyID(r.message(near))},
		}})
		r.waitForEntries(to[7:], 2*n+2)
		r.waitForEntries(to[1:2], 2*n+2)
	}
	for _, seat := range []parley.Seat{to[1], to[7]} {
		feed := r.feed(seat.Agent)
		var want []string
		for _, e := range feed {
			want = append(want, line(e.Position, parley.MessageID(e.Ref)))
		}
		r.expect("all", r.untransferred(seat.Agent, 0), want)
		for _, i := range []int{2, 5} { // a copy, a message
			r.recordReceipt(journal.RecordReceipt{
				Recipient: seat.Agent, Message: parley.MessageID(feed[i].Ref), Position: feed[i].Position,
				Receipts: journal.Receipts{TransferredAt: 5}, Copy: feed[i].Kind == journal.CopyEntry,
			})
		}
		want = slices.Concat(want[:2], want[3:5], want[6:])
		r.expect("all but those with receipts", r.untransferred(seat.Agent, 0), want)
		r.expect("from the fourth entry on", r.untransferred(seat.Agent, feed[3].Position), want[2:])
		for _, e := range []journal.FeedEntry{feed[0], feed[1], feed[3]} {
			r.recordReceipt(journal.RecordReceipt{
				Recipient: seat.Agent, Message: parley.MessageID(e.Ref), Position: e.Position,
				Receipts: journal.Receipts{TransferredAt: 5}, Copy: e.Kind == journal.CopyEntry,
			})
		}
		upTo := binary.BigEndian.AppendUint64(nil, feed[3].Position)
		done := r.append(&journal.Entry{Slot: seat.Agent.Slot(), Rows: []journal.Row{{
			Slot: seat.Agent.Slot(), Table: journal.TransferredTable, Key: seat.Agent.Bytes(), Value: upTo,
		}}})
		r.must(r.await(done))
		r.expect("beyond what counts as transferred", r.untransferred(seat.Agent, 0), want[3:])
	}
}
