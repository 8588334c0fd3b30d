package sealed

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// envelopeAt returns where in the value of a key an envelope begins; sealed is false if
// the value has none.
func envelopeAt(key, value []byte) (at int, sealed bool) {
	switch slot, family := layout.FamilyOf(key); {
	case slot >= parley.Slots:
	case family == layout.EventFamily:
		return 9, value[0]&sealedTag != 0
	case family == layout.StateFamily:
		return 8, layout.StreamOf(key).Kind.HasContent()
	case family == layout.RecordFamily:
		return 8 + 1 + int(value[8]), true
	case family == layout.RowFamily:
		return 0, journal.Table(key[3]).HasContent()
	}
	return 0, false
}

// A stored envelope of which any byte changed, or that was cut or extended, is damaged,
// wherever it is stored.
func TestDamagedEnvelope(t *testing.T) {
	w := newWorld(t, 4)
	w.must(w.append(w.host, 0, w.entry()))
	families := map[byte]int{}
	for _, p := range w.pairs() {
		key, value := p[0], p[1]
		at, sealed := envelopeAt(key, value)
		if !sealed {
			continue
		}
		_, family := layout.FamilyOf(key)
		families[family]++
		if opened, err := OpenPair(w.sealer, key, value); err != nil || !bytes.Contains(opened, []byte(canary)) {
			t.Fatalf("control: %x opens as %q, %v", key, opened, err)
		}
		for i := at; i < len(value); i++ {
			for _, mask := range []byte{1, 0x80, 0xff} {
				changed := bytes.Clone(value)
				changed[i] ^= mask
				w.damaged(t, key, changed)
			}
			w.damaged(t, key, value[:i])
		}
		for _, i := range boundBytes(family, at) {
			changed := bytes.Clone(value)
			changed[i] ^= 1
			w.damaged(t, key, changed)
		}
		w.damaged(t, key, append(bytes.Clone(value), 0))
	}
	expect(t, "events", families[layout.EventFamily], 5)
	expect(t, "states", families[layout.StateFamily], 3)
	expect(t, "records", families[layout.RecordFamily], 5)
	expect(t, "rows", families[layout.RowFamily], 3)
}

// boundBytes returns the places of the clear bytes before an envelope that it is bound to:
// the type of an event, the number of events in a state, the header of a record.
func boundBytes(family byte, at int) (places []int) {
	from, to := 0, 0
	switch family {
	case layout.EventFamily:
		to = 1
	case layout.StateFamily:
		to = 8
	case layout.RecordFamily:
		from, to = 8, at
	}
	for i := from; i < to; i++ {
		places = append(places, i)
	}
	return places
}

func (w *world) damaged(t *testing.T, key, value []byte) {
	t.Helper()
	if opened, err := OpenPair(w.sealer, key, value); !errors.Is(err, ErrDamaged) || errors.Is(err, journal.ErrErased) || bytes.Contains(opened, []byte(canary)) {
		t.Errorf("%x with value %x opens as %q, %v", key, value, opened, err)
	}
}

// damagedStore returns a rig over a store on the disk with the same pairs, of which
// change has changed some.
func (w *world) damagedStore(t *testing.T, change func(all [][2][]byte)) *rig {
	t.Helper()
	all := w.pairs()
	change(all)
	pairs := make([]journaltest.Pair, len(all))
	for i, p := range all {
		pairs[i] = journaltest.Pair{Key: p[0], Value: p[1]}
	}
	dir := filepath.Join(t.TempDir(), "journal")
	w.must(journaltest.Fill(dir, pairs))
	store, err := persistence.Open(dir, persistence.Options{
		Clock: func() time.Time { return testStart }, Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20, AcceptLoss: true,
	})
	w.must(err)
	t.Cleanup(func() { w.must(store.Close()) })
	return &rig{TB: t, journals: w.journals, keys: w.keys, sealer: w.sealer, store: store, layer: New(store.Journal, w.sealer)}
}

