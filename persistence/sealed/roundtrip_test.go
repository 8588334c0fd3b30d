package sealed

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"parley/client/parley"
	"parley/journal"
)

// canary is in every content that the tests append, and in every name.
const canary = "CANARY"

// world is one entry that uses everything an entry can have, with what it names.
type world struct {
	*rig
	a, b                             parley.OrgID
	host, hosted, born, bornFar      journal.Stream
	slug                             journal.Stream
	reader, stranger                 parley.AgentID
	message, farMessage, broadcast   parley.MessageID
	once, name, request, farDelivery []byte
}

func newWorld(t testing.TB, journals int) *world {
	r := newRig(t, journals)
	w := &world{
		rig: r, a: r.org(), b: r.org(),
		host: r.stream(journal.GroupStream, near), hosted: r.stream(journal.AgentStream, near),
		born: r.stream(journal.AgentStream, near), bornFar: r.stream(journal.WebhookStream, far),
		slug:   r.stream(journal.SlugStream, far),
		reader: newID[parley.AgentID](r, near2), stranger: newID[parley.AgentID](r, far),
		message: newID[parley.MessageID](r, near), farMessage: newID[parley.MessageID](r, near),
	}
	w.broadcast = parley.NextBroadcastID(newID[parley.MessageID](r, near), testStart, [10]byte{7})
	w.once = onceKey(today, w.a[:], canary)
	w.name, w.request = append(w.a.Bytes(), canary...), append(w.host.ID.Bytes(), w.message[:]...)
	w.farDelivery = append(w.bornFar.ID.Bytes(), 0, 0, 0, 0, 0, 0, 0, 1)
	return w
}

func content(text string) journal.StoredEvent {
	return journal.StoredEvent{Tag: 3, Data: []byte(canary + text)}
}

func public(text string) journal.StoredEvent {
	return journal.StoredEvent{Tag: 4, Data: []byte(text), Clear: true}
}

func recordOf(id parley.MessageID, header, text string, owners journal.Owners) journal.Record {
	return journal.Record{ID: id, Data: []byte(header + canary + text), Clear: len(header), Owners: owners}
}

func (w *world) entry() *journal.Entry {
	owners, pair := journal.OwnedBy(w.a), journal.Owners{A: w.b, B: w.a}
	row := func(slot parley.Slot, table journal.Table, key []byte, value string) journal.Row {
		return journal.Row{Slot: slot, Table: table, Key: key, Value: []byte(value), Owners: owners}
	}
	return &journal.Entry{
		Events: []journal.StoredEvent{content("1"), public("2"), content("3")}, State: []byte(canary + "state"), Owners: owners,
		Hosted: []journal.StreamAppend{{Stream: w.hosted, Events: []journal.StoredEvent{content("h1"), public("h2")}, State: []byte(canary + "hosted"), Owners: pair}},
		Rows: []journal.Row{
			row(near, journal.OnceTable, w.once, canary+"once"), row(near, journal.NameTable, w.name, "name"),
			row(near, journal.RequestTable, w.request, canary+"request"), row(near, journal.SlugTable, []byte(canary), "slug"),
		},
		Records: []journal.Record{
			recordOf(w.message, "head", "text", pair), recordOf(w.farMessage, "head", "far text", pair), recordOf(w.broadcast, "cast", "to all", owners),
		},
		Effects: []journal.Effect{
			journal.AppendFeed{To: w.reader, Kind: journal.MessageEntry, Ref: parley.AnyID(w.message)},
			journal.AppendFeed{To: w.stranger, Kind: journal.MessageEntry, Ref: parley.AnyID(w.farMessage)},
			journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(w.broadcast), To: []parley.Seat{{Agent: w.reader, Number: 1}, {Agent: w.stranger, Number: 2}}},
			journal.CreateStream{Stream: w.born, Fresh: true, Events: []journal.StoredEvent{content("b1")}, Owners: owners},
			journal.CreateStream{Stream: w.bornFar, Events: []journal.StoredEvent{content("f1"), public("f2")}, State: []byte(canary + "far"), Owners: owners},
			journal.CreateStream{Stream: w.slug, Events: []journal.StoredEvent{public("claimed")}},
			journal.PutRow{Row: row(far, journal.DeliveryTable, w.farDelivery, canary+"delivery")},
			journal.PutRow{Row: row(far, journal.GroupNameTable, w.name, "far name")},
		},
	}
}

// reads are what can be read through a view and an archive alike.
type reads interface {
	stateReader
	eventReader
	rowReader
	Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error)
	Table(table journal.Table, fn func(key, value []byte) bool) error
}

// state describes the state of a stream.
func state(v stateReader, s journal.Stream) string {
	seq, data, err := v.State(s)
	if err != nil {
		return err.Error()
	}
	return string(rune('0'+seq)) + string(data)
}

