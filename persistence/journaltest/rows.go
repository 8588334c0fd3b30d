package journaltest

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"parley/client/parley"
	"parley/journal"
)

func testDurable(r *rig) {
	a := r.appender(r.stream(near), 0)
	agent, id := r.agent(near), r.message(near)
	for i := range 20 {
		a.mustAppend(&journal.Entry{
			Events: []journal.StoredEvent{storedEvent(line(i))},
			Rows:   []journal.Row{row(near, journal.RosterTable, line(i), "kept")},
		})
	}
	a.mustAppend(&journal.Entry{
		Records: []journal.Record{{ID: id, Data: []byte("body")}},
		Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id)}},
	})
	seen := r.feed(agent)[0]
	r.recordReceipt(journal.RecordReceipt{Recipient: agent, Message: id, Position: seen.Position, Receipts: journal.Receipts{TransferredAt: 4}})
	r.crash()
	r.expect("events", r.events(a.stream), numbers(20))
	for i := range 20 {
		r.expect("a row", r.row(near, journal.RosterTable, line(i)), "kept")
	}
	r.expect("the feed", r.positions(agent), []uint64{seen.Position})
	r.expect("untransferred", len(r.untransferred(agent, 0)), 0)
	r.view(func(v journal.View) {
		receipts, err := receiptsOf(v, near, agent, id)
		record, position, messageErr := recordOf(v, near, id)
		r.expect("receipts", line(receipts, err), line(journal.Receipts{TransferredAt: 4}, nil))
		r.expect("record", line(string(record), position, messageErr), line("body", seen.Position, nil))
	})
	if durable := r.Journal.DurablePosition(agent); durable < seen.Position {
		r.Errorf("durable position %d, but position %d was given", durable, seen.Position)
	}
	if r.Journal.Trouble() != nil {
		r.Error("a quiet disk is said to stall")
	}
}

func (r *rig) firings() []firing {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.fired
	r.fired = nil
	return all
}

func testTimers(r *rig) {
	owner := r.appender(r.stream(near), 0)
	var want []firing
	for i := range 4 {
		want = append(want, firing{r.stream(near), r.Clock().Add(time.Hour + time.Duration(i)*time.Second)})
	}
	tomorrow := firing{r.stream(near), r.Clock().Add(24 * time.Hour)}
	for _, i := range []int{2, 0, 3, 1} {
		owner.mustAppend(&journal.Entry{Timers: []journal.Timer{{Due: want[i].due, Stream: want[i].stream}}})
	}
	owner.mustAppend(&journal.Entry{Timers: []journal.Timer{{Due: tomorrow.due, Stream: tomorrow.stream}}})
	time.Sleep(1200 * time.Millisecond)
	r.expect("fired before they are due", r.firings(), "[]")
	r.Advance(2 * time.Hour)
	var got []firing
	r.until("timers that are due", func() bool { got = append(got, r.firings()...); return len(got) >= 4 })
	r.expect("fired", got[:4], want)
	r.reopen()
	got = nil
	r.until("timers that nobody cancelled", func() bool { got = append(got, r.firings()...); return len(got) >= 4 })
	r.expect("fired again", got[:4], want)
	owner = r.appender(owner.stream, 0)
	e := &journal.Entry{}
	for _, f := range want[:3] {
		e.Timers = append(e.Timers, journal.Timer{Due: f.due, Stream: f.stream, Cancel: true})
	}
	owner.mustAppend(e)
	time.Sleep(50 * time.Millisecond) // a tick may be in progress
	r.firings()
	got = nil
	r.until("the one that is left", func() bool { got = append(got, r.firings()...); return len(got) >= 1 })
	r.expect("fired after the others are cancelled", got, want[3:])
}

func testCounts(r *rig) {
	org := parley.NewID[parley.OrgID](near, r.Clock(), r.entropy())
	other := parley.NewID[parley.OrgID](near, r.Clock(), r.entropy())
	for _, slot := range []parley.Slot{near, near2, far, farther} {
		a := r.appender(r.stream(slot), 0)
		for range 5 {
			a.begin(&journal.Entry{Counts: []journal.Count{{Org: org, Day: 7, N: 2, Bytes: 48}, {Org: org, Day: 8, N: 1, Part: 1}}})
		}
		a.mustAppend(&journal.Entry{Counts: []journal.Count{
			{Org: org, Day: 7, N: -3},
			{Org: org, Day: 8, Bytes: -16},
			{Org: other, Day: 7, N: 1, Bytes: journal.CountedBytesMax / 4},
			{Org: org, Day: 7, N: 1, Of: journal.CountedChanges},
			{Org: org, Day: 7, N: 2, Of: journal.CountedInvitations},
			{Org: org, Day: 8, N: 3, Of: journal.CountedKeyChanges},
			{Org: org, Day: 8, N: 2, Of: journal.CountedReports},
		}})
	}
	check := func() {
		r.Helper()
		r.view(func(v journal.View) {
			const stored = 4 * (5*48 - 16)
			for day, want := range map[uint32]journal.Usage{
				6: {Stored: stored}, 7: {Messages: 28, Changes: 4, Invitations: 8, Stored: stored}, 8: {Messages: 20, KeyChanges: 12, Reports: 8, Stored: stored},
			} {
				used, err := v.Used(org, day)
				r.expect(line("used on day", day), line(used, err), line(want, nil))
			}
			used, err := v.Used(other, 7)
			r.expect("used by another", line(used, err), line(journal.Usage{Messages: 4, Stored: journal.CountedBytesMax}, nil))
		})
	}
	check()
	r.reopen()
	check()
	r.crash()
	check()
}

