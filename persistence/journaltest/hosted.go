package journaltest

import (
	"parley/client/parley"
	"parley/journal"
)

// streamAppend appends to a hosted stream that has expect events.
func streamAppend(s journal.Stream, expect uint64, texts ...string) journal.StreamAppend {
	c := journal.StreamAppend{Stream: s, Expect: expect}
	for _, text := range texts {
		c.Events = append(c.Events, storedEvent(text))
		c.State = []byte(text)
	}
	return c
}

func testHosted(r *rig) {
	a := r.appender(r.group(near), 0)
	first, second := r.stream(near), r.stream(near)
	bear := func(s journal.Stream) journal.Effect {
		return journal.CreateStream{Stream: s, Fresh: true, Events: []journal.StoredEvent{storedEvent("born")}, State: []byte("born")}
	}
	// Two entries in one batch: the stream begins and continues.
	a.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("host")}, Effects: []journal.Effect{bear(first)}})
	a.begin(&journal.Entry{Events: []journal.StoredEvent{storedEvent("host")}, Effects: []journal.Effect{bear(second)}, Hosted: []journal.StreamAppend{streamAppend(first, 1, "a", "b")}})
	a.begin(&journal.Entry{Hosted: []journal.StreamAppend{streamAppend(first, 3, "c"), streamAppend(second, 1, "x")}})
	a.mustAppend(&journal.Entry{Hosted: []journal.StreamAppend{streamAppend(second, 2, "y")}})
	check := func(one, two string) {
		r.Helper()
		r.expect("the first", r.events(first), one)
		r.expect("the second", r.events(second), two)
		r.view(func(v journal.View) {
			seq, state, err := v.State(first)
			r.expect("state of the first", line(seq, string(state), err), "4 c <nil>")
			seq, state, err = v.State(second)
			r.expect("state of the second", line(seq, string(state), err), "3 y <nil>")
		})
	}
	check("[born a b c]", "[born x y]")
	r.reopen()
	check("[born a b c]", "[born x y]")
	a = r.appender(a.stream, a.seq)
	// Without a state the stored one is kept.
	bare := streamAppend(second, 3, "z")
	bare.State = nil
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("host")}, Hosted: []journal.StreamAppend{bare}})
	r.crash()
	check("[born a b c]", "[born x y z]")
	r.expect("the host", r.events(a.stream), "[host host host]")
}

func testHostedRefused(r *rig) {
	a := r.appender(r.group(near), 0)
	one, two, none := r.stream(near), r.stream(near), r.stream(near)
	a.mustAppend(&journal.Entry{Events: []journal.StoredEvent{storedEvent("host")}, Effects: []journal.Effect{
		journal.CreateStream{Stream: one, Events: []journal.StoredEvent{storedEvent("1")}}, journal.CreateStream{Stream: two, Events: []journal.StoredEvent{storedEvent("1")}},
	}})
	wrong := map[string][]journal.StreamAppend{
		"too few":                   {streamAppend(one, 0, "x")},
		"too many":                  {streamAppend(one, 2, "x")},
		"one of two":                {streamAppend(one, 1, "x"), streamAppend(two, 2, "x")},
		"a stream that is not":      {streamAppend(none, 1, "x")},
		"one stream twice":          {streamAppend(one, 1, "x"), streamAppend(one, 1, "x")},
		"one stream twice, in turn": {streamAppend(one, 1, "x"), streamAppend(one, 2, "x")},
	}
	for name, hosted := range wrong {
		e := r.everything(r.agent(near2), r.agent(far), r.stream(near), r.stream(near), r.stream(far), parley.OrgID(none.ID))
		e.Timers = nil
		e.Hosted = hosted
		r.refused(a.begin(e), journal.ErrStale)
		a.seq--
		r.expect(name+": rows", r.row(near, journal.RosterTable, "everything"), "-")
		r.expect(name+": events", line(r.events(a.stream), r.events(one), r.events(two), r.events(none)), "[host] [1] [1] []")
	}
	// A rejected entry does not count for later ones in the batch.
	b := r.begin3(a, one)
	r.refused(b[0], nil)
	r.refused(b[1], journal.ErrStale)
	r.refused(b[2], nil)
	r.expect("the stream", r.events(one), "[1 2 3]")
	// A stream that does not exist begins with its first append.
	a.mustAppend(&journal.Entry{Hosted: []journal.StreamAppend{streamAppend(none, 0, "n")}})
	r.expect("a new stream", r.events(none), "[n]")
}

// begin3 appends three entries to a hosted stream, the second with a wrong
// sequence.
func (r *rig) begin3(a *appender, s journal.Stream) (released [3]<-chan error) {
	for i, c := range []journal.StreamAppend{streamAppend(s, 1, "2"), streamAppend(s, 1, "x"), streamAppend(s, 2, "3")} {
		released[i] = a.begin(&journal.Entry{Hosted: []journal.StreamAppend{c}})
	}
	return released
}
