package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// syncControl counts the syncs of the write-ahead log, and can delay them or make them
// fail.
type syncControl struct {
	syncs  atomic.Int64
	closed atomic.Pointer[chan struct{}]
	broken atomic.Bool
}

func (v *syncControl) String() string { return "sync control" }

func (v *syncControl) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	if !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	v.syncs.Add(1)
	if closed := v.closed.Load(); closed != nil {
		<-*closed
	}
	if v.broken.Load() {
		return errors.New("the disk is gone")
	}
	return nil
}

// hold keeps every sync waiting until the returned function is called.
func (v *syncControl) hold() (open func()) {
	c := make(chan struct{})
	v.closed.Store(&c)
	return func() { v.closed.Store(nil); close(c) }
}

// openWithSyncControl opens and starts a store on a disk with a syncControl.
func openWithSyncControl(t testing.TB, journals int, change func(*Options)) (*Store, *syncControl) {
	t.Helper()
	v := &syncControl{}
	opts := testOptions(errorfs.Wrap(vfs.NewMem(), v), journals)
	opts.MemTableBytes = 8 << 20
	if change != nil {
		change(&opts)
	}
	s := mustOpen(t, "d", opts)
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// appended appends an entry. Its outcome is sent to the channel.
func appended(s *Store, e *journal.Entry) <-chan error {
	released := make(chan error, 2)
	e.Release, e.At = func(err error) { released <- err }, testStart
	s.Append(e)
	return released
}

func activated(t testing.TB, s *Store, stream journal.Stream) uint64 {
	t.Helper()
	activation := s.NextActivation()
	if err := <-appended(s, &journal.Entry{Slot: stream.Slot(), Stream: stream, Activation: activation, Activate: true}); err != nil {
		t.Fatal(err)
	}
	return activation
}

// TestNothingIsReleasedBeforeTheSync delays syncs: writes are visible, and no entry is
// released.
func TestNothingIsReleasedBeforeTheSync(t *testing.T) {
	s, disk := openWithSyncControl(t, 1, nil)
	agent := parley.NewID[parley.AgentID](0, testStart, testEntropy())
	var told atomic.Int64
	sub := s.subscribe(agent, 0, func() { told.Add(1) })
	open := disk.hold()
	released := appended(s, &journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}}})
	seen := func() (n int) {
		v := s.View()
		defer v.Close()
		if err := v.Feed(agent, 0, 99, func(journal.FeedEntry) bool { n++; return true }); err != nil {
			t.Error(err)
		}
		return n
	}
	for seen() == 0 {
		time.Sleep(time.Millisecond)
	}
	v := s.View()
	hurried, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := v.Durable(hurried); !errors.Is(err, parley.ErrOverloaded) {
		t.Errorf("a view of unsynced data: Durable returns %v", err)
	}
	entries, err := sub.Next(9)
	if len(released) != 0 || told.Load() != 0 || s.DurablePosition(agent) != 0 || s.AssignedPosition(agent) != 1 || len(entries) != 0 || err != nil {
		t.Errorf("before the sync: %d released, %d notified, durable position %d, assigned %d, %d read by a subscriber (%v)", len(released), told.Load(), s.DurablePosition(agent), s.AssignedPosition(agent), len(entries), err)
	}
	waited := make(chan error, 1)
	go func() { waited <- v.Durable(context.Background()) }()
	select {
	case err := <-waited:
		t.Errorf("Durable returned %v before the sync", err)
	case <-time.After(20 * time.Millisecond):
	}
	open()
	if err := errors.Join(<-waited, <-released); err != nil {
		t.Error(err)
	}
	if entries, err := sub.Next(9); len(entries) != 1 || err != nil || told.Load() != 1 || s.DurablePosition(agent) != 1 || s.AssignedPosition(agent) != 1 {
		t.Errorf("after the sync: %d entries (%v), %d notifications, durable position %d, assigned %d", len(entries), err, told.Load(), s.DurablePosition(agent), s.AssignedPosition(agent))
	}
	v.Close()
	mustClose(t, s)
}

