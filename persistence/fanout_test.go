package persistence

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

// crew makes agents with seats from 1 on, over all slots.
func crew(n int) []parley.Seat {
	seats := make([]parley.Seat, n)
	for i := range seats {
		seats[i] = parley.Seat{
			Agent:  parley.NewID[parley.AgentID](parley.Slot(i*7%parley.Slots), testStart, testEntropy()),
			Number: uint32(i + 1),
		}
	}
	return seats
}

func newGroup(slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: journal.GroupStream, ID: parley.NewID[parley.AnyID](slot, testStart, testEntropy())}
}

func newBroadcast(slot parley.Slot) parley.MessageID {
	var random [10]byte // of which a broadcast keeps the first four bytes
	binary.BigEndian.PutUint32(random[:], uint32(testIDs.Add(1)))
	return parley.NewID[parley.MessageID](slot, testStart, random).Broadcast()
}

// broadcast is an entry of a group that sends one message to all of to.
func broadcast(group journal.Stream, epoch uint64, to []parley.Seat, body int) *journal.Entry {
	id := newBroadcast(group.Slot())
	return &journal.Entry{
		Slot: group.Slot(), Stream: group, Activation: epoch, At: testStart,
		Records: []journal.Record{{ID: id, Data: make([]byte, body)}},
		Effects: []journal.Effect{journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(id), Note: journal.TypeHash("text"), To: to}},
	}
}

// benchmarkFanout has one group broadcast as fast as the rest of each broadcast
// is carried out.
func benchmarkFanout(b *testing.B, journals, members int) {
	s, _ := behindValve(b, journals, func(o *Options) { o.MemTableBytes, o.CacheBytes = 32<<20, 64<<20 })
	group, seats := newGroup(0), crew(members)
	epoch := activated(b, s, group)
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
		e := broadcast(group, epoch, seats, 1500)
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
	for _, j := range s.journals {
		for i := range j.outboxes {
			deepest = max(deepest, j.outboxes[i].depth.Load())
		}
	}
	return deepest
}

// closeAtRest closes a store that is not started: nothing arrives any more.
func closeAtRest(t testing.TB, s *Store) {
	t.Helper()
	for _, j := range s.journals {
		for i := range j.outboxes {
			j.outboxes[i].depth.Store(0)
		}
	}
	mustClose(t, s)
}

// TestQueueLetsOthersPass: late messages are taken few at a time, never before
// what was there first, and never out of their outbox's order.
func TestQueueLetsOthersPass(t *testing.T) {
	q := newQueue()
	push := func(source, number int, late bool) {
		it := &item{cost: lateBytesMax / 2, late: late}
		if source >= 0 {
			it.Message = &apply.Message{Source: source, Number: uint64(number)}
		}
		q.push(it)
	}
	push(1, 1, false)
	push(2, 1, false)
	for n := range 5 {
		push(1, n+2, true)
	}
	push(1, 7, false) // must not pass the others of its outbox
	push(2, 2, false)
	push(-1, 0, false)
	take := func(count int) (text string) {
		taken, _ := q.take(nil, count, 1<<30)
		for _, it := range taken {
			if it.Message == nil {
				text += "entry "
				continue
			}
			text += fmt.Sprint(it.Message.Source, ".", it.Message.Number, " ")
		}
		return text
	}
	for i, want := range []string{"1.1 ", "2.1 1.2 1.3 ", "2.2 1.4 1.5 ", "entry 1.6 1.7 "} {
		if got := take(1); got != want {
			t.Errorf("batch %d: got %q, want %q", i, got, want)
		}
	}
	push(1, 8, false)
	if got := take(1); got != "1.8 " {
		t.Errorf("when nothing is late any more: got %q", got)
	}
	q.close()
	if taken, more := q.take(nil, 1, 1); more || len(taken) > 0 {
		t.Error("a closed and empty queue gives more")
	}
}

// TestFanoutOverload: the doors close when too much is under way to be there soon.
func TestFanoutOverload(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 2))
	defer mustClose(t, s)
	depth := &s.journals[0].outboxes[0].depth
	for n, full := range map[int64]bool{selfDepthMax: false, selfDepthMax + 1: true} {
		depth.Store(n)
		if s.outboxesFull(s.journals[0]) != full || s.outboxesFull(s.journals[1]) {
			t.Errorf("with %d messages under way", n)
		}
	}
	depth.Store(0)
}

// TestChunkIsSearched: what is in a list is found, and nothing else.
func TestChunkIsSearched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 256), 1, 40, rapid.ID).Draw(t, "seats")
		slices.Sort(numbers)
		var to []parley.Seat
		for _, n := range numbers {
			to = append(to, parley.Seat{Number: n, Agent: drawID(t)})
		}
		first := rapid.Uint64Range(0, 3).Draw(t, "first")
		c, err := layout.DecodeCopies(layout.AppendSeats(layout.EncodeNumber(first), to))
		if err != nil || c.Len() != len(to) {
			t.Fatal(c, err)
		}
		for n := range uint32(258) {
			i := slices.Index(numbers, n)
			if got := c.Find(n); got != i {
				t.Fatalf("seat %d is found at %d, want %d", n, got, i)
			}
			if i >= 0 && (c.Seat(i) != to[i] || first > 0 && c.Position(i) != first+uint64(i) || first == 0 && c.Position(i) != 0) {
				t.Fatalf("place %d: %v at %d", i, c.Seat(i), c.Position(i))
			}
		}
	})
}

func drawID(t *rapid.T) [16]byte {
	return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
}
