package sealed

import (
	"errors"
	"fmt"
	"testing"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// without returns an entry in which one part has other owners, for each part of w.entry
// that has owners.
func (w *world) without(owners journal.Owners) map[string]*journal.Entry {
	all := map[string]*journal.Entry{}
	alter := func(name string, change func(e *journal.Entry)) {
		e := w.entry()
		change(e)
		all[name] = e
	}
	alter("the entry", func(e *journal.Entry) { e.Owners = owners })
	alter("a state", func(e *journal.Entry) { e.Owners, e.Events = owners, []journal.StoredEvent{public("only")} })
	alter("an event", func(e *journal.Entry) { e.Owners, e.State = owners, nil })
	alter("a hosted stream", func(e *journal.Entry) { e.Hosted[0].Owners = owners })
	for i, r := range w.entry().Rows {
		if r.Table.HasContent() {
			alter(fmt.Sprint("a row of table ", r.Table), func(e *journal.Entry) { e.Rows[i].Owners = owners })
		}
	}
	for i := range w.entry().Records {
		alter(fmt.Sprint("record ", i), func(e *journal.Entry) { e.Records[i].Owners = owners })
	}
	for i, x := range w.entry().Effects {
		switch x := x.(type) {
		case journal.CreateStream:
			if x.Stream.Kind != journal.SlugStream {
				alter(fmt.Sprint("a new stream of kind ", x.Stream.Kind), func(e *journal.Entry) {
					x.Owners = owners
					e.Effects[i] = x
				})
			}
		case journal.PutRow:
			if x.Table.HasContent() {
				alter(fmt.Sprint("a far row of table ", x.Table), func(e *journal.Entry) {
					x.Owners = owners
					e.Effects[i] = x
				})
			}
		}
	}
	return all
}

// rejected appends each entry and expects an error, and that the store got nothing.
func (w *world) rejected(t *testing.T, all map[string]*journal.Entry, want error) {
	t.Helper()
	w.must(appendTo(w.store.Journal, &journal.Entry{Slot: near, Stream: w.host, Activation: w.store.NextActivation(), Activate: true}))
	expect(t, "kinds of content", len(all), 12)
	before := len(w.pairs())
	for name, e := range all {
		e.Slot, e.Stream, e.Activation = near, w.host, w.store.NextActivation()
		w.must(appendTo(w.store.Journal, &journal.Entry{Slot: near, Stream: w.host, Activation: e.Activation, Activate: true}))
		given := w.below.entries()
		if err := appendTo(w.layer, e); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		expect(t, name+": entries given to the store", w.below.entries(), given)
	}
	stored := 0
	for _, p := range w.pairs() {
		switch _, family := layout.FamilyOf(p[0]); family {
		case layout.EventFamily, layout.StateFamily, layout.RecordFamily, layout.RowFamily, layout.FeedFamily, layout.CopiesFamily, layout.OutboxFamily:
			stored++
		}
	}
	expect(t, "rows stored", stored, 0)
	if before == 0 {
		t.Error("an empty store has no format")
	}
}

// Content that belongs to nobody is refused, whichever part of an entry has it, and
// nothing of the entry is stored.
func TestNobody(t *testing.T) {
	w := newWorld(t, 4)
	w.rejected(t, w.without(journal.Owners{}), errNobody)
	w.rejected(t, w.without(journal.Owners{B: parley.OrgID{9}}), errNobody)
	w.must(w.append(w.host, 0, w.entry())) // control
	w.view(func(v journal.View) { w.check(t, v) })
}

// An entry with content of an erased organization is refused with ErrErased, also as one
// of two owners, and nothing of it is stored.
func TestErasedAppend(t *testing.T) {
	for name, owners := range map[string]func(erased, other parley.OrgID) journal.Owners{
		"alone":  func(erased, _ parley.OrgID) journal.Owners { return journal.OwnedBy(erased) },
		"first":  func(erased, other parley.OrgID) journal.Owners { return journal.Owners{A: erased, B: other} },
		"second": func(erased, other parley.OrgID) journal.Owners { return journal.Owners{A: other, B: erased} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			erased := w.org()
			all := w.without(owners(erased, w.a))
			w.erase(erased)
			w.rejected(t, all, journal.ErrErased)
			w.must(w.append(w.host, 0, w.entry())) // control: the others can append
			w.view(func(v journal.View) { w.check(t, v) })
		})
	}
}

// An entry without a content is appended also after an erasure; deletions need no owners.
func TestNothingToSeal(t *testing.T) {
	w := newWorld(t, 1)
	w.must(w.append(w.host, 0, w.entry()))
	w.erase(w.a)
	w.must(w.append(w.host, 3, &journal.Entry{
		Events: []journal.StoredEvent{public("last")}, Owners: journal.OwnedBy(w.a),
		Rows: []journal.Row{
			{Slot: near, Table: journal.OnceTable, Key: w.once, Delete: true},
			{Slot: near, Table: journal.RequestTable, Key: w.host.ID.Bytes(), Delete: true, Beneath: true},
			{Slot: near, Table: journal.RosterTable, Key: []byte("r"), Value: []byte("v")},
		},
		Effects: []journal.Effect{journal.PutRow{Row: journal.Row{Slot: far, Table: journal.DeliveryTable, Key: w.farDelivery, Delete: true}}},
	}))
	v := w.store.View()
	defer v.Close()
	for _, table := range []journal.Table{journal.OnceTable, journal.RequestTable, journal.DeliveryTable} {
		w.must(v.Table(table, func(key, _ []byte) bool { t.Errorf("table %d still has %q", table, key); return true }))
	}
	expect(t, "a row without content", value(w.layer, near, journal.RosterTable, []byte("r")), "v")
}

