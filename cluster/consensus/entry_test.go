package consensus

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestDecode changes every byte of an entry, and its place.
func TestDecode(t *testing.T) {
	data := encode(7, 3, []byte("payload"))
	before := Applied{Index: 20, Term: 7, Ordinal: 2}
	entry := func(data []byte, term uint64) *raftpb.Entry {
		return &raftpb.Entry{Index: new(uint64(21)), Term: new(term), Data: data}
	}
	payload, ordinal, err := decode(entry(data, 7), before)
	if err != nil || ordinal != 3 || string(payload) != "payload" {
		t.Fatalf("got %q, %d, %v", payload, ordinal, err)
	}
	reject := func(what string, e *raftpb.Entry, before Applied) {
		t.Helper()
		if _, _, err := decode(e, before); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		reject("a changed byte", entry(changed, 7), before)
		reject("a shorter entry", entry(data[:i], 7), before)
	}
	reject("another term", entry(data, 8), before)
	reject("another term, as its first", entry(encode(7, 1, []byte("payload")), 8), before)
	reject("the second of a term is missing", entry(data, 7), Applied{Index: 20, Term: 7, Ordinal: 1})
	reject("twice", entry(data, 7), Applied{Index: 20, Term: 7, Ordinal: 3})
	reject("the first of a term is missing", entry(data, 7), Applied{Index: 20, Term: 6, Ordinal: 2})
}

// TestRecordAdd merges turns that wait for the disk.
func TestRecordAdd(t *testing.T) {
	entries := func(term, from, to uint64) (list []*raftpb.Entry) {
		for i := from; i <= to; i++ {
			list = append(list, &raftpb.Entry{Index: new(i), Term: new(term)})
		}
		return list
	}
	for _, c := range []struct {
		second []*raftpb.Entry
		want   []uint64 // terms, from index 6 on
	}{
		{nil, []uint64{2, 2, 2, 2}},
		{entries(3, 10, 11), []uint64{2, 2, 2, 2, 3, 3}},
		{entries(3, 8, 8), []uint64{2, 2, 3}},
		{entries(3, 6, 7), []uint64{3, 3}},
		{entries(3, 4, 6), []uint64{3, 3, 3}},
	} {
		first := entries(2, 6, 9)
		var r Record
		r.add(first)
		r.add(c.second)
		var got []uint64
		for i, e := range r.Entries {
			got = append(got, e.GetTerm())
			if e.GetIndex() != r.Entries[0].GetIndex()+uint64(i) {
				t.Errorf("index %d at place %d", e.GetIndex(), i)
			}
		}
		if !slices.Equal(got, c.want) || first[3].GetTerm() != 2 {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}
