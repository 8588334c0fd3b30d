package sealed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/seal"
)

// today is the first day whose rows the store does not forget.
var today = journal.Day(testStart)

func onceKey(day uint32, scope []byte, name string) []byte {
	key := append(binary.BigEndian.AppendUint32(nil, day), byte(len(scope)))
	return append(append(key, scope...), name...)
}

// A name has one hash in a table and for an owner, on all days and after a restart, and
// another one in other tables, for other owners and under other server keys.
func TestHiddenNames(t *testing.T) {
	r := newRig(t, 1)
	a, b, c := r.org(), r.org(), r.cipher()
	key := func(table journal.Table, owner parley.OrgID, name string) string {
		hidden := c.hide(table, append(owner.Bytes(), name...))
		if !bytes.HasPrefix(hidden, owner[:]) || len(hidden) != 16+seal.MACBytes {
			t.Errorf("table %d hides %q as %x", table, name, hidden)
		}
		return string(hidden[16:])
	}
	once := func(day uint32, scope []byte, name string) string {
		hidden := c.hide(journal.OnceTable, onceKey(day, scope, name))
		if prefix := onceKey(day, scope, ""); !bytes.HasPrefix(hidden, prefix) || len(hidden) != len(prefix)+seal.MACBytes {
			t.Errorf("%q is hidden as %x", name, hidden)
		}
		return string(hidden[len(hidden)-seal.MACBytes:])
	}
	slug := func(name string) string { return string(c.hide(journal.SlugTable, []byte(name))) }
	workload := func(name string) string { return string(c.hide(journal.WorkloadTable, []byte(name))) }
	hashes := []string{
		key(journal.NameTable, a, "n"), key(journal.NameTable, b, "n"), key(journal.GroupNameTable, a, "n"), key(journal.NameTable, a, "m"),
		once(7, a[:], "n"), once(7, b[:], "n"), once(7, append(a.Bytes(), 1), "n"), once(7, a[:], "m"), once(7, nil, "n"), slug("n"), slug("m"), slug("N"),
		workload("n"), workload("m"),
	}
	for i, hash := range hashes {
		if slices.Contains(hashes[:i], hash) {
			t.Errorf("hash %d is equal to an earlier one", i)
		}
	}
	for _, day := range []uint32{0, 8, 1 << 31} {
		expect(t, "another day", once(day, a[:], "n"), hashes[4])
	}
	again := cipher{seal.New(r.keys, [32]byte{1})}
	expect(t, "the same server key", string(again.hide(journal.SlugTable, []byte("n"))), hashes[9])
	other := cipher{seal.New(r.keys, [32]byte{2})}
	if string(other.hide(journal.SlugTable, []byte("n"))) == hashes[9] {
		t.Error("another server key gives the same hash")
	}
	for _, kind := range []journal.StreamKind{journal.SlugStream, journal.WorkloadStream} {
		one, two := r.stream(kind, near), r.stream(kind, far)
		if x, y := c.hideStream(one), c.hideStream(two); x == one || y == two || x.ID == y.ID || x.Slot() != near || y.Slot() != far || x != c.hideStream(one) {
			t.Errorf("streams of kind %d are hidden as %v and %v", kind, x, y)
		}
	}
	claimed := r.stream(journal.SlugStream, near)
	proven := journal.Stream{Kind: journal.WorkloadStream, ID: claimed.ID}
	if c.hideStream(claimed).ID == c.hideStream(proven).ID {
		t.Error("a slug and a SPIFFE id have one hash")
	}
	if s := r.stream(journal.OrgStream, near); c.hideStream(s) != s {
		t.Error("the stream of an organization is hidden")
	}
}

