package blackbox

import (
	"slices"
	"testing"
	"time"
)

// TestManySendersOneInbox: every acknowledged message is in the inbox exactly
// once, the order is one and the same for every way of reading it, and what
// was acknowledged before another send began comes before it.
func TestManySendersOneInbox(t *testing.T) {
	const senders, each = 64, 20
	alone(t, func(t *testing.T, s *server) {
		b := s.org(t).agent("popular")
		var from []*agent
		for i := range senders {
			if i%16 == 0 {
				from = append(from, s.org(t).agent("s0"))
				continue
			}
			from = append(from, from[i/16*16].org.agent("s"+string(rune('a'+i%16))))
		}
		began := time.Now()
		sent := together(senders, func(i int) []*answer {
			var out []*answer
			for range each {
				out = append(out, from[i].try(b, nil))
			}
			return out
		})
		t.Logf("%d sends in %v", senders*each, time.Since(began))
		place := map[string]int{}
		order := ids(b.everything())
		slices.Reverse(order)
		for i, id := range order {
			if _, twice := place[id]; twice {
				t.Fatalf("%s is in the inbox twice", id)
			}
			place[id] = i
		}
		if len(order) != senders*each {
			t.Errorf("the inbox has %d messages, %d were acknowledged", len(order), senders*each)
		}
		for _, own := range sent {
			last := -1
			for _, a := range own {
				at, there := place[a.want(201).str("id")]
				if !there {
					a.errorf("acknowledged, but not in the inbox")
				}
				if at < last {
					a.errorf("overtook an earlier message of the same sender")
				}
				last = at
			}
		}
		inTimeOrder(t, sent, order)
		again := ids(b.pages(b.path("/messages"), "?limit=37"))
		slices.Reverse(again)
		sameOrder(t, "a second walk", again, order)
		st := b.stream(nilUUID)
		var streamed []string
		for range order {
			streamed = append(streamed, text(st.message(), "id"))
		}
		sameOrder(t, "the stream", streamed, order)
	})
}

// inTimeOrder checks that no message stands before one whose send was answered
// before its own began. Answers that waited too long for other homes prove
// nothing and are left out.
func inTimeOrder(t *testing.T, sent [][]*answer, order []string) {
	t.Helper()
	byID := map[string]*answer{}
	for _, a := range slices.Concat(sent...) {
		byID[a.str("id")] = a
	}
	var soonest *answer // of those that stand later
	judged := 0
	for _, id := range slices.Backward(order) {
		a := byID[id]
		if a == nil {
			continue
		}
		if soonest != nil && a.began.After(soonest.began.Add(soonest.took)) {
			a.errorf("stands before %s, which was answered %v before this one was sent", soonest.str("id"), a.began.Sub(soonest.began.Add(soonest.took)))
			return
		}
		if a.took > settleWait {
			continue
		}
		judged++
		if soonest == nil || a.began.Add(a.took).Before(soonest.began.Add(soonest.took)) {
			soonest = a
		}
	}
	t.Logf("%d of %d answers were prompt enough to judge the order in time", judged, len(order))
}

// TestHotConversation: many repliers in one conversation, one order for all.
func TestHotConversation(t *testing.T) {
	const callers, each = 16, 15
	alone(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		replies := together(callers, func(i int) []*answer {
			var out []*answer
			for range each {
				out = append(out, []*agent{a, b}[i%2].answerTo(m, nil))
			}
			return out
		})
		path := "/conversations/" + text(m, "conversation_id") + "/messages"
		order := ids(a.pages(path, "?limit=50"))
		if len(order) != callers*each+1 || order[0] != text(m, "id") {
			t.Errorf("the transcript has %d rows, want %d", len(order), callers*each+1)
		}
		if !slices.IsSorted(order) {
			t.Error("the ids of one conversation do not sort in its order")
		}
		sameOrder(t, "the other side's transcript", ids(b.pages(path, "?limit=200")), order)
		for _, own := range replies {
			last := 0
			for _, r := range own {
				at := slices.Index(order, r.want(201).str("id"))
				if at <= last {
					r.errorf("at %d of the transcript, after %d", at, last)
				}
				last = at
			}
		}
		var inboxes []string
		for _, g := range []*agent{a, b} {
			rows := ids(g.everything())
			inboxes = append(inboxes, rows...)
		}
		slices.Sort(inboxes)
		if !slices.Equal(inboxes, order) {
			t.Errorf("the inboxes hold %d messages, the transcript %d", len(inboxes), len(order))
		}
	})
}