// Each read of a content whose owner was erased fails with ErrErased. Of a record the
// header can be read, and tables leave erased rows out. What others own is read.
func TestErasedReads(t *testing.T) {
	w := newWorld(t, 4)
	other := w.stream(journal.GroupStream, near)
	c := w.org()
	w.must(w.append(w.host, 0, w.entry()))
	kept := append(w.host.ID.Bytes(), other.ID[:]...)
	w.must(w.append(other, 0, &journal.Entry{
		Events: []journal.StoredEvent{content("kept")}, State: []byte("kept"), Owners: journal.OwnedBy(c),
		Rows: []journal.Row{{Slot: near, Table: journal.RequestTable, Key: kept, Value: []byte("kept"), Owners: journal.OwnedBy(c)}},
	}))
	w.erase(w.a) // one of the two owners of messages and of the hosted stream
	w.view(func(v journal.View) { w.checkErased(t, v); w.checkErasedRows(t, v, kept) })
	w.archive(func(a *Archive) { w.checkErased(t, a) })
	w.view(func(v journal.View) {
		expectAll(t, "another's events", texts(t, v, other), "3CANARYkept")
		expect(t, "another's state", state(v, other), "1kept")
		expect(t, "another's row", value(v, near, journal.RequestTable, kept), "kept")
		expect(t, "a row without content", value(v, near, journal.NameTable, w.name), "name")
		expectAll(t, "a slug", texts(t, v, w.slug), "4claimed")
	})
	for _, p := range w.pairs() {
		if value, err := OpenPair(w.sealer, p[0], p[1]); err != nil && !errors.Is(err, journal.ErrErased) {
			t.Errorf("%x opens as %x, %v", p[0], value, err)
		}
	}
}

func (w *world) checkErased(t *testing.T, v reads) {
	t.Helper()
	erased := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, journal.ErrErased) || !errors.Is(err, parley.ErrGone) || !parley.IsRefusal(err) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, s := range []journal.Stream{w.host, w.hosted, w.bornFar} {
		_, data, err := v.State(s)
		erased("state", err)
		if data != nil {
			t.Errorf("state %q", data)
		}
	}
	for _, s := range []journal.Stream{w.host, w.hosted, w.born, w.bornFar} {
		erased("events", v.Events(s, 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			t.Errorf("event %q", f.Data)
			return true
		}))
	}
	read := 0
	erased("events from a clear one", v.Events(w.host, 2, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		read++
		expect(t, "clear event", string(f.Data), "2")
		return true
	}))
	header := func(want string) func([]byte) error {
		return func(b []byte) error {
			read++
			expect(t, "header", string(b), want)
			return nil
		}
	}
	for _, slot := range []parley.Slot{near, far} {
		position, err := v.Message(slot, w.farMessage, header("head"))
		erased("message", err)
		expect(t, "position", position != 0, slot == far)
		found, err := v.Broadcast(slot, w.broadcast, header("cast"))
		erased("broadcast", err)
		expect(t, "found", found, true)
	}
	expect(t, "headers and clear events", read, 5)
	own := errors.New("the reader's own")
	if _, err := v.Message(near, w.message, func([]byte) error { return own }); !errors.Is(err, own) || errors.Is(err, journal.ErrErased) {
		t.Errorf("a reader's error: %v", err)
	}
	for _, row := range []struct {
		slot  parley.Slot
		table journal.Table
		key   []byte
	}{{near, journal.OnceTable, w.once}, {near, journal.RequestTable, w.request}, {far, journal.DeliveryTable, w.farDelivery}} {
		data, found, err := v.Row(row.slot, row.table, row.key)
		erased("row", err)
		if found || data != nil {
			t.Errorf("row %q, %v", data, found)
		}
	}
	for _, table := range []journal.Table{journal.OnceTable, journal.DeliveryTable} {
		w.must(v.Table(table, func(key, value []byte) bool { t.Errorf("table %d: %q = %q", table, key, value); return true }))
	}
}

func (w *world) checkErasedRows(t *testing.T, v journal.View, kept []byte) {
	t.Helper()
	for _, reverse := range []bool{false, true} {
		var keys []string
		w.must(v.Rows(near, journal.RequestTable, w.host.ID.Bytes(), nil, reverse, func(key, value []byte) bool {
			expect(t, "row", string(value), "kept")
			keys = append(keys, string(key))
			return true
		}))
		expectAll(t, "rows", keys, string(kept))
	}
}
