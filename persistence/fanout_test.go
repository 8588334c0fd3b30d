package persistence

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley"
	"parley/journal"
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
		for laneDepth(s) > 128 {
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
	for lanesBusy(s) {
		time.Sleep(50 * time.Microsecond)
	}
	b.StopTimer()
	copies := float64(b.N) * float64(members)
	b.ReportMetric(copies/b.Elapsed().Seconds(), "copies/s")
	b.ReportMetric((float64(s.db.Metrics().WAL.BytesWritten-before)-1500*float64(b.N*journals))/copies, "log-B/copy")
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
	mustClose(b, s)
}

func laneDepth(s *Store) (deepest int64) {
	for _, j := range s.journals {
		for i := range j.acked {
			deepest = max(deepest, j.acked[i].depth.Load())
		}
	}
	return deepest
}

// closeAtRest closes a store that is not started: nothing arrives any more.
func closeAtRest(t testing.TB, s *Store) {
	t.Helper()
	for _, j := range s.journals {
		for i := range j.acked {
			j.acked[i].depth.Store(0)
		}
	}
	mustClose(t, s)
}

// applied judges an entry of a store that is not started, as the next of a batch.
func applied(t testing.TB, a *application, e *journal.Entry) *item {
	t.Helper()
	it := &item{Entry: e}
	if err := a.apply(it); err != nil || it.err != nil {
		t.Fatal(err, it.err)
	}
	return it
}

// placement says what goes where: what is written at once, and each outbox message with
// its target, whether it is awaited, what it says, and how many records it has.
func placement(it *item) (text []string) {
	for _, f := range it.fanned {
		text = append(text, fmt.Sprintf("%d from %d", len(f.To), f.To[0].Number))
	}
	for _, a := range it.announced {
		text = append(text, fmt.Sprintf("to %v", a.agent.Slot()))
	}
	for _, p := range it.outgoing {
		said := ""
		for _, w := range p.Effects {
			if many, ok := w.(journal.Fanout); ok {
				said += fmt.Sprintf(", %d from %d", len(many.To), many.To[0].Number)
			} else {
				said += fmt.Sprintf(", %T", w)
			}
		}
		text = append(text, fmt.Sprintf("journal %d, number %d, awaited %v, records %d%s", p.target, p.number, p.awaited, len(p.Records), said))
	}
	return text
}

