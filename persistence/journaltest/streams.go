package journaltest

import (
	"time"

	"parley/client/parley"
	"parley/journal"
)

// everything is an entry with every kind of content, for a stream at near. If it is
// rejected, none of it may be visible.
func (r *rig) everything(reader, stranger parley.AgentID, tell, born, bornFar journal.Stream, org parley.OrgID) *journal.Entry {
	id, idFar := r.message(near), r.message(near)
	return &journal.Entry{
		Events:  []journal.StoredEvent{storedEvent("x")},
		State:   []byte("state"),
		Rows:    []journal.Row{row(near, journal.RosterTable, "everything", "there")},
		Records: []journal.Record{{ID: id, Data: []byte("body")}, {ID: idFar, Data: []byte("body")}},
		Effects: []journal.Effect{
			journal.AppendFeed{To: reader, Kind: journal.MessageEntry, Ref: parley.AnyID(id)},
			journal.AppendFeed{To: stranger, Kind: journal.MessageEntry, Ref: parley.AnyID(idFar)},
			journal.RecordReceipt{Recipient: reader, Message: id, Receipts: journal.Receipts{TransferredAt: 9}},
			journal.EnqueueFor{To: tell, Data: []byte("x")},
			journal.PutRow{Row: row(far, journal.ClientTable, "everything", "there")},
			journal.CreateStream{Stream: born, Events: []journal.StoredEvent{storedEvent("x")}},
			journal.CreateStream{Stream: bornFar, Events: []journal.StoredEvent{storedEvent("x")}},
		},
		Timers: []journal.Timer{{Due: r.Clock().Add(-time.Hour), Stream: tell}},
		Counts: []journal.Count{{Org: org, Day: 3, N: 5}},
	}
}

func testSequence(r *rig) {
	a := r.appender(r.stream(near), 0)
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("1"), storedEvent("2")}, State: []byte("two")})
	other := r.appender(r.stream(near), 0)
	other.mustAppend(&journal.Entry{Effects: []journal.Effect{journal.EnqueueFor{To: a.stream, Data: []byte("wait")}}})
	waiting := r.queue(a.stream)
	if len(waiting) != 1 {
		r.Fatalf("queue: %v", waiting)
	}
	reader, stranger, tell := r.agent(near2), r.agent(far), r.stream(near)
	born, bornFar, org := r.stream(near), r.stream(far), parley.NewID[parley.OrgID](near, r.Clock(), r.entropy())
	wrong := map[string]func(*journal.Entry){
		"an event too few":    func(e *journal.Entry) { e.Expect = 1 },
		"an event too many":   func(e *journal.Entry) { e.Expect = 3 },
		"an older activation": func(e *journal.Entry) { e.Activation-- },
		"a later activation":  func(e *journal.Entry) { e.Activation++ },
		"never activated":     func(e *journal.Entry) { e.Stream = r.stream(near); e.Expect = 0 },
		"a stream exists": func(e *journal.Entry) {
			e.Effects = append(e.Effects, journal.CreateStream{Stream: a.stream, Events: []journal.StoredEvent{storedEvent("y")}})
		},
	}
	for name, spoil := range wrong {
		e := r.everything(reader, stranger, tell, born, bornFar, org)
		e.Slot, e.Stream, e.Activation, e.Expect, e.Handled = near, a.stream, a.activation, a.seq, []uint64{waiting[0].Number}
		spoil(e)
		want := journal.ErrStale
		if name == "a stream exists" {
			want = journal.ErrExists
		}
		r.refused(r.append(e), want)
		message := parley.MessageID(e.Effects[0].(journal.AppendFeed).Ref)
		r.view(func(v journal.View) {
			record, _, _ := recordOf(v, near, message)
			receipts, _ := v.Receipts(journal.RecordReceipt{Message: message})
			used, _ := v.Used(org, 3)
			_, state, _ := v.State(a.stream)
			r.expect(name+": records, receipts, counts", line(record, receipts, used), line([]byte{}, journal.Receipts{}, journal.Usage{}))
			r.expect(name+": state", string(state), "two")
		})
	}
	// An effect of a rejected entry on another home would arrive before this one.
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("3")}, Effects: []journal.Effect{journal.PutRow{Row: row(far, journal.ClientTable, "last", "there")}}})
	r.until("effects on the far home", func() bool { return r.row(far, journal.ClientTable, "last") == "there" })
	r.expect("events", r.events(a.stream), "[1 2 3]")
	r.expect("streams begun", line(r.events(born), r.events(bornFar)), "[] []")
	r.expect("feeds", line(r.feed(reader), r.feed(stranger)), "[] []")
	r.expect("queues", line(len(r.queue(a.stream)), len(r.queue(tell))), "1 0")
	r.expect("rows", r.row(near, journal.RosterTable, "everything")+r.row(far, journal.ClientTable, "everything"), "--")
	time.Sleep(1100 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expect("timers", r.fired, "[]")
}

