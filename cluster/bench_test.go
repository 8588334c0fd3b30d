package cluster

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/journal"
	"parley/persistence"
)

// writers append at once, each one message after the other.
const writers = 512

// serverWork stands for what a server spends on a message besides its journal.
const serverWork = 75 * time.Microsecond

// BenchmarkAppend compares a store on its own, a group of one voter and three replicas of
// one machine: 512 writers append messages of 1.7 KB, with an event, a row, a record and a
// feed entry each. Run all in one go, for 30 s or more each: compaction is deferred.
func BenchmarkAppend(b *testing.B) {
	for _, work := range []time.Duration{serverWork, 0} {
		for _, voters := range []int{0, 1, 3} {
			b.Run(fmt.Sprintf("voters=%d/work=%v", voters, work), func(b *testing.B) {
				j, end := openForBench(b, voters)
				defer end()
				appendMessages(b, j, work)
			})
		}
	}
}

// openForBench opens a store on its own, or the leader of a group.
func openForBench(b *testing.B, voters int) (*persistence.Store, func()) {
	b.Helper()
	if voters == 0 {
		store, err := persistence.Open(b.TempDir(), persistence.Options{
			Journals: 1, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), FreeBytesMin: -1,
		})
		if err == nil {
			err = store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {})
		}
		if err != nil {
			b.Fatal(err)
		}
		return store, func() { _ = store.Close() }
	}
	s := &replicas{t: b, journals: 1, dir: b.TempDir(), tune: func(o *persistence.Options) {
		o.Clock, o.FreeBytesMin, o.CacheBytes, o.MemTableBytes = time.Now, -1, 0, 0
	}}
	for range voters {
		s.disks = append(s.disks, vfs.Default)
	}
	g := s.openAll()
	if err := g.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		b.Fatal(err)
	}
	return g.leader, func() { _ = g.Close() }
}

func appendMessages(b *testing.B, j *persistence.Store, work time.Duration) {
	b.Helper()
	var next atomic.Uint64
	entropy := func() (random [10]byte) {
		n := next.Add(1)
		for i := range 8 {
			random[i] = byte(n >> (8 * i))
		}
		return random
	}
	body := make([]byte, 1500)
	for i := range body {
		body[i] = byte(i * 7)
	}
	b.SetParallelism(writers / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		random := entropy()
		slot := parley.Slot(uint16(random[0])<<4) % parley.Slots
		stream := journal.Stream{Kind: journal.AgentStream, ID: parley.NewID[parley.AnyID](slot, time.Now(), random)}
		released := make(chan error, 1)
		await := func(e *journal.Entry) bool {
			e.Slot, e.Stream, e.At, e.Release = slot, stream, time.Now(), func(err error) { released <- err }
			j.Append(e)
			err := <-released
			if err != nil {
				b.Error(err)
			}
			return err == nil
		}
		activation, seq := j.NextActivation(), uint64(0)
		for ok := await(&journal.Entry{Activation: activation, Activate: true}); ok && pb.Next(); seq++ {
			for began := time.Now(); time.Since(began) < work; { // burn what a server would use
			}
			id := parley.NewID[parley.MessageID](slot, time.Now(), entropy())
			ok = await(&journal.Entry{
				Activation: activation, Expect: seq, Events: []journal.StoredEvent{{Tag: 1, Data: body[:64]}},
				Rows:    []journal.Row{{Slot: slot, Table: journal.OnceTable, Key: append([]byte{0, 0, 0, 1, 16}, id[:]...), Value: body[:64]}},
				Records: []journal.Record{{ID: id, Data: body}},
				Effects: []journal.Effect{journal.AppendFeed{To: parley.AgentID(stream.ID), Kind: journal.MessageEntry, Ref: parley.AnyID(id), Note: body[:4]}},
			})
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
