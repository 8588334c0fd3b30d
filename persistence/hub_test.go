package persistence

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
)

// held reports whether publishing to so many subscribers waits for their notify
// functions.
func held(t *testing.T, subscribers int) bool {
	s := mustOpen(t, "data", testOptions(vfs.NewMem(), 1))
	defer mustClose(t, s)
	agent := parley.NewID[parley.AgentID](0, testStart, testEntropy())
	gate, told := make(chan struct{}), atomic.Int64{}
	for range subscribers {
		sub := s.subscribe(agent, 0, func() { <-gate; told.Add(1) })
		defer sub.Close()
	}
	published := make(chan struct{})
	go func() {
		for position := range uint64(3) {
			s.hub.publish(agent, journal.FeedEntry{Position: position + 1})
		}
		close(published)
	}()
	waited := false
	select {
	case <-published:
	case <-time.After(200 * time.Millisecond):
		waited = true
	}
	close(gate)
	<-published
	for until := time.Now().Add(30 * time.Second); told.Load() < int64(subscribers); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after ten seconds %d of %d were notified", told.Load(), subscribers)
		}
	}
	return waited
}

func TestHubDoesNotHoldThePublisher(t *testing.T) {
	if held(t, 1000) {
		t.Error("publishing waits until all subscribers are notified")
	}
}

func TestHubDoesNotHoldThePublisherControl(t *testing.T) {
	if !held(t, publishedInline) {
		t.Error("publishing to a few does not wait: the test would not notice if publishing to many did")
	}
}

// TestHubGivesEverythingOnce: many subscribers follow one feed while it grows; some are
// slow, some unsubscribe and return.
func TestHubGivesEverythingOnce(t *testing.T) {
	const entries = 600
	s, _ := openWithSyncControl(t, 1, nil)
	defer mustClose(t, s)
	agent := parley.NewID[parley.AgentID](0, testStart, testEntropy())
	got := make([][]uint64, 4*publishedInline)
	var following sync.WaitGroup
	for i := range got {
		following.Go(func() { got[i] = followAll(t, s, agent, i, entries) })
	}
	for i := range entries {
		released := appended(s, &journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}}})
		if i%50 == 0 {
			<-released
		}
	}
	following.Wait()
	for i := range got {
		if !slices.IsSorted(got[i]) || len(slices.Compact(slices.Clone(got[i]))) != entries || !slices.Equal(got[i], got[0]) {
			t.Fatalf("follower %d got %d entries: %v", i, len(got[i]), got[i])
		}
	}
	if n := len(s.hub.shard(agent).topics); n != 0 {
		t.Errorf("%d topics without subscribers are left", n)
	}
}

func followAll(t *testing.T, s *Store, agent parley.AgentID, manner, total int) (got []uint64) {
	news, closed := make(chan struct{}, 1), &atomic.Bool{}
	follow := func(after uint64) *subscription {
		closed = &atomic.Bool{}
		over := closed
		return s.subscribe(agent, after, func() {
			if over.Load() {
				t.Errorf("follower %d was notified after it unsubscribed", manner)
			}
			select {
			case news <- struct{}{}:
			default:
			}
		})
	}
	sub := follow(0)
	for len(got) < total {
		entries, err := sub.Next(1 + manner%70)
		if err != nil {
			t.Error(err)
			return got
		}
		for _, e := range entries {
			got = append(got, e.Position)
		}
		switch {
		case len(entries) > 0 && manner%3 == 1:
			time.Sleep(time.Millisecond)
		case len(entries) > 0 && manner%3 == 2 && len(got)%7 == 0:
			sub.Close()
			closed.Store(true)
			sub = follow(sub.Position())
		case len(entries) == 0:
			select {
			case <-news:
			case <-time.After(10 * time.Second):
				t.Errorf("follower %d received nothing after %d entries", manner, len(got))
				sub.Close()
				return got
			}
		}
	}
	sub.Close()
	sub.Close()
	return got
}

// BenchmarkHubManySubscribers measures the cost of notifying one of ten thousand
// subscribers.
func BenchmarkHubManySubscribers(b *testing.B) {
	const subscribers = 10_000
	h, agent, told := newHub(), parley.AgentID{}, make(chan struct{}, subscribers)
	t := &topic{}
	h.shard(agent).topics[agent] = t
	for range subscribers {
		t.subs = append(t.subs, &subscription{agent: agent, notify: func() { told <- struct{}{} }})
	}
	b.ReportAllocs()
	for position := uint64(1); b.Loop(); position++ {
		h.publish(agent, journal.FeedEntry{Position: position})
		for range subscribers {
			<-told
		}
		for _, sub := range t.subs {
			if entries, behind := sub.Live(1); behind || len(entries) != 1 {
				b.Fatal(fmt.Sprint(entries, behind))
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/subscribers, "ns/subscriber")
}
