package blackbox

import (
	"testing"
	"time"
)

// TestManySendersOneInbox: every acknowledged message is in the inbox exactly once; every
// way of reading shows the same order; and a message acknowledged before another send
// began comes before it.
func TestManySendersOneInbox(t *testing.T) {
	const senders, each = 64, 20
	Alone(t, func(t *testing.T, s *Server) {
		w := newRecordedServer(t, s, 1, senders)
		began := time.Now()
		Concurrently(senders, func(i int) bool {
			for range each {
				w.write(attempt{from: w.senders[i], to: w.popular[0], key: w.newKey()})
			}
			return true
		})
		t.Logf("%d sends in %v", senders*each, time.Since(began))
		w.readAll(nil, true)
		w.check()
		if n := w.tally.acked.Load(); n < senders*each {
			t.Errorf("only %d messages were acknowledged", n)
		}
	})
}

// TestHotConversation: many concurrent repliers in one conversation; all readers see the
// same order.
func TestHotConversation(t *testing.T) {
	const callers, each = 16, 15
	Alone(t, func(t *testing.T, s *Server) {
		w := newRecordedServer(t, s, 1, 1)
		if !w.begin(w.senders[0], w.popular[0]) {
			t.Fatal("the conversation did not begin")
		}
		k := w.conversations.all[0]
		Concurrently(callers, func(i int) bool {
			for range each {
				w.write(attempt{from: k.sides[i%2], to: k.sides[1-i%2], key: w.newKey(), replyTo: k.question()})
			}
			return true
		})
		w.readAll(nil, true)
		w.check()
		if n := w.tally.acked.Load(); n < 1+callers*each {
			t.Errorf("only %d messages were acknowledged", n)
		}
	})
}