// Keys without a name, and prefixes of keys that end before it, are stored as they are.
// The caller's key is never changed.
func TestHiddenPrefixes(t *testing.T) {
	r := newRig(t, 1)
	a, c := r.org(), r.cipher()
	for table, keys := range map[journal.Table][][]byte{
		journal.NameTable:      {nil, a[:5], a[:]},
		journal.GroupNameTable: {a[:]},
		journal.OnceTable:      {nil, {0, 0}, {0, 0, 0, 7}, {0, 0, 0, 7, 16}, onceKey(7, a[:], "")[:9], onceKey(7, a[:], "")},
		journal.SlugTable:      {nil, {}},
		journal.WorkloadTable:  {nil, {}},
		journal.RosterTable:    {onceKey(7, a[:], "place")},
		journal.RequestTable:   {onceKey(7, a[:], "place")},
	} {
		for _, key := range keys {
			if got := c.hide(table, key); !bytes.Equal(got, key) {
				t.Errorf("table %d hides %x as %x", table, key, got)
			}
		}
	}
	for table, key := range map[journal.Table][]byte{journal.NameTable: append(a.Bytes(), "name"...), journal.OnceTable: onceKey(7, a[:], "name"), journal.SlugTable: []byte("name"), journal.WorkloadTable: []byte("name")} {
		spare := append(make([]byte, 0, 200), key...)
		if hidden := c.hide(table, spare); bytes.Equal(hidden, key) || !bytes.Equal(spare, key) || bytes.HasPrefix(spare[:cap(spare)][len(key):], []byte{1}) {
			t.Errorf("table %d hides %x as %x, the key is now %x", table, key, hidden, spare)
		}
		if tail := spare[:cap(spare)][len(key):]; slices.Max(tail) != 0 {
			t.Errorf("table %d: memory after the key was changed", table)
		}
	}
}

// Rows of a table are paged through with a name as the cursor, in the order of their
// hashes; each row comes once.
func TestHiddenPages(t *testing.T) {
	r := newRig(t, 1)
	var want []string
	e := &journal.Entry{}
	for i := range 57 {
		slug := fmt.Sprintf("slug-%d", i)
		want = append(want, slug)
		e.Rows = append(e.Rows, journal.Row{Slot: near, Table: journal.SlugTable, Key: []byte(slug), Value: []byte(slug)})
	}
	r.must(r.append(r.stream(journal.GroupStream, near), 0, e))
	slices.Sort(want)
	for _, reverse := range []bool{false, true} {
		for _, size := range []int{1, 5, 57, 100} {
			var got []string
			for beyond := []byte(nil); ; beyond = []byte(got[len(got)-1]) {
				n := 0
				r.view(func(v journal.View) {
					r.must(v.Rows(near, journal.SlugTable, nil, beyond, reverse, func(_, value []byte) bool {
						got = append(got, string(value))
						n++
						return n < size
					}))
				})
				if n < size || len(got) > len(want) {
					break
				}
			}
			slices.Sort(got)
			expectAll(t, "slugs", got, want...)
		}
	}
}

// The rows of a day, or of a scope on it, are deleted by their prefix although names are
// hashed.
func TestHiddenPrefixDeletion(t *testing.T) {
	r := newRig(t, 1)
	a, b := r.org(), r.org()
	host := r.stream(journal.GroupStream, near)
	e := &journal.Entry{}
	keys := map[string][]byte{}
	for day := range uint32(3) {
		for _, scope := range []parley.OrgID{a, b} {
			for i := range 4 {
				key := onceKey(today+day, scope[:], fmt.Sprint("key ", i))
				keys[string(key)] = key
				e.Rows = append(e.Rows, journal.Row{Slot: near, Table: journal.OnceTable, Key: key, Value: []byte("done"), Owners: journal.OwnedBy(scope)})
			}
		}
	}
	r.must(r.append(host, 0, e))
	there := func() (n int) {
		for _, key := range keys {
			if value(r.layer, near, journal.OnceTable, key) == "done" {
				n++
			}
		}
		return n
	}
	beneath := func(prefix []byte) {
		t.Helper()
		r.must(r.append(host, 0, &journal.Entry{Rows: []journal.Row{{Slot: near, Table: journal.OnceTable, Key: prefix, Delete: true, Beneath: true}}}))
	}
	expect(t, "rows", there(), 24)
	beneath(onceKey(today+1, nil, "")[:4])
	expect(t, "rows without a day", there(), 16)
	beneath(onceKey(today+2, a[:], ""))
	expect(t, "rows without one scope of another day", there(), 12)
	expect(t, "a row of the other scope", value(r.layer, near, journal.OnceTable, onceKey(today+2, b[:], "key 0")), "done")
	r.must(r.append(host, 0, &journal.Entry{Rows: []journal.Row{{Slot: near, Table: journal.OnceTable, Key: onceKey(today+2, b[:], "key 0"), Delete: true}}}))
	expect(t, "a row deleted by its key", value(r.layer, near, journal.OnceTable, onceKey(today+2, b[:], "key 0")), "-")
	expect(t, "rows without that", there(), 11)
}
