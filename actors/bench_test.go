package actors

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/actors/record"
	"parley/journal"
)

// replying has callers reply into conversations for as long as the benchmark
// runs, each to the conversation that pick names.
func replying(b *testing.B, r *rig, owner parley.OrgID, firsts []*record.Message, callers int, pick func(n int64) int) {
	var n atomic.Int64
	var working sync.WaitGroup
	b.ResetTimer()
	for range callers {
		working.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				if _, err := r.reply(answerTo(owner, firsts[pick(i)], "hello", "")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	b.StopTimer()
}

// conversations starts n of them.
func (r *rig) conversations(owner parley.OrgID, ids []parley.AgentID, n int) []*record.Message {
	firsts := make([]*record.Message, n)
	var starting sync.WaitGroup
	for i := range firsts {
		starting.Go(func() {
			p, err := r.send(direct(owner, ids[i%len(ids)], ids[(i+1)%len(ids)], "first", ""))
			if err != nil {
				r.t.Error(err)
			}
			firsts[i] = p.Message
		})
	}
	starting.Wait()
	return firsts
}

// BenchmarkReply compares one conversation that all speak in with ten thousand
// that each come to life for a message.
func BenchmarkReply(b *testing.B) {
	const callers = 512
	b.Run("one hot", func(b *testing.B) {
		r := newRig(b)
		owner, ids := r.agents("acme", 2)
		replying(b, r, owner, r.conversations(owner, ids, 1), callers, func(int64) int { return 0 })
	})
	b.Run("10000 in memory", func(b *testing.B) {
		r := newRig(b)
		owner, ids := r.agents("acme", 100)
		firsts := r.conversations(owner, ids, 10_000)
		for _, first := range firsts {
			must(r.reply(answerTo(owner, first, "awake", "")))(b)
		}
		replying(b, r, owner, firsts, callers, func(n int64) int { return int(n % 10_000) })
	})
	b.Run("10000 cold", func(b *testing.B) {
		r := newRig(b, withTuning(func(n *Node) { n.engine.idleFor = time.Nanosecond }))
		owner, ids := r.agents("acme", 100)
		firsts := r.conversations(owner, ids, 10_000)
		stop := r.sweeping()
		defer stop()
		replying(b, r, owner, firsts, callers, func(n int64) int { return int(n % 10_000) })
	})
}

// BenchmarkIdleActor tells how many bytes an actor costs that nobody speaks to,
// besides its state. It measures once, whatever b.N.
func BenchmarkIdleActor(b *testing.B) {
	const actors = 100_000
	e, _ := tallies(b, 1)
	streams := make([]journal.Stream, actors)
	for i := range streams {
		streams[i] = journal.Stream{Kind: journal.OrgStream, ID: parley.AnyID{0: byte(i >> 16), 6: 0x70, 8: 0x80, 14: byte(i >> 8), 15: byte(i)}}
		e.journal.(*ledger).stream(streams[i]).facts = []journal.StoredEvent{{Tag: 1, Data: []byte{7: 1}}}
	}
	before := inUse()
	for _, s := range streams {
		if sum, err := e.ask(s, look{}, func() {}); sum != uint64(1) || err != nil {
			b.Fatal(fmt.Sprint(sum, err))
		}
	}
	time.Sleep(100 * time.Millisecond) // the last of them stop running
	b.ReportMetric((inUse()-before)/actors, "B/actor")
	if n := e.live.Load(); n != actors {
		b.Fatalf("%d actors are in memory", n)
	}
	runtime.KeepAlive(streams)
}

// inUse is what heap and stacks hold after a collection.
func inUse() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
