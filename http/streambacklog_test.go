package http

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// asked returns how often pages are read for a hundred streams at the given number of
// positions.
func asked(t *testing.T, positions int) int64 {
	var s pageCache
	var count atomic.Int64
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			from := uint64(i % positions * 10)
			p, err := s.at(parley.AgentID{1}, from, 0, func(p *page) (uint64, error) {
				count.Add(1)
				p.bytes = fmt.Append(nil, from)
				return from + 10, nil
			})
			if err != nil || string(p.bytes) != fmt.Sprint(from) {
				t.Errorf("position %d: %v", from, err)
			}
		})
	}
	asking.Wait()
	return count.Load()
}

func TestCachedPageIsReadOnce(t *testing.T) {
	if n := asked(t, 1); n != 1 {
		t.Errorf("one page for a hundred streams is read %d times", n)
	}
	if n := asked(t, pagesPerAgent); n != pagesPerAgent {
		t.Errorf("%d pages are read %d times", pagesPerAgent, n)
	}
}

// TestPageCacheHits: a cached page serves a stream of the same agent whose position it
// contains, for a limited time, if reading it succeeded and began no earlier than the
// stream requires.
func TestPageCacheHits(t *testing.T) {
	var s pageCache
	one, failed, reads, since := parley.AgentID{1}, errors.New("failed"), 0, uint64(0)
	read := func(to uint64, err error) func(*page) (uint64, error) {
		return func(*page) (uint64, error) { reads++; return to, err }
	}
	ask := func(agent parley.AgentID, from uint64, to uint64, err error, anew bool) {
		t.Helper()
		before := reads
		if _, got := s.at(agent, from, since, read(to, err)); !errors.Is(got, err) || (reads > before) != anew {
			t.Errorf("from %d: %v, read anew: %v", from, got, reads > before)
		}
	}
	ask(one, 10, 20, failed, true)
	ask(one, 10, 20, nil, true)
	ask(one, 10, 20, nil, false)
	ask(one, 19, 30, nil, false)
	since = s.now() // it may lack what was written since
	ask(one, 10, 20, nil, true)
	ask(one, 10, 20, nil, false)
	ask(one, 20, 30, nil, true)
	ask(one, 9, 10, nil, true)
	ask(parley.AgentID{2}, 10, 20, nil, true)
	s.turn()
	ask(one, 10, 20, nil, false)
	s.turn()
	ask(one, 10, 20, nil, true)
	for n := range uint64(pagesPerAgent) {
		ask(one, 100*n+100, 100*n+110, nil, true)
	}
	ask(one, 10, 20, nil, true) // it was displaced by others
	func() {
		defer func() { _ = recover() }()
		_, _ = s.at(one, 5000, since, func(*page) (uint64, error) { panic("a defect") })
	}()
	ask(one, 5000, 5010, nil, true)
}

func TestPagesAreBounded(t *testing.T) {
	var s pageCache
	kept := func() (n int) {
		for _, generation := range []map[parley.AgentID][]*page{s.young, s.old} {
			for _, list := range generation {
				for _, p := range list {
					n += len(p.bytes)
				}
			}
		}
		return n
	}
	for n := range 1000 {
		_, _ = s.at(parley.AgentID{byte(n), byte(n >> 8)}, 1, 0, func(p *page) (uint64, error) { p.bytes = make([]byte, 64<<10); return 2, nil })
		if kept := kept(); kept > 2*pagesBytes {
			t.Fatalf("%d pages hold %d bytes", n, kept)
		}
	}
	if kept := kept(); kept < pagesBytes/2 {
		t.Errorf("only %d bytes are kept", kept)
	}
}

// viewsBehind returns how many views of the journal 32 streams of an agent open to
// catch up with 300 messages that all of them lag behind.
func viewsBehind(t *testing.T, alone bool) int64 {
	const streams, events = 32, 300
	h := wireHarness(t, 1)
	defer h.close()
	e := newReceiver(true)
	open := h.held(e, streams)
	if alone {
		h.service.streams.mu.Lock()
		for st := range h.service.streams.open {
			st.readers = &readers{}
			st.readers.size.Store(1)
		}
		h.service.streams.mu.Unlock()
	}
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
