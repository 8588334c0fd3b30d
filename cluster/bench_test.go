//go:build unix

package cluster

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
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
				s := openForBench(b, voters)
				defer s.end()
				before := s.read(b)
				appendMessages(b, s.journal, work)
				s.report(b, before)
			})
		}
	}
}

// benched is what is measured: a store on its own, or the leader of a group.
type benched struct {
	journal *persistence.Store
	group   *group // nil for a store on its own
	end     func()
}

// counters since the opening.
type counters struct {
	processor             time.Duration
	batches, payload      uint64
	logged, syncs, voters uint64
}

func (s *benched) read(b *testing.B) (c counters) {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	c.processor = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	stats := s.journal.Stats().Journals[0]
	c.batches, c.payload = stats.Batches, stats.Bytes
	if s.group != nil {
		for _, log := range s.group.logs {
			of := log.Stats()
			c.logged, c.syncs, c.voters = c.logged+of.Bytes, c.syncs+of.Syncs, c.voters+1
		}
	}
	return c
}

// report reports what was used since a reading, by message; by batch and node; and the bytes
// of each node's log by those of the batches.
func (s *benched) report(b *testing.B, before counters) {
	b.Helper()
	now := s.read(b)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64((now.processor-before.processor).Microseconds())/float64(b.N), "cpu-µs/message")
	batches := float64(now.batches - before.batches)
	b.ReportMetric(float64(b.N)/batches, "messages/batch")
	if s.group != nil {
		voters := float64(now.voters)
		b.ReportMetric(float64(now.syncs-before.syncs)/batches/voters, "syncs/batch/node")
		b.ReportMetric(float64(now.logged-before.logged)/float64(now.payload-before.payload)/voters, "logged/payload")
	}
}

func openForBench(b *testing.B, voters int) *benched {
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
		return &benched{journal: store, end: func() { _ = store.Close() }}
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
	return &benched{journal: g.leader, group: g, end: func() { _ = g.Close() }}
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
}