func testAdmit(r *rig) {
	if r.Moving {
		r.Skip("each leader admits by itself")
	}
	fill := func(size int) (releases []func()) {
		for range 1 << 22 {
			release, err := r.Journal.Admit(near, size)
			if err != nil {
				if !errors.Is(err, parley.ErrOverloaded) {
					r.Errorf("refused with %v", err)
				}
				return releases
			}
			releases = append(releases, release)
		}
		r.Fatal("there are no bounds")
		return nil
	}
	for _, size := range []int{0, 1 << 20} {
		held := fill(size)
		if len(held) == 0 {
			r.Fatalf("nothing of %d bytes is admitted", size)
		}
		if release, err := r.Journal.Admit(far, size); (err == nil) != (r.homes > 1) {
			r.Errorf("another home: %v", err)
		} else if err == nil {
			release()
		}
		// Admit bounds clients: the journal itself still accepts entries.
		r.appender(r.stream(near), 0).mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("x")}})
		held[0]()
		again, err := r.Journal.Admit(near, size)
		r.must(err)
		if _, err := r.Journal.Admit(near, size); err == nil {
			r.Error("one was given back, two were admitted")
		}
		again()
		for _, release := range held[1:] {
			release()
		}
		full := fill(size)
		r.expect("room when all is given back", len(full), len(held))
		for _, release := range full {
			release()
		}
	}
	if _, err := r.Journal.Admit(near, 1<<40); !errors.Is(err, parley.ErrOverloaded) {
		r.Errorf("an entry beyond all bounds: %v", err)
	}
}

func testRows(r *rig) {
	a := r.appender(r.stream(near), 0)
	e := &journal.Entry{}
	for _, key := range []string{"a", "b", "ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff", "c", ""} {
		e.Rows = append(e.Rows, row(near, journal.NameTable, key, "="+key))
	}
	e.Rows = append(e.Rows, row(near, journal.SlugTable, "bz", "x"), row(near, journal.RosterTable, "bz", "x"), row(near2, journal.NameTable, "bz", "x"))
	e.Rows = append(e.Rows, row(near, journal.NameTable, "bd", "x"), journal.Row{Slot: near, Table: journal.NameTable, Key: []byte("bd"), Delete: true})
	a.mustAppend(e)
	r.expect("a row", r.row(near, journal.NameTable, "bb"), "=bb")
	r.expect("a row taken away", r.row(near, journal.NameTable, "bd"), "-")
	r.expect("a row that is not", r.row(far, journal.NameTable, "bb"), "-")
	scans := []struct {
		prefix, beyond string
		reverse        bool
		want           []string
	}{
		{"b", "-", false, []string{"b", "ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff"}},
		{"b", "-", true, []string{"b\xff\xff", "b\xff", "bc", "bbb", "bb", "ba", "b"}},
		{"b", "bb", false, []string{"bbb", "bc", "b\xff", "b\xff\xff"}},
		{"b", "bb", true, []string{"ba", "b"}},
		{"b", "b0", false, []string{"ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff"}},
		{"b", "b\xff\xff", false, nil},
		{"b", "b", true, nil},
		{"b", "a", false, []string{"b", "ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff"}},
		{"b", "a", true, nil},
		{"b", "c", false, nil},
		{"b", "c", true, []string{"b\xff\xff", "b\xff", "bc", "bbb", "bb", "ba", "b"}},
		{"b\xff", "-", false, []string{"b\xff", "b\xff\xff"}},
		{"", "-", false, []string{"", "a", "b", "ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff", "c"}},
		{"", "", false, []string{"a", "b", "ba", "bb", "bbb", "bc", "b\xff", "b\xff\xff", "c"}},
		{"x", "-", false, nil},
	}
	r.view(func(v journal.View) {
		for _, s := range scans {
			beyond := []byte(s.beyond)
			if s.beyond == "-" {
				beyond = nil
			}
			var got []string
			r.must(v.Rows(near, journal.NameTable, []byte(s.prefix), beyond, s.reverse, func(k, value []byte) bool {
				if string(value) != "="+string(k) {
					r.Errorf("row %q has value %q", k, value)
				}
				got = append(got, string(k))
				return true
			}))
			if !slices.Equal(got, s.want) {
				r.Errorf("prefix %q beyond %q reverse %v: got %q, want %q", s.prefix, s.beyond, s.reverse, got, s.want)
			}
		}
		n := 0
		r.must(v.Rows(near, journal.NameTable, nil, nil, false, func(_, _ []byte) bool { n++; return n < 3 }))
		r.expect("a scan that is stopped", n, 3)
		value, found, err := v.Row(near, journal.NameTable, []byte("ba"))
		r.expect("a row in the view", line(string(value), found, err), "=ba true <nil>")
	})
}

