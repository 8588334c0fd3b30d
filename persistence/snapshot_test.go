package persistence

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/crashtest"
	"parley/persistence/rows"
)

// alone is the Sequencer of a group of one replica: it applies what that proposes.
type alone struct {
	replica *Replica
	// proposals have no index yet.
	proposals chan Committed
	applying  sync.WaitGroup
}

func (a *alone) Propose(term uint64, batch []byte) error {
	a.proposals <- Committed{Term: term, Batch: bytes.Clone(batch)}
	return nil
}

func (a *alone) Fence(context.Context) (uint64, error) { return a.replica.Visible(), nil }

func (a *alone) Confirm(context.Context, uint64) error { return nil }

// openAlone opens a replica, which leads in a term unless that is 0, and closes it at the end
// of the test.
func openAlone(t testing.TB, fs vfs.FS, term uint64) (*Store, *Replica) {
	t.Helper()
	return openAloneIn(t, "replica", testOptions(fs, 2), term)
}

func openAloneIn(t testing.TB, dir string, o Options, term uint64) (*Store, *Replica) {
	t.Helper()
	a := &alone{proposals: make(chan Committed, 64)}
	o.Sequencer = a
	s := mustOpen(t, dir, o)
	r, err := s.Replica()
	if err == nil {
		err = s.Start(ignoreQueue, ignoreTimer)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.replica = r
	a.applying.Go(func() {
		for c := range a.proposals {
			c.Index = r.Applied().Number + 1
			if err := r.Apply([]Committed{c}, []byte("note")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		mustClose(t, s)
		close(a.proposals)
		a.applying.Wait()
	})
	if term != 0 {
		lead(t, r, term)
	}
	return s, r
}

func lead(t testing.TB, r *Replica, term uint64) {
	t.Helper()
	if r.Applied().Number == 0 {
		if err := r.Begin([]byte("note")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Lead(term); err != nil {
		t.Fatal(err)
	}
}

// content is what a replica has in common with others: its position and a hash of all rows.
type content struct {
	number, chain, rows uint64
	count               int
}

func contentOf(t testing.TB, s *Store) (c content) {
	t.Helper()
	span := groupSpan()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: span.Start, UpperBound: span.End})
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a()
	for ok := iter.First(); ok; ok = iter.Next() {
		_, _ = h.Write(iter.Key())
		_, _ = h.Write(iter.Value())
		c.count++
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	at := s.replica.Applied()
	c.number, c.chain, c.rows = at.Number, at.Chain, h.Sum64()
	return c
}

// written returns the snapshot of a replica in bytes.
func written(t testing.TB, r *Replica) []byte {
	t.Helper()
	x, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = x.WriteTo(&b)
	if err = errors.Join(err, x.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(r *Replica, snapshot io.Reader) error {
	x, err := r.Receive(snapshot)
	if err != nil {
		return err
	}
	return errors.Join(r.Restore(x), x.Close())
}

// history is a workload on a replica, with a snapshot in its middle and one at its end.
type history struct {
	*workload
	replica       *Replica
	early, late   []byte
	taken         int // numbers of operations
	first, second content
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{workload: newWorkload(t)}
	h.store, h.replica = openAlone(t, vfs.NewMem(), 1)
	h.run(20, 1)
	h.settle(t)
	h.first, h.early = contentOf(t, h.store), written(t, h.replica)
	more := newWorkload(t) // other streams, the same feeds
	more.store, more.agents, more.seats = h.store, h.agents, h.seats
	more.operations = make([]*operation, len(h.operations)) // their numbers are taken
	more.run(20, 2)
	h.taken = len(more.operations)
	h.settle(t)
	h.second, h.late = contentOf(t, h.store), written(t, h.replica)
	if h.first.count < 100 || h.second.count <= h.first.count {
		t.Fatalf("%d rows, later %d", h.first.count, h.second.count)
	}
	return h
}

// settle waits until nothing is under way.
func (h *history) settle(t *testing.T) {
	t.Helper()
	if err := h.store.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshot: a replica that takes the snapshot of another one has its content, and goes on
// from there, with merges on top of the rows that it took.
func TestSnapshot(t *testing.T) {
	h := newHistory(t)
	s, r := openAlone(t, vfs.NewMem(), 0)
	for _, step := range []struct {
		snapshot []byte
		want     content
	}{{h.early, h.first}, {h.late, h.second}} {
		if err := restore(r, bytes.NewReader(step.snapshot)); err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, s); got != step.want {
			t.Fatalf("got %+v, want %+v", got, step.want)
		}
		if durable, err := r.Durable(); err != nil || durable != step.want.number {
			t.Errorf("durable up to %d (%v), restored %d", durable, err, step.want.number)
		}
	}
	if err := restore(r, bytes.NewReader(h.early)); err == nil {
		t.Error("a snapshot that is older than the content was restored")
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	h.replica.StepDown(nil)
	lead(t, r, 2)
	next := newWorkload(t)
	next.store, next.operations = s, make([]*operation, h.taken)
	next.run(10, 3)
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if faults := checkImage(next, s, next.known(next.promised()), true); len(faults) > 0 {
		t.Errorf("after the restore: %v", faults)
	}
}

// TestSnapshotEndsWithItsStore: a store that closes does not wait for a transfer, and the
// engine does not meet an open iterator.
func TestSnapshotEndsWithItsStore(t *testing.T) {
	h := newHistory(t)
	x, err := h.replica.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- h.store.Close() }()
	<-h.store.closing
	if _, err := x.WriteTo(io.Discard); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("the transfer ends with %v", err)
	}
	if err := errors.Join(x.Close(), <-closed); err != nil {
		t.Error(err)
	}
}

// leftovers lists what lies beside the rows of a store.
func leftovers(t testing.TB, s *Store) (left []string) {
	t.Helper()
	names, err := s.plain.List(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !bytes.HasPrefix([]byte(name), []byte(receivedPrefix)) })
}

// TestDamagedSnapshotIsRefused cuts a snapshot off, and flips bits of it: nothing of it is
// taken, and nothing is left behind.
func TestDamagedSnapshotIsRefused(t *testing.T) {
	h := newHistory(t)
	s, r := openAlone(t, vfs.NewMem(), 0)
	refuse := func(what string, at int, b []byte) {
		x, err := r.Receive(bytes.NewReader(b))
		if err == nil {
			t.Errorf("%s at %d: accepted", what, at)
			_ = x.Close()
		} else if !errors.Is(err, errSnapshot) {
			t.Errorf("%s at %d: %v", what, at, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		at := rng.IntN(len(h.early))
		if i < 40 { // the magic, and the header of the first frame
			at = i % 20
		}
		refuse("cut", at, h.early[:at])
		flipped := bytes.Clone(h.early)
		flipped[at] ^= 1 << rng.IntN(8)
		refuse("flipped", at, flipped)
	}
	refuse("its last byte is missing", 0, h.early[:len(h.early)-1])
	others := bytes.Clone(h.early)
	others[len(snapshotMagic)] = 4
	refuse("of another number of journals", 0, others)
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := contentOf(t, s); got.count != 0 {
		t.Errorf("the replica has %d rows", got.count)
	}
}

// TestSnapshotCrash: whenever the power fails while a snapshot is received and restored, the
// replica opens with its old content or with the new one, at the position that belongs to it.
func TestSnapshotCrash(t *testing.T) {
	h := newHistory(t)
	mem := vfs.NewCrashableMem()
	var done atomic.Int64 // how many snapshots were restored
	var between atomic.Pointer[content]
	disk := crashtest.NewDisk(mem, "replica", 1, func() int { return int(done.Load()) })
	var images, before, after int
	var inspector sync.WaitGroup
	inspector.Go(func() {
		for i := range disk.Images() {
			o := testOptions(i.FS, 2)
			o.Sequencer = &alone{}
			s, err := Open("replica", o)
			if err != nil {
				t.Errorf("before %s: %v", i.Op, err)
				continue
			}
			images++
			switch got := contentOf(t, s); {
			case got == h.first && i.Known <= 1, between.Load() != nil && got == *between.Load() && i.Known == 1:
				before++
			case got == h.second:
				after++
			case got.number == 0 && got.count == 0 && i.Known == 0:
			default:
				t.Errorf("before %s, with %d restored: %+v; the first is %+v, the second %+v", i.Op, i.Known, got, h.first, h.second)
			}
			if left := leftovers(t, s); len(left) > 0 {
				t.Errorf("before %s: left behind: %v", i.Op, left)
			}
			if err := s.Close(); err != nil {
				t.Errorf("before %s: %v", i.Op, err)
			}
		}
	})
	o := testOptions(disk.FS(), 2)
	o.Sequencer = &alone{}
	s := mustOpen(t, "replica", o)
	r, err := s.Replica()
	if err == nil {
		err = restore(r, bytes.NewReader(h.early))
		done.Add(1)
	}
	if err == nil { // what is only in memory must not lie over the tables of the next one
		err = r.Apply([]Committed{{Index: h.first.number + 1, Term: 1}}, []byte("note"))
		between.Store(new(contentOf(t, s)))
	}
	if err == nil {
		err = restore(r, bytes.NewReader(h.late))
		done.Add(1)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	disk.Stop()
	inspector.Wait()
	t.Logf("%d images: %d with the old content, %d with the new one", images, before, after)
	if before == 0 || after == 0 {
		t.Error("there were no images of the old content, or none of the new one")
	}
}

// TestViewsOverARestore: a view that was opened before the content is replaced fails from then
// on. The control shows why: the engine takes the rows away from its snapshots too.
func TestViewsOverARestore(t *testing.T) {
	h := newHistory(t)
	s, r := openAlone(t, vfs.NewMem(), 0)
	if err := restore(r, bytes.NewReader(h.early)); err != nil {
		t.Fatal(err)
	}
	agent := h.agents[0]
	entries := func(v journal.View) (n int, err error) {
		err = v.Feed(agent, 0, ^uint64(0), func(journal.FeedEntry) bool { n++; return true })
		return n, err
	}
	v, sent := s.View(), written(t, r)
	defer v.Close()
	s.enter()
	unprotected := &storeView{store: s, View: rows.View{Homes: s.homes, Reader: s.db.NewSnapshot(), Instant: true}}
	defer unprotected.Close()
	content, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(r, bytes.NewReader(h.late)); err != nil {
		t.Fatal(err)
	}
	if n, err := entries(v); !errors.Is(err, journal.ErrBehind) {
		t.Errorf("a view from before shows %d entries, %v", n, err)
	}
	if n, err := entries(unprotected.parts()); err != nil || n != 0 {
		t.Errorf("control: an unprotected view shows %d entries, %v: the protection is not needed", n, err)
	}
	later := s.View()
	defer later.Close()
	if n, err := entries(later); err != nil || n == 0 {
		t.Errorf("a view from after shows %d entries, %v", n, err)
	}
	var b bytes.Buffer
	if _, err := content.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), sent) {
		t.Errorf("a snapshot that is being sent changes: %v", err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
}

// TestFollowOverARestore: who follows a feed gets each entry once and in order, also those that
// came with a snapshot.
func TestFollowOverARestore(t *testing.T) {
	h := newHistory(t)
	s, r := openAlone(t, vfs.NewMem(), 0)
	if err := restore(r, bytes.NewReader(h.early)); err != nil {
		t.Fatal(err)
	}
	agent := h.agents[0]
	told := 0
	sub := s.Follow(agent, 0, func() { told++ })
	defer sub.Close()
	var got []uint64
	read := func() {
		for {
			entries, err := sub.Next(3)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				return
			}
			for _, e := range entries {
				got = append(got, e.Position)
			}
		}
	}
	read()
	before := len(got)
	if err := restore(r, bytes.NewReader(h.late)); err != nil {
		t.Fatal(err)
	}
	if told == 0 {
		t.Error("nobody was told")
	}
	read()
	var want []uint64
	v := h.store.View()
	defer v.Close()
	if err := v.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool { want = append(want, e.Position); return true }); err != nil {
		t.Fatal(err)
	}
	if before == 0 || len(want) == before || !slices.Equal(got, want) {
		t.Errorf("got %d and then %v, want %v", before, got, want)
	}
}