// value describes a row.
func value(v rowReader, slot parley.Slot, table journal.Table, key []byte) string {
	data, found, err := v.Row(slot, table, key)
	switch {
	case err != nil:
		return err.Error()
	case !found:
		return "-"
	}
	return string(data)
}

// check reads back everything that the entry stored.
func (w *world) check(t testing.TB, v reads) {
	t.Helper()
	expectAll(t, "events", texts(t, v, w.host), "3CANARY1", "42", "3CANARY3")
	expectAll(t, "hosted", texts(t, v, w.hosted), "3CANARYh1", "4h2")
	expectAll(t, "a stream in the same journal", texts(t, v, w.born), "3CANARYb1")
	expectAll(t, "a stream in another journal", texts(t, v, w.bornFar), "3CANARYf1", "4f2")
	expectAll(t, "a slug", texts(t, v, w.slug), "4claimed")
	expect(t, "state", state(v, w.host), "3CANARYstate")
	expect(t, "hosted state", state(v, w.hosted), "2CANARYhosted")
	expect(t, "no state", state(v, w.born), "0")
	expect(t, "far state", state(v, w.bornFar), "2CANARYfar")
	for _, of := range []struct {
		slot  parley.Slot
		table journal.Table
		key   []byte
		want  string
	}{
		{near, journal.OnceTable, w.once, "CANARYonce"},
		{near, journal.NameTable, w.name, "name"},
		{near, journal.RequestTable, w.request, "CANARYrequest"},
		{near, journal.SlugTable, []byte(canary), "slug"},
		{far, journal.DeliveryTable, w.farDelivery, "CANARYdelivery"},
		{far, journal.GroupNameTable, w.name, "far name"},
		{near, journal.NameTable, append(w.b.Bytes(), canary...), "-"},
		{near, journal.OnceTable, onceKey(today, w.b[:], canary), "-"},
	} {
		expect(t, "row", value(v, of.slot, of.table, of.key), of.want)
	}
	all := []string{}
	for _, table := range []journal.Table{journal.OnceTable, journal.RequestTable, journal.DeliveryTable, journal.SlugTable} {
		if err := v.Table(table, func(_, value []byte) bool { all = append(all, string(value)); return true }); err != nil {
			t.Error(err)
		}
	}
	expectAll(t, "tables", all, "CANARYonce", "CANARYrequest", "CANARYdelivery", "slug")
	read := func(into *string) func([]byte) error {
		return func(b []byte) error { *into = string(b); return nil }
	}
	for _, slot := range []parley.Slot{near, near2, far} {
		var one, two, cast string
		position, err := v.Message(slot, w.message, read(&one))
		_, farErr := v.Message(slot, w.farMessage, read(&two))
		found, castErr := v.Broadcast(slot, w.broadcast, read(&cast))
		atHome := w.store.SameHome(slot, near)
		if err := errors.Join(err, farErr, castErr); err != nil || (position != 0) != atHome || !found {
			t.Errorf("slot %d: %d, %v, %v", slot, position, found, err)
		}
		want := ""
		if atHome {
			want = "headCANARYtext"
		}
		expect(t, "record", one, want)
		expect(t, "far record", two, "headCANARYfar text")
		expect(t, "broadcast", cast, "castCANARYto all")
	}
}

// Everything that an entry has is read back as it was appended: through a view, the
// latest rows, the journal and an archive, from all four journals, and after a restart.
func TestRoundTrip(t *testing.T) {
	w := newWorld(t, 4)
	follower := w.layer.Follow(w.reader, 0, func() {})
	defer follower.Close()
	w.must(w.append(w.host, 0, w.entry()))
	live, err := follower.Next(10)
	w.must(err)
	expect(t, "live entries", len(live), 2)
	for i, want := range []string{"headCANARYtext", "castCANARYto all"} {
		expect(t, "live record", string(live[i].Record), want)
	}
	for range 2 {
		w.view(func(v journal.View) { w.check(t, v) })
		latest := w.layer.Latest()
		w.check(t, latest)
		latest.Close()
		w.archive(func(a *Archive) { w.check(t, a); w.checkArchive(t, a) })
		expect(t, "a row of the journal", value(w.layer, near, journal.OnceTable, w.once), "CANARYonce")
		w.checkPairs(t)
		w.restart()
	}
}