func testActivations(r *rig) {
	s := r.stream(near)
	first := r.appender(s, 0)
	first.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("1")}})
	second := r.appender(s, 1)
	r.refused(first.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("x")}}), journal.ErrStale)
	r.refused(r.append(&journal.Entry{Slot: near, Stream: s, Activation: first.activation, Activate: true}), journal.ErrStale)
	first.seq = 1
	r.refused(first.begin(&journal.Entry{Retire: true}), journal.ErrStale)
	second.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("2")}})
	second.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("3")}, Rows: []journal.Row{row(near, journal.RosterTable, "last", "word")}, Retire: true})
	r.expect("a last row", r.row(near, journal.RosterTable, "last"), "word")
	r.refused(second.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("x")}}), journal.ErrStale)
	third := r.appender(s, 3)
	third.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("4")}})
	r.expect("events", r.events(s), "[1 2 3 4]")
	r.reopen()
	fourth := r.appender(s, 4)
	if fourth.activation <= third.activation {
		r.Errorf("activation %d after opening again, %d before", fourth.activation, third.activation)
	}
	fourth.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("5")}})
	r.expect("events", r.events(s), "[1 2 3 4 5]")
}

func testActivation(r *rig) {
	s := r.stream(near)
	a := r.appender(s, 0)
	for range 200 {
		a.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("x")}})
	}
	r.appender(s, 200)
	r.expect("events that the next activation finds", len(r.events(s)), 200)
	r.view(func(v journal.View) {
		if v.Durable(r.Context()) != nil {
			r.Error("not durable")
		}
	})
}

// testReactivation retires and activates a stream within one batch; the number of
// its events must stay right.
func testReactivation(r *rig) {
	s, born := r.stream(near), r.stream(near)
	a, parent := r.appender(s, 0), r.appender(r.stream(near), 0)
	var last []<-chan error
	keep := func(released <-chan error) { last = append(last, released) }
	for i := range 50 {
		keep(a.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent(line(i))}}))
		keep(a.begin(&journal.Entry{Retire: true}))
		a.activation = r.Journal.NextActivation()
		keep(r.append(&journal.Entry{Slot: near, Stream: s, Activation: a.activation, Activate: true}))
	}
	keep(parent.begin(&journal.Entry{Effects: []journal.Effect{journal.CreateStream{Stream: born, Events: []journal.StoredEvent{storedEvent("0"), storedEvent("1")}}}}))
	child := &appender{rig: r, stream: born, activation: r.Journal.NextActivation(), seq: 2}
	keep(r.append(&journal.Entry{Slot: near, Stream: born, Activation: child.activation, Activate: true}))
	keep(child.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("2")}, Retire: true}))
	child.activation = r.Journal.NextActivation()
	keep(r.append(&journal.Entry{Slot: near, Stream: born, Activation: child.activation, Activate: true}))
	keep(child.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("3")}}))
	for i, released := range last {
		if err := r.await(released); err != nil {
			r.Fatalf("entry %d: %v", i, err)
		}
	}
	r.expect("number of events", len(r.events(s)), 50)
	r.expect("events of the stream begun", r.events(born), "[0 1 2 3]")
}

