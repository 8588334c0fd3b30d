package persistence

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
)

// newSeats makes agents with seats from 1 on, in all slots.
func newSeats(n int) []parley.Seat {
	seats := make([]parley.Seat, n)
	for i := range seats {
		seats[i] = parley.Seat{
			Agent:  parley.NewID[parley.AgentID](journaltest.SpreadSlot(i), testStart, testEntropy()),
			Number: uint32(i + 1),
		}
	}
	return seats
}

func newGroup(slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: journal.GroupStream, ID: parley.NewID[parley.AnyID](slot, testStart, testEntropy())}
}

func newBroadcast(slot parley.Slot) parley.MessageID {
	var random [10]byte // a broadcast's id keeps its first four bytes
	binary.BigEndian.PutUint32(random[:], uint32(testIDs.Add(1)))
	return parley.NewID[parley.MessageID](slot, testStart, random).Broadcast()
}

// broadcast is an entry of a group that sends one message to all of to.
func broadcast(group journal.Stream, activation uint64, to []parley.Seat, body int) *journal.Entry {
	id := newBroadcast(group.Slot())
	return &journal.Entry{
		Slot: group.Slot(), Stream: group, Activation: activation, At: testStart,
		Records: []journal.Record{{ID: id, Data: make([]byte, body)}},
		Effects: []journal.Effect{journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(id), Note: journal.TypeHash("text"), To: to}},
	}
}

// benchmarkFanout makes one group broadcast as fast as the fan-outs complete.
func benchmarkFanout(b *testing.B, journals, members int) {
	s, _ := openWithSyncControl(b, journals, func(o *Options) { o.MemTableBytes, o.CacheBytes = 32<<20, 64<<20 })
	group, seats := newGroup(0), newSeats(members)
	activation := activated(b, s, group)
	seeded(1).Shuffle(len(seats), func(i, k int) { seats[i].Agent, seats[k].Agent = seats[k].Agent, seats[i].Agent })
	room := make(chan struct{}, 64)
	before := s.db.Metrics().WAL.BytesWritten
	var worst time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for outboxDepth(s) > 128 {
			time.Sleep(50 * time.Microsecond)
		}
		e := broadcast(group, activation, seats, 1500)
		began := time.Now()
		e.Release = func(err error) {
			if err != nil {
				b.Error(err)
			}
			worst = max(worst, time.Since(began))
			<-room
		}
		room <- struct{}{}
		s.Append(e)
	}
	for range cap(room) {
		room <- struct{}{}
	}
	for outboxesBusy(s) {
		time.Sleep(50 * time.Microsecond)
	}
	b.StopTimer()
	copies := float64(b.N) * float64(members)
	b.ReportMetric(copies/b.Elapsed().Seconds(), "copies/s")
	b.ReportMetric((float64(s.db.Metrics().WAL.BytesWritten-before)-1500*float64(b.N*journals))/copies, "log-B/copy")
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
	mustClose(b, s)
}

func outboxDepth(s *Store) (deepest int64) {
	for _, j := range s.lead.Load().journals {
		for i := range j.outboxes {
			deepest = max(deepest, j.outboxes[i].depth.Load())
		}
	}
	return deepest
}

// closeAtRest closes a store that was not started, in which no message arrives.
func closeAtRest(t testing.TB, s *Store) {
	t.Helper()
	for _, j := range s.lead.Load().journals {
		for i := range j.outboxes {
			j.outboxes[i].depth.Store(0)
		}
	}
	mustClose(t, s)
}

// TestFanoutOverload: Admit refuses when too many parts of fan-outs are in progress.
func TestFanoutOverload(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 2))
	defer mustClose(t, s)
	depth := &s.lead.Load().journals[0].outboxes[0].depth
	for n, full := range map[int64]bool{selfDepthMax: false, selfDepthMax + 1: true} {
		depth.Store(n)
		if s.lead.Load().journals[0].outboxesFull() != full || s.lead.Load().journals[1].outboxesFull() {
			t.Errorf("with %d messages in progress", n)
		}
	}
	depth.Store(0)
}