func testKeysAndVersions(r *rig) {
	s := r.stream(near)
	version := func(s journal.Stream) (n uint64) {
		r.view(func(v journal.View) {
			var err error
			n, err = v.Version(s)
			r.must(err)
		})
		return n
	}
	r.expect("the version of no state", version(s), 0)
	a, seen := r.appender(s, 0), map[uint64]string{0: "none"}
	for _, state := range []string{"one", "two", "one", "a longer state"} {
		a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("e")}, State: []byte(state)})
		now := version(s)
		if seen[now] != "" {
			r.Errorf("the version of %q is that of %q", state, seen[now])
		}
		seen[now] = state
	}
	last := version(s)
	a.mustAppend(&journal.Entry{Rows: []journal.Row{
		row(near, journal.CardTable, "0123456789abcdef", "x"), row(near, journal.RosterTable, "other", "x"), row(near2, journal.CardTable, "0123456789abcdeg", "y"),
	}})
	far := r.appender(r.stream(far), 0)
	far.mustAppend(&journal.Entry{Rows: []journal.Row{row(far.stream.Slot(), journal.CardTable, "0123456789abcdeh", "z")}})
	r.reopen()
	r.expect("the version after a restart", version(s), last)
	r.view(func(v journal.View) {
		var keys []string
		r.must(v.Keys(journal.CardTable, func(key []byte) bool {
			keys = append(keys, string(key))
			return true
		}))
		slices.Sort(keys)
		r.expect("the keys of a table", keys, "[0123456789abcdef 0123456789abcdeg 0123456789abcdeh]")
		n := 0
		r.must(v.Keys(journal.CardTable, func([]byte) bool { n++; return n < 2 }))
		r.expect("a list that is stopped", n, 2)
	})
}

func testForgetting(r *rig) {
	today := journal.Day(r.Clock())
	key := func(day uint32) string {
		return string(binary.BigEndian.AppendUint32(nil, day)) + "key"
	}
	known := func(from, to int) string {
		out := ""
		for d := from; d <= to; d++ {
			for _, slot := range []parley.Slot{near, near2, far} {
				once, spent := r.row(slot, journal.OnceTable, key(uint32(int(today)+d))), r.row(slot, journal.SpentTable, key(uint32(int(today)+d)))
				if out += once; once != spent {
					out += " and " + spent
				}
			}
		}
		return out
	}
	// The first sweep may have ended already. The next one runs when the journal is
	// opened again.
	for _, slot := range []parley.Slot{near, near2, far} {
		a := r.appender(r.stream(slot), 0)
		e := &journal.Entry{}
		for d := -5; d <= 1; d++ {
			e.Rows = append(e.Rows,
				row(slot, journal.OnceTable, key(uint32(int(today)+d)), "y"), row(slot, journal.SpentTable, key(uint32(int(today)+d)), "y"))
		}
		e.Rows = append(e.Rows, row(slot, journal.RosterTable, key(today-4), "other table"),
			row(slot, journal.ClosedReportTable, key(today-journal.ReportDays-1), "old"), row(slot, journal.ClosedReportTable, key(today-journal.ReportDays), "new"))
		a.mustAppend(e)
	}
	r.reopen()
	r.until("keys of past days to be forgotten", func() bool { return known(-5, -2) == "------------" })
	r.expect("keys of today and yesterday", known(-1, 1), "yyyyyyyyy")
	r.Advance(24 * time.Hour)
	r.until("keys of the day before yesterday", func() bool { return known(-1, -1) == "---" })
	r.expect("keys of two days", known(0, 1), "yyyyyy")
	r.expect("a report that was closed long ago", r.row(near, journal.ClosedReportTable, key(today-journal.ReportDays-1)), "-")
	r.until("a report of a day later", func() bool { return r.row(near, journal.ClosedReportTable, key(today-journal.ReportDays)) == "-" })
	r.expect("another table", r.row(near, journal.RosterTable, key(today-4)), "other table")
}
