package http

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/internal/planted"
	"parley/journal"
)

// viewsBehind returns how many views of the journal 32 streams of an agent open to
// catch up with 300 messages that all of them lag behind.
func viewsBehind(t *testing.T, alone bool) int64 {
	const streams, events = 32, 300
	h := wireHarness(t, 1)
	defer h.close()
	h.service.streams.Plant(planted.Streams{Alone: alone})
	e := newReceiver(true)
	open := h.held(e, streams)
	for range events {
		h.tell()
	}
	before := h.journal.views.Load()
	open()
	for until := time.Now().Add(30 * time.Second); e.events.Load() < streams*events; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after ten seconds %d of %d events have arrived", e.events.Load(), streams*events)
		}
	}
	return h.journal.views.Load() - before
}

// TestLaggingStreamsShareReads: streams of one agent read stored messages about once
// for all of them. Recording the receipts takes views too.
func TestLaggingStreamsShareReads(t *testing.T) {
	shared, alone := viewsBehind(t, false), viewsBehind(t, true)
	// On a loaded machine streams drift apart and share less. Without sharing no attempt
	// opens fewer views.
	for tries := 0; shared > alone/4 && tries < 4; tries++ {
		shared = min(shared, viewsBehind(t, false))
	}
	if t.Logf("%d views, %d if each stream reads for itself", shared, alone); shared > alone/4 {
		t.Errorf("streams that share open %d views, and %d if each reads for itself", shared, alone)
	}
}

// bare removes the message from some live entries, as after a restart.
type bare struct {
	journal.Subscription
	given int
}

func (b *bare) Live(limit int) (entries []journal.FeedEntry, behind bool) {
	entries, behind = b.Subscription.Live(limit)
	for i := range entries {
		if b.given++; b.given%5 >= 3 {
			entries[i].Record = nil
		}
	}
	return entries, behind
}

// TestEntryWithoutMessageLosesNothing: an entry without its message loses none of the
// events collected before it.
func TestEntryWithoutMessageLosesNothing(t *testing.T) {
	for _, streams := range []int{1, 2} {
		const events = 40
		h := wireHarness(t, 1)
		h.journal.wrapSubscription = func(s journal.Subscription) journal.Subscription { return &bare{Subscription: s} }
		e := newReceiver(true)
		open := h.held(e, streams)
		for range events {
			h.tell()
		}
		open()
		want := int64(streams * events)
		for until := time.Now().Add(30 * time.Second); e.events.Load() < want && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		if h.close(); e.events.Load() != want {
			t.Errorf("%d streams sent %d events of %d", streams, e.events.Load(), want)
		}
	}
}

// TestResumedStreamHasEarlierReceipts: a stream has the receipts recorded before it was
// opened, even if another stream has just read the same page.
func TestResumedStreamHasEarlierReceipts(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	alice, bob, first := h.agent("alice"), h.agent("bob"), parley.MessageID{}.String()
	h.send(alice, bob, 1)
	stays := h.listen(bob, h.token(h.client), "") // so that there are several streams
	defer stays.conn.Close()
	show := func() event {
		l := h.listen(bob, h.token(h.client), first)
		defer l.conn.Close()
		e, ok := l.next()
		if !ok || e.name != "message" {
			t.Fatalf("instead of the message: %v %+v", ok, e)
		}
		return e
	}
	show()
	if _, err := h.node.Receipts.ReadUpTo(context.Background(), bob, h.node.Feeds.DurablePosition(bob), nil); err != nil {
		t.Fatal(err)
	}
	if e := show(); !strings.Contains(e.data, `"status":"read"`) {
		t.Errorf("after the message was read: %s", e.data)
	}
}
