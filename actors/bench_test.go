package actors

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/record"
	"parley/client/parley"
)

// replyConcurrently runs callers that reply for the duration of the benchmark, each
// into the conversation that pick selects.
func replyConcurrently(b *testing.B, r *testNode, owner parley.OrgID, firsts []*record.Message, callers int, pick func(n int64) int) {
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

// conversations starts n conversations.
func (r *testNode) conversations(owner parley.OrgID, ids []parley.AgentID, n int) []*record.Message {
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

// BenchmarkReply compares one busy conversation with ten thousand that are each loaded
// for one message.
func BenchmarkReply(b *testing.B) {
	const callers = 512
	b.Run("one hot", func(b *testing.B) {
		r := newTestNode(b)
		owner, ids := r.agents("acme", 2)
		replyConcurrently(b, r, owner, r.conversations(owner, ids, 1), callers, func(int64) int { return 0 })
	})
	b.Run("10000 in memory", func(b *testing.B) {
		r := newTestNode(b)
		owner, ids := r.agents("acme", 100)
		firsts := r.conversations(owner, ids, 10_000)
		for _, first := range firsts {
			must(r.reply(answerTo(owner, first, "awake", "")))(b)
		}
		replyConcurrently(b, r, owner, firsts, callers, func(n int64) int { return int(n % 10_000) })
	})
	b.Run("10000 cold", func(b *testing.B) {
		r := newTestNode(b, withTuning(func(n *Node) { n.engine.IdleFor = time.Nanosecond }))
		owner, ids := r.agents("acme", 100)
		firsts := r.conversations(owner, ids, 10_000)
		stop := r.passivateRepeatedly()
		defer stop()
		replyConcurrently(b, r, owner, firsts, callers, func(n int64) int { return int(n % 10_000) })
	})
}
