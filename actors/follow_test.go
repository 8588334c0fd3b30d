package actors

import (
	"context"
	"sync/atomic"
	"testing"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// actAfterView runs a function between the opening of a view and its use.
type actAfterView struct {
	journal.Journal
	do atomic.Pointer[func()]
}

func (m *actAfterView) View() journal.View {
	v := m.Journal.View()
	if do := m.do.Swap(nil); do != nil {
		(*do)()
	}
	return v
}

// TestStreamIncludesMessagesThatArriveWhileItStarts: a message that becomes durable
// while a stream looks up its position is streamed, too.
func TestStreamIncludesMessagesThatArriveWhileItStarts(t *testing.T) {
	m := &actAfterView{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { m.Journal = j; return journal.Of(m) }))
	owner, ids := r.agents("acme", 2)
	var sent *record.Message
	send := func() { sent = must(r.send(direct(owner, ids[0], ids[1], "now", "")))(t).Message }
	m.do.Store(&send)
	start := must(r.node.Feeds.Resume(context.Background(), ids[1], parley.MessageID{}, false))(t)
	sub := r.node.Feeds.Follow(ids[1], start.After, func() {})
	defer sub.Close()
	entries := must(sub.Next(10))(t)
	if len(entries) != 1 || parley.MessageID(entries[0].Ref) != sent.MessageID() {
		t.Errorf("after %d the reader gets %v", start.After, entries)
	}
}
