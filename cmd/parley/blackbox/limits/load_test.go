package limits

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// TestManySendersOneInbox: every acknowledged message is in the inbox exactly once; every
// way of reading shows the same order; and a message acknowledged before another send
// began comes before it.
func TestManySendersOneInbox(t *testing.T) {
	const senders, each = 64, 20
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		w := recorded.NewServer(t, s, 1, senders)
		began := time.Now()
		kit.Concurrently(senders, func(i int) bool {
			for range each {
				w.Write(recorded.Attempt{From: w.Senders[i], To: w.Popular[0], Key: w.NewKey()})
			}
			return true
		})
		t.Logf("%d sends in %v", senders*each, time.Since(began))
		w.ReadAll(nil, true)
		w.Check()
		if n := w.Tally.Acked.Load(); n < senders*each {
			t.Errorf("only %d messages were acknowledged", n)
		}
	})
}

// TestHotConversation: many concurrent repliers in one conversation; all readers see the
// same order.
func TestHotConversation(t *testing.T) {
	const callers, each = 16, 15
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		w := recorded.NewServer(t, s, 1, 1)
		if !w.Begin(w.Senders[0], w.Popular[0]) {
			t.Fatal("the conversation did not begin")
		}
		k := w.Conversations.All[0]
		kit.Concurrently(callers, func(i int) bool {
			for range each {
				w.Write(recorded.Attempt{From: k.Sides[i%2], To: k.Sides[1-i%2], Key: w.NewKey(), ReplyTo: k.AnyMessage()})
			}
			return true
		})
		w.ReadAll(nil, true)
		w.Check()
		if n := w.Tally.Acked.Load(); n < 1+callers*each {
			t.Errorf("only %d messages were acknowledged", n)
		}
	})
}