func testReplay(r *rig) {
	a := r.appender(r.stream(far), 0)
	check := func() {
		r.Helper()
		r.view(func(v journal.View) {
			seq, state, err := v.State(a.stream)
			r.expect("state", line(seq, string(state), err), "3 three <nil>")
			var from, back []string
			r.must(v.Events(a.stream, 2, false, func(seq uint64, at int64, f journal.StoredEvent) bool {
				from = append(from, line(seq, f.Tag, string(f.Data), at == r.Clock().UnixMilli()))
				return len(from) < 2
			}))
			r.must(v.Events(a.stream, 3, true, func(seq uint64, _ int64, f journal.StoredEvent) bool {
				back = append(back, string(f.Data))
				return true
			}))
			r.expect("from 2, at most two", from, "[2 7 b true 3 7  true]")
			r.expect("from 3 down", back, "[ b a]")
			seq, state, err = v.State(r.stream(far))
			r.expect("a stream that is not", line(seq, state, err), "0 [] <nil>")
		})
		r.expect("all", len(r.events(a.stream)), 4)
	}
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{{Tag: 7, Data: []byte("a")}, {Tag: 7, Data: []byte("b")}}, State: []byte("two")})
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{{Tag: 7}}, State: []byte("three")})
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{{Tag: 8, Data: []byte("d")}}})
	check()
	r.reopen()
	check()
	r.crash()
	check()
}

func testCreateStream(r *rig) {
	a := r.appender(r.stream(near), 0)
	child, foreign := r.stream(near2), r.stream(far)
	create := func(s journal.Stream, text string) *journal.Entry {
		return &journal.Entry{
			Events:  []journal.StoredEvent{storedEvent(text)},
			Effects: []journal.Effect{journal.CreateStream{Stream: s, Events: []journal.StoredEvent{storedEvent(text), storedEvent(text)}, State: []byte(text)}},
		}
	}
	// Two in one batch: the second finds the stream that the first created.
	first, second := a.begin(create(child, "a")), a.begin(create(child, "b"))
	a.seq--
	third := a.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("c")}})
	r.refused(first, nil)
	r.refused(second, journal.ErrExists)
	r.refused(third, nil)
	twice := create(r.stream(near), "d")
	twice.Effects = append(twice.Effects, twice.Effects[0])
	r.refused(a.begin(twice), journal.ErrExists)
	a.seq--
	r.refused(a.begin(create(child, "e")), journal.ErrExists)
	a.seq--
	r.expect("the stream that began", r.events(child), "[a a]")
	r.expect("events of its creator", r.events(a.stream), "[a c]")
	r.view(func(v journal.View) {
		seq, state, err := v.State(child)
		r.expect("its state", line(seq, string(state), err), "2 a <nil>")
	})
	r.appender(child, 2).mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("f")}})
	r.expect("the stream goes on", r.events(child), "[a a f]")

	a.mustAppend(create(foreign, "g"))
	r.until("a stream in another home", func() bool { return len(r.events(foreign)) == 2 })
	r.appender(foreign, 2).mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("h")}})
	// Another home can no longer reject the effect: the existing stream is unchanged.
	_ = r.await(a.begin(create(foreign, "i")))
	r.appender(r.stream(near), 0).mustAppend(&journal.Entry{Effects: []journal.Effect{journal.PutRow{Row: row(far, journal.ClientTable, "behind", "there")}}})
	r.until("an effect appended later", func() bool { return r.row(far, journal.ClientTable, "behind") == "there" })
	r.expect("a stream that existed", r.events(foreign), "[g g h]")
}