// TestFailedSyncIsFatal: no client learns whether an entry is stored, and the journal
// requests the end of the process.
func TestFailedSyncIsFatal(t *testing.T) {
	ended := make(chan error, 8)
	s, disk := openWithSyncControl(t, 1, func(o *Options) {
		o.Fatal = func(err error) {
			ended <- err
			select {} // a process that ends does not continue
		}
	})
	disk.broken.Store(true)
	released := appended(s, &journal.Entry{Rows: []journal.Row{{Table: 1, Key: []byte("k")}}})
	if err := <-ended; !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("the reason is %v", err)
	}
	select {
	case err := <-released:
		t.Errorf("an entry whose sync failed was released with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

// TestReleaseWaitsAtMostSettleWait stops the target's writer: the entry is released after
// parley.SettleWait, without the effect, which follows later.
func TestReleaseWaitsAtMostSettleWait(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, "d", testOptions(fs, 2))
	s.onQueue, s.onTimer = ignoreQueue, ignoreTimer
	start := func(j *journalState) {
		j.lead.loops.Go(j.write)
		j.lead.loops.Go(j.acknowledge)
	}
	start(s.lead.Load().journals[0])
	agent := parley.NewID[parley.AgentID](journaltest.SpreadSlot(1), testStart, testEntropy())
	before := time.Now()
	const entries = 20
	var released []<-chan error
	for range entries {
		released = append(released, appended(s, &journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}}}))
	}
	for _, r := range released {
		if err := <-r; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(before)
	if took < parley.SettleWait || took > parley.SettleWait+20*time.Second {
		t.Errorf("released after %v, want %v and little more", took, parley.SettleWait)
	}
	start(s.lead.Load().journals[1])
	mustClose(t, s)
	for i, r := range released {
		if len(r) != 0 {
			t.Errorf("entry %d was released twice", i)
		}
	}
	s = mustOpen(t, "d", testOptions(fs, 2))
	v := s.View()
	n := 0
	if err := v.Feed(agent, 0, 1<<40, func(journal.FeedEntry) bool { n++; return true }); err != nil || n != entries {
		t.Errorf("%d of %d feed entries followed (%v)", n, entries, err)
	}
	v.Close()
	mustClose(t, s)
}

// directMessage is the entry of a first direct message with an idempotency key. It has
// no events: the record stands for the start of the conversation.
func directMessage(stream journal.Stream, to parley.AgentID, activation, number uint64) *journal.Entry {
	id := parley.NewID[parley.MessageID](stream.Slot(), testStart, testEntropy())
	talk := parley.NewID[parley.ConversationID](stream.Slot(), testStart, testEntropy())
	slot := stream.Slot()
	return &journal.Entry{
		Slot: slot, Stream: stream, Activation: activation,
		Rows:    []journal.Row{operationRow(slot, journal.OnceTable, number)},
		Records: []journal.Record{{ID: id, Data: make([]byte, 500)}},
		Effects: []journal.Effect{
			journal.AppendFeed{To: to, Kind: journal.MessageEntry, Ref: parley.AnyID(id), Note: journal.TypeHash("text"), Begins: true},
			journal.AddToList{Agent: parley.AgentID(stream.ID), Conversation: talk},
		},
	}
}

// TestCostOfAMessage counts the rows and syncs of a direct message.
func TestCostOfAMessage(t *testing.T) {
	for _, c := range []struct{ journals, syncs int }{{1, 1}, {4, 2}} {
		t.Run(fmt.Sprintf("%d journals", c.journals), func(t *testing.T) {
			s, disk := openWithSyncControl(t, c.journals, nil)
			stream := newStream(0)
			to := parley.NewID[parley.AgentID](journaltest.SpreadSlot(1), testStart, testEntropy())
			activation := activated(t, s, stream)
			for n := range uint64(5) {
				before := disk.syncs.Load()
				if err := <-appended(s, directMessage(stream, to, activation, n)); err != nil {
					t.Fatal(err)
				}
				if got := int(disk.syncs.Load() - before); got != c.syncs {
					t.Errorf("message %d was answered after %d syncs, want %d", n, got, c.syncs)
				}
			}
			mustClose(t, s)
		})
	}
}

// TestRowsOfAMessage counts the rows that one message adds to a batch: record, feed
// entry, place in the sender's list, idempotency key; with a far recipient an outbox
// message instead of the feed entry.
func TestRowsOfAMessage(t *testing.T) {
	for _, c := range []struct {
		journals, rows int
	}{{1, 4}, {4, 4}} {
		s := mustOpen(t, "d", testOptions(vfs.NewMem(), c.journals))
		j, stream := s.lead.Load().journals[0], newStream(0)
		activate(t, j, stream)
		batch := s.db.NewBatch()
		ev := j.state.Begin(j.rows, batch)
		it := &apply.Item{Entry: directMessage(stream, parley.NewID[parley.AgentID](journaltest.SpreadSlot(1), testStart, testEntropy()), 1, 0)}
		if err := errors.Join(ev.Apply(it), it.Refusal, ev.Finish(j.arrived)); err != nil {
			t.Fatal(err)
		}
		rows := int(batch.Count()) - 1 // what is applied, once per batch
		if rows != c.rows {
			t.Errorf("%d journals: %d rows, want %d", c.journals, rows, c.rows)
		}
		if err := batch.Close(); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
	}
}

