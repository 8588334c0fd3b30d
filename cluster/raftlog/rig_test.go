package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

const testDir = "node/raft"

// testOptions are for a log with small segments, of which little stays in memory.
func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: testDir, ID: 7, New: true, SegmentBytes: 4096, CacheBytes: 3000, PendingBytes: 8192, RecordBytes: 1 << 20}
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := verified(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// verified opens a log after Verify has found that it can be opened and what it holds.
func verified(t testing.TB, o Options) (*Log, error) {
	t.Helper()
	found, unsound := Verify(o)
	l, err := Open(o)
	if errors.Is(err, disk.ErrDamaged) != errors.Is(unsound, disk.ErrDamaged) {
		t.Fatalf("Verify says %v, Open %v", unsound, err)
	}
	if err == nil && unsound == nil {
		want := Contents{found.Records, l.state.cut(), Position{l.state.last, l.state.term(l.state.last)}}
		if found != want || found.Records == 0 {
			t.Fatalf("Verify found %+v, the log holds %+v", found, want)
		}
	}
	return l, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry makes an entry whose data says what it is.
func entry(index, term uint64, size int) *raftpb.Entry {
	e := &raftpb.Entry{Index: new(index), Term: new(term)}
	if size > 0 {
		data := fmt.Appendf(nil, "entry %d of term %d ", index, term)
		e.Data = bytes.Repeat(data, 1+size/len(data))[:size]
		e.Type = raftpb.EntryNormal.Enum()
	}
	return e
}

// generator makes legal records for a log, as a follower of changing leaders gets them.
type generator struct {
	rng  *rand.Rand
	term uint64
	vote uint64
	// sizeMax of the data of an entry.
	sizeMax int
}

func newGenerator(seed uint64) *generator {
	return &generator{rng: rand.New(rand.NewPCG(seed, 2)), term: 1, sizeMax: 300}
}

// bounds are what the next record must fit to.
type bounds interface {
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
	Term(uint64) (uint64, error)
}

func (g *generator) record(at bounds) Record {
	r := Record{}
	first, _ := at.FirstIndex()
	last, _ := at.LastIndex()
	if g.rng.IntN(6) == 0 {
		g.term++
		g.vote = g.rng.Uint64N(4)
	}
	if g.rng.IntN(3) == 0 {
		r.HardState = &raftpb.HardState{Term: new(g.term), Vote: new(g.vote), Commit: new(first - 1 + g.rng.Uint64N(last+2-first))}
	}
	switch {
	case last >= first && g.rng.IntN(8) == 0:
		r.Cut.Index = first + g.rng.Uint64N(last-first+1)
	case g.rng.IntN(60) == 0: // a snapshot
		g.term++
		r.Cut = Position{last + g.rng.Uint64N(20), g.term}
	}
	if g.rng.IntN(5) == 0 {
		r.Note = fmt.Appendf(nil, "note %d", g.rng.Uint64N(1<<40))
	}
	if g.rng.IntN(4) > 0 {
		from := max(last, r.Cut.Index) + 1
		if r.Cut.Index <= last && last >= first && g.rng.IntN(5) == 0 {
			from -= g.rng.Uint64N(min(from-max(first, r.Cut.Index+1), 12) + 1)
			g.term++
		}
		for i := range 1 + g.rng.Uint64N(9) {
			r.Entries = append(r.Entries, entry(from+i, g.term, g.rng.IntN(g.sizeMax)))
		}
	}
	return r
}

// model is what a log must be equal to.
type model struct {
	*raft.MemoryStorage
	note *[]byte
}

// Note is that of the newest record that has one.
func (m model) Note() []byte { return *m.note }

// noted is a log with notes.
type noted interface {
	raft.Storage
	Note() []byte
}

func newModel() model { return model{raft.NewMemoryStorage(), new([]byte)} }

func (m model) append(t testing.TB, r Record) {
	t.Helper()
	if r.HardState != nil {
		must(t, m.SetHardState(r.HardState))
	}
	if r.Note != nil {
		*m.note = r.Note
	}
	if first, _ := m.FirstIndex(); r.Cut.Index >= first {
		if term, err := m.Term(r.Cut.Index); err == nil && (r.Cut.Term == 0 || term == r.Cut.Term) {
			must(t, m.Compact(r.Cut.Index))
		} else {
			must(t, m.reset(r.Cut))
		}
	}
	must(t, m.Append(r.Entries))
}

// reset installs a snapshot. MemoryStorage refuses one that is not newer than the former
// one, but knows of none that were only cut.
func (m model) reset(p Position) error {
	return m.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &p.Index, Term: &p.Term}})
}

// compare returns the first difference, in what raft sees, between a log and its model.
func compare(l, m noted, rng *rand.Rand) error {
	wantHard, _, _ := m.InitialState()
	hard, _, err := l.InitialState()
	if err != nil || hard.GetTerm() != wantHard.GetTerm() || hard.GetVote() != wantHard.GetVote() || hard.GetCommit() != wantHard.GetCommit() {
		return fmt.Errorf("hard state %v, want %v (%v)", hard, wantHard, err)
	}
	if !bytes.Equal(l.Note(), m.Note()) {
		return fmt.Errorf("note %q, want %q", l.Note(), m.Note())
	}
	first, _ := m.FirstIndex()
	last, _ := m.LastIndex()
	gotFirst, _ := l.FirstIndex()
	gotLast, _ := l.LastIndex()
	if gotFirst != first || gotLast != last {
		return fmt.Errorf("indexes %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	for _, i := range []uint64{max(first, 2) - 2, first - 1, first, last, last + 1, first + rng.Uint64N(last+2-first)} {
		want, wantErr := m.Term(i)
		got, err := l.Term(i)
		if got != want || !errors.Is(err, wantErr) {
			return fmt.Errorf("term of %d: %d (%v), want %d (%v)", i, got, err, want, wantErr)
		}
	}
	lo := first - min(first, 2) + rng.Uint64N(last+4-first)
	lo = min(lo, last+1)
	hi := lo + rng.Uint64N(last+2-lo)
	limit := []uint64{0, 500, 5000, 1 << 40}[rng.IntN(4)]
	want, wantErr := m.Entries(lo, hi, limit)
	got, err := l.Entries(lo, hi, limit)
	if !errors.Is(err, wantErr) || len(got) != len(want) {
		return fmt.Errorf("entries %d to %d within %d bytes: %d (%v), want %d (%v)", lo, hi, limit, len(got), err, len(want), wantErr)
	}
	for i, e := range got {
		if e.String() != want[i].String() {
			return fmt.Errorf("entry %v, want %v", e, want[i])
		}
	}
	return nil
}