// contents are the values of a world that are sealed: the end of the key of each, and how
// a view reads it.
func (w *world) contents() map[string]struct {
	family byte
	end    []byte
	read   func(v journal.View) (string, error)
} {
	type content = struct {
		family byte
		end    []byte
		read   func(v journal.View) (string, error)
	}
	event := func(s journal.Stream, seq uint64) content {
		return content{layout.EventFamily, layout.EventKey(s, seq)[3:], func(v journal.View) (text string, err error) {
			err = v.Events(s, seq, false, func(_ uint64, _ int64, f journal.StoredEvent) bool { text = string(f.Data); return false })
			return text, err
		}}
	}
	stateOf := func(s journal.Stream) content {
		return content{layout.StateFamily, s.ID[:], func(v journal.View) (string, error) {
			_, data, err := v.State(s)
			return string(data), err
		}}
	}
	row := func(slot parley.Slot, table journal.Table, key []byte) content {
		return content{layout.RowFamily, w.cipher().hide(table, key), func(v journal.View) (string, error) {
			data, _, err := v.Row(slot, table, key)
			return string(data), err
		}}
	}
	message := content{layout.RecordFamily, w.message[:], func(v journal.View) (text string, err error) {
		_, err = v.Message(near, w.message, func(b []byte) error { text = string(b); return nil })
		return text, err
	}}
	other := content{layout.RecordFamily, layout.MessageKey(layout.RecordFamily, near, w.farMessage), func(v journal.View) (text string, err error) {
		_, err = v.Message(near, w.farMessage, func(b []byte) error { text = string(b); return nil })
		return text, err
	}}
	return map[string]content{
		"an event": event(w.host, 1), "a later event": event(w.host, 3), "an event of another": event(w.born, 1), "a far event": event(w.bornFar, 1),
		"a state": stateOf(w.host), "another state": stateOf(w.hosted), "a row": row(near, journal.OnceTable, w.once),
		"a row of another table": row(near, journal.RequestTable, w.request), "a far row": row(far, journal.DeliveryTable, w.farDelivery),
		"a message": message, "another message": other,
	}
}

// Envelopes in each other's places are damaged, whether they are of one family or of two.
func TestSwappedEnvelopes(t *testing.T) {
	w := newWorld(t, 4)
	w.must(w.append(w.host, 0, w.entry()))
	contents := w.contents()
	for one, a := range contents {
		for two, b := range contents {
			if one >= two {
				continue
			}
			aKey, aValue := w.pair(a.family, a.end)
			bKey, bValue := w.pair(b.family, b.end)
			aAt, _ := envelopeAt(aKey, aValue)
			bAt, _ := envelopeAt(bKey, bValue)
			w.damaged(t, aKey, append(bytes.Clone(aValue[:aAt]), bValue[bAt:]...))
			w.damaged(t, bKey, append(bytes.Clone(bValue[:bAt]), aValue[aAt:]...))
		}
	}
}

// Each read of a damaged content fails with ErrDamaged, and the reads of all others do
// not; a verification names it.
func TestDamagedReads(t *testing.T) {
	w := newWorld(t, 4)
	w.must(w.append(w.host, 0, w.entry()))
	contents := w.contents()
	delete(contents, "a later event") // a reading from the first event meets that first
	for name, damaged := range contents {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := w.damagedStore(t, func(all [][2][]byte) {
				for _, p := range all {
					if _, family := layout.FamilyOf(p[0]); family == damaged.family && bytes.HasSuffix(p[0], damaged.end) {
						p[1][len(p[1])-1] ^= 1
					}
				}
			})
			v := r.layer.View()
			defer v.Close()
			for other, c := range contents {
				text, err := c.read(v)
				if bad := errors.Is(err, ErrDamaged); bad != (other == name) || bad == strings.Contains(text, canary) || parley.IsRefusal(err) {
					t.Errorf("%s: %q, %v", other, text, err)
				}
			}
			r.archive(func(a *Archive) { verify(t, a, 1, 0) })
			if damaged.family == layout.RowFamily {
				found := 0
				for _, table := range []journal.Table{journal.OnceTable, journal.RequestTable, journal.DeliveryTable} {
					if err := v.Table(table, func(_, _ []byte) bool { return true }); errors.Is(err, ErrDamaged) {
						found++
					}
				}
				expect(t, "damaged tables", found, 1)
			}
		})
	}
	control := w.damagedStore(t, func([][2][]byte) {})
	control.archive(func(a *Archive) { verify(t, a, 0, 0) })
	control.view(func(v journal.View) {
		for name, c := range contents {
			if text, err := c.read(v); err != nil || !strings.Contains(text, canary) {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
	})
}

// verify expects how many contents of an archive are damaged and erased.
func verify(t *testing.T, a *Archive, damaged int, erased uint64) {
	t.Helper()
	result := &report.Verification{}
	got, err := a.Verify(result)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "erased", got, erased)
	faults := 0
	for _, c := range result.Checks() {
		if c.Name == "contents" {
			if faults = int(c.Faults); c.Checked < 16 {
				t.Errorf("%d contents were checked", c.Checked)
			}
		}
	}
	expect(t, "damaged", faults, damaged)
}

// A verification counts what was erased, and does not report it as damaged.
func TestVerifyErased(t *testing.T) {
	w := newWorld(t, 4)
	w.must(w.append(w.host, 0, w.entry()))
	w.archive(func(a *Archive) { verify(t, a, 0, 0) })
	w.erase(w.b) // of both messages, stored once and twice, and of the hosted stream
	w.archive(func(a *Archive) { verify(t, a, 0, 5) })
	w.erase(w.a)
	w.archive(func(a *Archive) { verify(t, a, 0, 16) })
}
