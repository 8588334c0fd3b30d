package sealed

import (
	"bytes"
	"errors"
	"testing"

	"parley/journal"
)

// Any bytes that are stored as a record open as what was sealed for this message, or give
// one of the documented errors.
func FuzzOpenRecord(f *testing.F) {
	w := newWorld(f, 1)
	owners, gone := journal.Owners{A: w.a, B: w.b}, w.org()
	c := w.cipher()
	for _, header := range []string{"", "header", string(bytes.Repeat([]byte{'h'}, 300))} {
		r := recordOf(w.message, header, "text", owners)
		w.must(c.sealRecord(&r))
		f.Add(r.Stored)
		f.Add(r.Stored[:len(r.Stored)-1])
		r = recordOf(w.message, header, "text", journal.OwnedBy(gone))
		w.must(c.sealRecord(&r))
		f.Add(r.Stored)
		r = recordOf(w.farMessage, header, "text", owners)
		w.must(c.sealRecord(&r))
		f.Add(r.Stored)
	}
	w.erase(gone)
	for _, stored := range [][]byte{nil, {0}, {0xff}, bytes.Repeat([]byte{0xff}, 20), {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, {5, 'a'}} {
		f.Add(stored)
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		before := bytes.Clone(stored)
		reads := 0
		var record []byte
		err := c.openRecord(w.message, stored, func(b []byte) error {
			reads++
			record = bytes.Clone(b)
			return nil
		})
		switch {
		case !bytes.Equal(stored, before):
			t.Fatalf("%x was changed to %x", before, stored)
		case err == nil && (reads != 1 || !bytes.HasSuffix(record, []byte(canary+"text"))):
			t.Fatalf("%x opens as %q", stored, record)
		case errors.Is(err, journal.ErrErased):
			if header, _, bad := split(stored); bad != nil || reads != 1 || !bytes.Equal(header, record) {
				t.Fatalf("%x was erased, with header %q, %v", stored, record, bad)
			}
		case err != nil && (reads != 0 || !errors.Is(err, ErrDamaged)):
			t.Fatalf("%x: %v after %d reads", stored, err, reads)
		}
	})
}

// Any key with any value opens or gives one of the documented errors. What opens and is
// not stored in the clear was sealed for this key.
func FuzzOpenPair(f *testing.F) {
	w := newWorld(f, 1)
	w.must(w.append(w.host, 0, w.entry()))
	contents := map[string]string{} // by key without its slot, to which nothing is bound
	for _, p := range w.pairs() {
		f.Add(p[0], p[1])
		f.Add(p[0], p[1][:len(p[1])/2])
		f.Add(p[0], []byte{})
		f.Add(p[0][:len(p[0])/2], p[1])
		if _, sealed := envelopeAt(p[0], p[1]); sealed {
			opened, err := OpenPair(w.sealer, p[0], p[1])
			w.must(err)
			contents[string(p[0][2:])] = string(opened[bytes.Index(opened, []byte(canary)):])
		}
	}
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		opened, err := OpenPair(w.sealer, key, value)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, journal.ErrErased):
			t.Fatalf("%x with %x: %v", key, value, err)
		case err != nil || bytes.Equal(opened, value):
		case contents[string(key[2:])] == "" || !bytes.HasSuffix(opened, []byte(contents[string(key[2:])])):
			t.Fatalf("%x with %x opens as %x", key, value, opened)
		}
	})
}
