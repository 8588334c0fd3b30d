package persistence

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/journaltest"
)

// applyBatch is how many messages the batches below hold.
const applyBatch = 64

// applying returns an operation that applies a batch of direct messages, each from
// another stream, and discards the batch. It calls careless with each item; controls use
// that to allocate more.
func applying(t testing.TB, careless func(*apply.Item)) (operation func()) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	t.Cleanup(func() { mustClose(t, s) })
	j, to := s.lead.Load().journals[0], parley.NewID[parley.AgentID](1, testStart, testEntropy())
	items := make([]apply.Item, applyBatch)
	for i := range items {
		stream := newStream(journaltest.SpreadSlot(i))
		activate(t, j, stream)
		items[i].Entry = directMessage(stream, to, 1, uint64(i))
	}
	return func() {
		batch := s.db.NewBatch()
		ev := j.state.Begin(j.rows, batch)
		for i := range items {
			items[i] = apply.Item{Entry: items[i].Entry, Appended: items[i].Appended[:0]}
			if err := errors.Join(ev.Apply(&items[i]), items[i].Refusal); err != nil {
				t.Fatal(err)
			}
			careless(&items[i])
		}
		if err := errors.Join(ev.Finish(j.arrived), batch.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// applyMost bounds the allocations per message of a batch: 0.2 when it was set.
const applyMost = 0.5

func TestCostOfApplying(t *testing.T) {
	skipUnderRace(t)
	got := testing.AllocsPerRun(50, applying(t, ignoreItem)) / applyBatch
	if t.Logf("%.1f allocations", got); got > applyMost {
		t.Errorf("a message in a batch takes %.1f allocations, at most %.1f are allowed", got, applyMost)
	}
}

// TestCostOfApplyingControl copies each record once more.
func TestCostOfApplyingControl(t *testing.T) {
	skipUnderRace(t)
	var kept []byte
	got := testing.AllocsPerRun(50, applying(t, func(it *apply.Item) { kept = slices.Clone(it.Records[0].Data) })) / applyBatch
	if got <= applyMost {
		t.Errorf("with %d bytes copied a message takes %.1f allocations, and %.1f are allowed", len(kept), got, applyMost)
	}
}

// skipUnderRace skips a test whose allocations the race detector would add to.
func skipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector adds allocations")
	}
}

func ignoreItem(*apply.Item) {}

// BenchmarkApply applies batches of 64 direct messages.
func BenchmarkApply(b *testing.B) {
	batch := applying(b, ignoreItem)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		batch()
	}
}

// fanning returns an operation that applies a fan-out to a whole chunk and discards the
// batch. It calls careless with each seat; controls use that to allocate more.
func fanning(t testing.TB, careless func(parley.Seat)) (operation func()) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	t.Cleanup(func() { mustClose(t, s) })
	j, group := s.lead.Load().journals[0], newGroup(0)
	activate(t, j, group)
	it := apply.Item{Entry: broadcast(group, 1, newSeats(journal.FanoutChunk), 500)}
	return func() {
		batch := s.db.NewBatch()
		ev := j.state.Begin(j.rows, batch)
		it = apply.Item{Entry: it.Entry, Fanouts: it.Fanouts[:0]}
		if err := errors.Join(ev.Apply(&it), it.Refusal, ev.Finish(j.arrived)); err != nil {
			t.Fatal(err)
		}
		for _, seat := range it.Fanouts[0].To {
			careless(seat)
		}
		if n := batch.Count(); n < journal.FanoutChunk {
			t.Fatalf("%d rows are written", n)
		}
		if err := batch.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fanMost bounds the writer's allocations for one copy of a broadcast, and fanBytesMost
// the bytes that a copy adds to the log where it is written with the entry: 0.04 and 125
// when they were set.
const (
	fanMost      = 0.1
	fanBytesMost = 130
)

func TestCostOfFanning(t *testing.T) {
	skipUnderRace(t)
	got := testing.AllocsPerRun(50, fanning(t, func(parley.Seat) {})) / journal.FanoutChunk
	if t.Logf("%.3f allocations", got); got > fanMost {
		t.Errorf("a copy takes %.3f allocations, at most %.3f are allowed", got, fanMost)
	}
}

// TestCostOfFanningControl allocates each feed entry.
func TestCostOfFanningControl(t *testing.T) {
	skipUnderRace(t)
	var kept *journal.FeedEntry
	got := testing.AllocsPerRun(50, fanning(t, func(seat parley.Seat) { kept = &journal.FeedEntry{Ref: parley.AnyID(seat.Agent)} })) / journal.FanoutChunk
	if got <= fanMost || kept == nil {
		t.Errorf("with an entry made for each, a copy takes %.3f allocations, and %.3f are allowed", got, fanMost)
	}
}

// TestCostOfFanningInTheLog compares the log bytes of a broadcast to one agent and
// to a whole chunk.
func TestCostOfFanningInTheLog(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	defer mustClose(t, s)
	group, seats := newGroup(0), newSeats(journal.FanoutChunk)
	activate(t, s.lead.Load().journals[0], group)
	size := func(n int) int {
		batch := s.db.NewBatch()
		defer func() { _ = batch.Close() }()
		if err := s.lead.Load().journals[0].state.Begin(s.lead.Load().journals[0].rows, batch).Apply(&apply.Item{Entry: broadcast(group, 1, seats[:n], 500)}); err != nil {
			t.Fatal(err)
		}
		return batch.Len()
	}
	one, all := size(1), size(len(seats))
	each := (all - one) / (len(seats) - 1)
	if t.Logf("%d bytes for one, %d for each more", one, each); each > fanBytesMost || each < 40 {
		t.Errorf("a copy adds %d bytes to the log, at most %d are allowed", each, fanBytesMost)
	}
}
