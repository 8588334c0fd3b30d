package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
)

// TestPollsOverAStore compares polls with the inbox while messages arrive, statuses
// change and the server restarts.
func TestPollsOverAStore(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			clock := newManualClock(noon)
			r := newTestNode(t, withJournals(journals), withClock(clock.now), withTuning(func(n *Node) { n.queries.Limits().CountEntries = 8 }))
			owner, ids := r.agents("acme", 3)
			chance, began := rand.New(rand.NewPCG(1, 2)), clock.now().UnixMilli()
			check := func() {
				t.Helper()
				inbox := r.inbox(ids[0])
				for range 12 {
					since, want := began-5+chance.Int64N(clock.now().UnixMilli()-began+10), 0
					for _, m := range inbox {
						if m.Record.MessageID().Time().UnixMilli() > since {
							want++
						}
					}
					if got := must(r.node.Messages.CountSince(context.Background(), ids[0], since))(t); got != want {
						t.Fatalf("there are %d messages, a poll since %d ms counts %d", want, since-began, got)
					}
				}
			}
			for round := range 6 {
				for range chance.IntN(40) {
					sent := must(r.send(direct(owner, ids[1+chance.IntN(2)], ids[0], "", "")))(t).Message
					if chance.IntN(3) == 0 {
						must(r.reply(answerTo(owner, sent, "", "")))(t)
						must(r.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: sent.Conversation(), By: ids[:1], Status: "paused"}))(t)
					}
					clock.advance(time.Duration(chance.IntN(3)) * time.Millisecond)
				}
				check()
				if round%2 == 1 {
					r.restart()
					check()
				}
			}
		})
	}
}

// TestPollCountsAcknowledgedMessages: a poll that begins after an acknowledgement
// counts the message, even while indexes are evicted. An acknowledgement that took
// parley.SettleWait or longer may precede the entry in another journal's feed, and is
// left out.
func TestPollCountsAcknowledgedMessages(t *testing.T) {
	r := newTestNode(t, withJournals(4), withTuning(func(n *Node) { n.queries.Limits().CountEntries = 16 }))
	owner, ids := r.agents("acme", 4)
	var answered atomic.Int64 // within parley.SettleWait
	done := make(chan struct{})
	var sending, asking sync.WaitGroup
	for from := range 3 {
		sending.Go(func() {
			for range 150 {
				began := time.Now()
				if _, err := r.send(direct(owner, ids[1+from], ids[0], "", "")); err != nil {
					t.Error(err)
					return
				}
				if time.Since(began) < parley.SettleWait {
					answered.Add(1)
				}
			}
		})
	}
	for who := range 3 {
		asking.Go(func() {
			for last := 0; ; {
				least := int(answered.Load())
				n, err := r.node.Messages.CountSince(context.Background(), ids[0], 0)
				if err != nil || n < max(least, last) {
					t.Errorf("%d were acknowledged, %d counted before, a poll counts %d (%v)", least, last, n, err)
				}
				if last = n; who == 0 && n%7 == 0 {
					r.node.queries.ForgetAgent(ids[0])
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	sending.Wait()
	close(done)
	asking.Wait()
	count := func() int { return must(r.node.Messages.CountSince(context.Background(), ids[0], 0))(t) }
	eventually(t, "a poll counts all 450 messages", func() bool { return count() == 450 })
	if answered.Load() == 0 {
		t.Skipf("this disk is too slow: no send was acknowledged within %v", parley.SettleWait)
	}
}

// BenchmarkPoll polls a feed of 10,000 messages, since the instant of any of them and
// since the day before.
func BenchmarkPoll(b *testing.B) {
	clock := newManualClock(noon)
	r := newTestNode(b, withClock(clock.now))
	owner, ids := r.agents("acme", 2)
	for range 10_000 {
		must(r.send(direct(owner, ids[1], ids[0], "", "")))(b)
		clock.advance(time.Millisecond)
	}
	ask := func(since func() int64) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(r.node.Messages.CountSince(context.Background(), ids[0], since()))(b)
			}
		}
	}
	b.Run("all", ask(func() int64 { return noon.Add(-24 * time.Hour).UnixMilli() }))
	b.Run("any", ask(func() int64 { return noon.UnixMilli() + rand.Int64N(10_000) }))
}