func expectLayout(t *testing.T, it *item, want ...string) {
	t.Helper()
	if got := placement(it); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// arrive applies the first n parcels of an item for a journal.
func arrive(t testing.TB, a *application, it *item, n int) {
	t.Helper()
	for _, p := range it.outgoing {
		if p.target == a.j.number && n > 0 {
			n--
			if err := a.apply(&item{Entry: &journal.Entry{}, outbox: p}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFanoutGoesByBlocks: the first block of those who live here with the entry,
// all else by lanes; what the same stream says to feeds meanwhile comes behind.
func TestFanoutGoesByBlocks(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	defer closeAtRest(t, s)
	a, group, other := newApplication(s.journals[0]), newGroup(0), newGroup(0)
	defer func() { _ = a.batch.Close() }()
	s.journals[0].activations[group], s.journals[0].activations[other] = activation{number: 1}, activation{number: 1}
	seats := crew(600)
	say := journal.AppendFeed{To: seats[1].Agent, Kind: journal.StatusEntry}

	small := applied(t, a, broadcast(group, 1, seats[:200], 9))
	expectLayout(t, small, "200 from 1")
	late := applied(t, a, broadcast(group, 1, seats[300:400], 9)) // whatever block comes first
	expectLayout(t, late, "100 from 301")
	e := broadcast(group, 1, seats, 9)
	e.Effects = append([]journal.Effect{say}, append(e.Effects, journal.Fanout{Kind: journal.StatusEntry, To: seats[:300]}, say)...)
	big := applied(t, a, e)
	expectLayout(t, big, "256 from 1", "256 from 1", "to 7",
		"journal 0, number 1, awaited false, records 0, 256 from 257, 44 from 257",
		"journal 0, number 2, awaited false, records 0, 88 from 513, journal.AppendFeed")
	behind := applied(t, a, broadcast(group, 1, seats[:300], 9))
	expectLayout(t, behind,
		"journal 0, number 3, awaited true, records 0, 256 from 1",
		"journal 0, number 4, awaited false, records 0, 44 from 257")
	reply := journal.AppendFeed{To: seats[9].Agent, Kind: journal.MessageEntry, Ref: parley.AnyID(newBroadcast(0))}
	answer := applied(t, a, &journal.Entry{
		Stream: group, Activation: 1, Effects: []journal.Effect{reply, journal.EnqueueFor{To: other}},
		Records: []journal.Record{{ID: parley.MessageID(reply.Ref), Data: []byte("reply")}},
	})
	expectLayout(t, answer, "journal 0, number 5, awaited true, records 1, journal.AppendFeed")
	// Others have said nothing that is under way.
	expectLayout(t, applied(t, a, &journal.Entry{Stream: other, Activation: 1, Effects: []journal.Effect{say}}), "to 7")
	arrive(t, a, big, 2)
	arrive(t, a, behind, 2)
	expectLayout(t, applied(t, a, &journal.Entry{Stream: group, Activation: 1, Effects: []journal.Effect{say}}),
		"journal 0, number 6, awaited true, records 0, journal.AppendFeed")
	arrive(t, a, answer, 1)
	s.journals[0].received[0]++ // number 6
	expectLayout(t, applied(t, a, &journal.Entry{Stream: group, Activation: 1, Effects: []journal.Effect{say}}), "to 7")
	if n := len(s.journals[0].outboxed); n != 1 { // the one whose parcel was not applied, only counted
		t.Errorf("%d streams count as having something under way", n)
	}
}

// TestFanoutGoesToOtherHomes: a parcel for each block, the first of which brings
// the record and is awaited.
func TestFanoutGoesToOtherHomes(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 2))
	defer closeAtRest(t, s)
	a, group := newApplication(s.journals[0]), newGroup(0)
	defer func() { _ = a.batch.Close() }()
	s.journals[0].activations[group] = activation{number: 1}
	seats := crew(600)
	far := seats[1].Agent // in slot 7
	e := broadcast(group, 1, seats, 9)
	e.Effects = append([]journal.Effect{journal.AddToList{Agent: far}}, e.Effects...)
	e.Effects = append(e.Effects, journal.Fanout{Kind: journal.StatusEntry, To: seats}, journal.AddToList{Agent: far}, journal.AppendFeed{To: far, Kind: journal.StatusEntry}, journal.Fanout{Kind: journal.GroupEntry, To: seats[:2]})
	expectLayout(t, applied(t, a, e), "128 from 1", "128 from 1", "1 from 1",
		"journal 1, number 1, awaited true, records 1, journal.AddToList, 128 from 2, 128 from 2, journal.AddToList",
		"journal 0, number 1, awaited false, records 0, 128 from 257, 128 from 257",
		"journal 1, number 2, awaited false, records 0, 128 from 258, 128 from 258",
		"journal 0, number 2, awaited false, records 0, 44 from 513, 44 from 513",
		"journal 1, number 3, awaited false, records 0, 44 from 514, 44 from 514, journal.AppendFeed",
		"journal 1, number 4, awaited false, records 0, 1 from 2")
	// To nobody is no word at all.
	e = broadcast(group, 1, nil, 9)
	expectLayout(t, applied(t, a, e))
}

// TestQueueLetsOthersPass: late parcels are taken few at a time, never before
// what was there first, and never out of their lane's order.
func TestQueueLetsOthersPass(t *testing.T) {
	q := newQueue()
	push := func(source, number int, late bool) {
		it := &item{cost: lateBytesMax / 2, late: late}
		if it.outbox = (&outboxMessage{source: source, number: uint64(number)}); source < 0 {
			it.outbox = nil
		}
		q.push(it)
	}
	push(1, 1, false)
	push(2, 1, false)
	for n := range 5 {
		push(1, n+2, true)
	}
	push(1, 7, false) // must not pass the others of its lane
	push(2, 2, false)
	push(-1, 0, false)
	take := func(count int) (text string) {
		taken, _ := q.take(nil, count, 1<<30)
		for _, it := range taken {
			if it.outbox == nil {
				text += "entry "
				continue
			}
			text += fmt.Sprint(it.outbox.source, ".", it.outbox.number, " ")
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
	depth := &s.journals[0].acked[0].depth
	for n, full := range map[int64]bool{selfDepthMax: false, selfDepthMax + 1: true} {
		depth.Store(n)
		if s.outboxesFull(s.journals[0]) != full || s.outboxesFull(s.journals[1]) {
			t.Errorf("with %d parcels under way", n)
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