// TestTimersTakeTurns: more timers are due than one tick fires, and no actor cancels
// them; all of them fire.
func TestTimersTakeTurns(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	e := &journal.Entry{}
	const due = 2*timersPerTick + 10
	for i := range due {
		at := testStart.Add(-time.Duration(i) * time.Second)
		e.Timers = append(e.Timers, journal.Timer{Due: at, Stream: newStream(0)})
	}
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	if err := <-appended(s, e); err != nil {
		t.Fatal(err)
	}
	fired := map[journal.Stream]int{}
	s.onTimer = func(stream journal.Stream, _ time.Time) { fired[stream]++ }
	for tick := range 6 {
		if err := s.lead.Load().journals[0].fireTimers(testStart); err != nil {
			t.Fatal(err)
		}
		if tick == 2 && len(fired) != due {
			t.Errorf("after three ticks %d of %d timers fired", len(fired), due)
		}
	}
	for stream, n := range fired {
		if n != 2 {
			t.Errorf("timer of %v fired %d times in two rounds", stream, n)
		}
	}
	mustClose(t, s)
}

// TestOutboxRowsAreDeleted: a message that has arrived is deleted with a later batch of
// its source, also after a restart.
func TestOutboxRowsAreDeleted(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, "d", testOptions(fs, 2))
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	agent := parley.NewID[parley.AgentID](journaltest.SpreadSlot(1), testStart, testEntropy())
	say := func(n int) {
		for range n {
			if err := <-appended(s, &journal.Entry{Effects: []journal.Effect{journal.AppendFeed{To: agent, Kind: journal.StatusEntry}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (n int) {
		v := s.view()
		defer v.Close()
		prefix := layout.Homes(2).OutboxPrefix(0, 1)
		if err := v.Scan(prefix, layout.After(prefix), false, func(_, _ []byte) (bool, error) { n++; return true, nil }); err != nil {
			t.Error(err)
		}
		return n
	}
	rideAlong := func() {
		if err := <-appended(s, &journal.Entry{Rows: []journal.Row{{Table: 1, Key: []byte("ride along")}}}); err != nil {
			t.Fatal(err)
		}
	}
	say(30)
	rideAlong()
	if n := left(); n != 0 {
		t.Errorf("%d messages that arrived are kept", n)
	}
	say(1)
	if n := left(); n == 0 {
		t.Error("the last message is already deleted: the test checked nothing")
	}
	mustClose(t, s)
	s = mustOpen(t, "d", testOptions(fs, 2))
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	rideAlong()
	if n := left(); n != 0 {
		t.Errorf("%d messages that arrived before the last close are kept", n)
	}
	mustClose(t, s)
}

// TestOfferKnowsWhatRowsHold: an entry that was durable when the subscription began is
// read from rows and not delivered live too.
func TestOfferKnowsWhatRowsHold(t *testing.T) {
	sub := &subscription{position: 2, backlog: 5, notify: func() {}}
	for position := uint64(3); position <= 7; position++ {
		sub.offer(journal.FeedEntry{Position: position})
	}
	if len(sub.live) != 2 || sub.live[0].Position != 6 || sub.backlog != 5 {
		t.Errorf("live entries are %v, expected only those beyond %d", sub.live, sub.backlog)
	}
	for position := uint64(8); position <= 6+subscriptionRing; position++ {
		sub.offer(journal.FeedEntry{Position: position})
	}
	if sub.live != nil || sub.backlog != 6+subscriptionRing {
		t.Errorf("a subscriber that lags has %d live and rows up to %d", len(sub.live), sub.backlog)
	}
}

// BenchmarkAppend appends direct messages without waiting: to one hot stream, and in
// turn to ten thousand cold ones, in one journal and in four, each to an agent of
// the same home; and broadcasts to a thousand agents.
func BenchmarkAppend(b *testing.B) {
	for _, x := range []struct {
		name              string
		streams, journals int
	}{{"hot", 1, 1}, {"cold", 10000, 1}, {"cold-journals-4", 10000, 4}} {
		streams := x.streams
		b.Run(x.name, func(b *testing.B) {
			s, _ := openWithSyncControl(b, x.journals, func(o *Options) { o.MemTableBytes = 32 << 20 })
			senders, activations := make([]journal.Stream, streams), make([]uint64, streams)
			for i := range senders {
				senders[i] = newStream(journaltest.SpreadSlot(i))
				activations[i] = activated(b, s, senders[i])
			}
			to := make([]parley.AgentID, x.journals)
			for home := range to {
				to[home] = parley.NewID[parley.AgentID](s.homes.First(home), testStart, testEntropy())
			}
			room := make(chan struct{}, 1024)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				e := directMessage(senders[i%streams], to[s.homes.Of(senders[i%streams].Slot())], activations[i%streams], uint64(i/streams))
				e.At = testStart
				e.Release = func(err error) {
					if err != nil {
						b.Error(err)
					}
					<-room
				}
				room <- struct{}{}
				s.Append(e)
			}
			for range cap(room) {
				room <- struct{}{}
			}
			b.StopTimer()
			mustClose(b, s)
		})
	}
	b.Run("fanout-1000", func(b *testing.B) { benchmarkFanout(b, 1, 1000) })
	b.Run("fanout-1000-journals-4", func(b *testing.B) { benchmarkFanout(b, 4, 1000) })
}