// checkArchive reads what only an archive lists.
func (w *world) checkArchive(t *testing.T, a *Archive) {
	t.Helper()
	var events, records, rows []string
	hidden := a.HiddenStream(w.slug)
	slugs := 0
	w.must(a.Streams(func(s journal.Stream, _ uint64, f journal.StoredEvent) error {
		if events = append(events, string(f.Data)); s == hidden {
			slugs++
		}
		return nil
	}))
	w.must(a.Records(func(_ parley.Slot, _ parley.MessageID, _ uint64, record []byte) error {
		records = append(records, string(record))
		return nil
	}))
	w.must(a.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) error {
		again, found, err := a.HiddenRow(slot, table, key)
		if err != nil || !found || !bytes.Equal(again, value) {
			t.Errorf("table %d: %q, but listed as %q (%v)", table, again, value, err)
		}
		rows = append(rows, string(value))
		return nil
	}))
	for _, all := range [][]string{events, records, rows} {
		slices.Sort(all)
	}
	expect(t, "slugs", slugs, 1)
	expectAll(t, "events", events, "2", "CANARY1", "CANARY3", "CANARYb1", "CANARYf1", "CANARYh1", "claimed", "f2", "h2")
	expectAll(t, "records", slices.Compact(records), "castCANARYto all", "headCANARYfar text", "headCANARYtext")
	expectAll(t, "rows", rows, "CANARYdelivery", "CANARYonce", "CANARYrequest", "far name", "name", "slug")
	for _, key := range []struct {
		slot  parley.Slot
		table journal.Table
		key   []byte
	}{{near, journal.OnceTable, w.once}, {near, journal.NameTable, w.name}, {near, journal.SlugTable, []byte(canary)}} {
		stored := a.HiddenKey(key.table, key.key)
		if _, found, err := a.Archive.Row(key.slot, key.table, stored); !found || err != nil || bytes.Contains(stored, []byte(canary)) {
			t.Errorf("table %d: no row %q (%v)", key.table, stored, err)
		}
	}
}

// checkPairs opens every pair of the engine, and finds the contents only then.
func (w *world) checkPairs(t *testing.T) {
	t.Helper()
	opened := 0
	for _, p := range w.pairs() {
		if bytes.Contains(p[0], []byte(canary)) || bytes.Contains(p[1], []byte(canary)) {
			t.Errorf("the engine has %q = %q", p[0], p[1])
		}
		value, err := OpenPair(w.sealer, p[0], p[1])
		if err != nil {
			t.Errorf("%x: %v", p[0], err)
		}
		opened += bytes.Count(value, []byte(canary))
	}
	// Five events, three states, three rows, and the records: one of the message, two of
	// the far one, two of the broadcast.
	expect(t, "contents", opened, 5+3+3+5)
}

// The store below the layer gets no byte of a content and no name; without the layer it
// gets both.
func TestNothingInTheClear(t *testing.T) {
	w := newWorld(t, 4)
	w.must(w.append(w.host, 0, w.entry()))
	if w.below.contains(canary) || w.below.entries() == 0 {
		t.Errorf("the store got %q", w.below.given)
	}
	for _, clear := range []string{"head", "cast", "|2|", "h2"} { // headers and events that are Clear
		if !w.below.contains(clear) {
			t.Errorf("the store did not get %q", clear)
		}
	}
	bare := newWorld(t, 4)
	bare.layer = journal.Of(bare.below)
	e, below := bare.entry(), bare.below
	activation := bare.store.NextActivation()
	bare.must(appendTo(journal.Of(below), &journal.Entry{Slot: near, Stream: bare.host, Activation: activation, Activate: true}))
	e.Slot, e.Stream, e.Activation = near, bare.host, activation
	bare.must(appendTo(journal.Of(below), e))
	if got := strings.Count(string(below.given), canary); got < 18 {
		t.Errorf("control: without the layer the store got %d contents and names", got)
	}
}

// An effect in an outbox is sealed, and an archive opens it.
func TestUnderway(t *testing.T) {
	w := newWorld(t, 4)
	e := w.entry()
	e.Stream = w.host
	w.must(w.cipher().sealEntry(e))
	opened := 0
	for _, x := range e.Effects {
		x, err := w.cipher().openEffect(x)
		w.must(err)
		switch x := x.(type) {
		case journal.CreateStream:
			for i, f := range x.Events {
				if f.Tag&sealedTag != 0 || bytes.HasPrefix(f.Data, []byte(canary)) == (f.Tag == 4) {
					t.Errorf("event %d: %d %q", i, f.Tag, f.Data)
				}
			}
			if x.State != nil {
				expect(t, "state", string(x.State), "CANARYfar")
			}
			if x.Stream.Kind == journal.SlugStream && x.Stream != (&Archive{cipher: w.cipher()}).HiddenStream(w.slug) {
				t.Error("the stream of a slug has its own id")
			}
			opened++
		case journal.PutRow:
			expect(t, "row", string(x.Value), cmp.Or(map[journal.Table]string{journal.DeliveryTable: "CANARYdelivery"}[x.Table], "far name"))
			opened++
		}
	}
	expect(t, "effects", opened, 5)
	// Control: they were sealed.
	e = w.entry()
	w.must(w.cipher().sealEntry(e))
	w.erase(w.a)
	refused := 0
	for _, x := range e.Effects {
		if _, err := w.cipher().openEffect(x); errors.Is(err, journal.ErrErased) {
			refused++
		}
	}
	expect(t, "effects of an erased organization", refused, 3)
}
