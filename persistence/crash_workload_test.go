package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
)

// testStart is the time of the clocks in tests.
var testStart = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

var testIDs atomic.Uint64

// testEntropy returns random parts for ids that are distinct and sort in the order
// in which they are made.
func testEntropy() (b [10]byte) {
	binary.BigEndian.PutUint64(b[:], testIDs.Add(1))
	return b
}

func testClock() time.Time { return testStart }

// testOptions are the options of a small store that logs nothing.
func testOptions(fs vfs.FS, journals int) Options {
	return Options{
		FS: fs, Journals: journals, Clock: testClock, Logger: slog.New(slog.DiscardHandler),
		CacheBytes: 1 << 20, MemTableBytes: 48 << 10,
	}
}

// operation is what one entry of the workload writes. An image must show all of it
// or nothing. Its number is the content of its event.
type operation struct {
	number  uint64
	stream  journal.Stream
	message parley.MessageID // appended to agent's feed
	agent   parley.AgentID
	queueOf journal.Stream
	rowSlot parley.Slot // where a row was put in another slot, if hasRow
	hasRow  bool
	created journal.Stream
	due     time.Time
	// broadcast is a message to all agents, in chunks.
	broadcast parley.MessageID
	// hosted: the entry also appends to the stream that its own stream hosts.
	hosted bool
	// handles is the operation whose queued message this one handled, if fromQueue.
	handles   uint64
	fromQueue bool
	// refusal is the error with which the journal must reject the entry, leaving no
	// trace.
	refusal error
}

// promise is something that a client was told and that no crash may undo.
type promise struct {
	operation uint64 // the operation whose entry was released
	released  bool   // operation is set
	agent     parley.AgentID
	entry     journal.FeedEntry // the entry that agent's feed showed
	message   parley.MessageID  // a receipt was recorded by agent
	isCopy    bool              // the message is a copy of a broadcast
}

// workload is a set of concurrent clients, and what they were promised.
type workload struct {
	t       testing.TB
	store   *Store
	agents  []parley.AgentID
	streams []journal.Stream
	// seats of the agents, each in a chunk of its own where possible; hosted are
	// the streams that streams host.
	seats  []parley.Seat
	hosted map[journal.Stream]journal.Stream
	org    parley.OrgID
	// trusting readers do not wait for View.Durable. Only a control sets it.
	trusting bool

	mu         sync.Mutex
	operations []*operation
	promises   []promise
}

func newWorkload(t testing.TB) *workload {
	w := &workload{t: t, org: parley.NewID[parley.OrgID](0, testStart, testEntropy()), hosted: map[journal.Stream]journal.Stream{}}
	for i, seat := range []uint32{1, 257, 2, 300, 513, 1025} {
		agent := parley.NewID[parley.AgentID](journaltest.SpreadSlot(i), testStart, testEntropy())
		w.agents = append(w.agents, agent)
		w.seats = append(w.seats, parley.Seat{Agent: agent, Number: seat})
		w.streams = append(w.streams, newStream(journaltest.SpreadSlot(i)))
		w.hosted[w.streams[i]] = newStream(journaltest.SpreadSlot(i))
	}
	slices.SortFunc(w.seats, func(a, b parley.Seat) int { return int(a.Number) - int(b.Number) })
	return w
}

func newStream(slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: journal.ConversationStream, ID: parley.NewID[parley.AnyID](slot, testStart, testEntropy())}
}

// broadcasts reports whether a stream sends broadcasts. Its feed entries for agents
// of its own home may then be late too.
func broadcasts(s journal.Stream) bool { return s.Slot() >= parley.Slots/2 }

func (w *workload) promise(c ...promise) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promises = append(w.promises, c...)
}

// promised counts the promises made so far.
func (w *workload) promised() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.promises)
}

// known returns the first promises.
func (w *workload) known(told int) []promise {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.promises[:told:told]
}

// issued returns the operations appended so far; those still being made are nil.
func (w *workload) issued() []*operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.operations)
}

// run starts all clients and returns when each actor has done its rounds.
func (w *workload) run(rounds int, seed uint64) {
	var readers, actors sync.WaitGroup
	done := make(chan struct{})
	for i, a := range w.agents {
		readers.Go(func() { w.read(a, done) })
		if i%2 == 0 {
			readers.Go(func() { w.follow(a, done) })
		}
	}
	for i, s := range w.streams {
		actors.Go(func() {
			a := &workloadActor{workload: w, stream: s, rng: rand.New(rand.NewPCG(seed, uint64(i))), room: make(chan struct{}, 5)}
			a.perform(rounds)
		})
	}
	actors.Wait()
	close(done)
	readers.Wait()
}

// workloadActor appends the entries of one stream. It waits for the disk only when it
// begins an activation.
type workloadActor struct {
	*workload
	stream     journal.Stream
	rng        *rand.Rand
	room       chan struct{}
	activation uint64
	seq        uint64
	handled    uint64
	// hostedSeq is the number of events of the hosted stream.
	hostedSeq uint64
}

func (a *workloadActor) perform(rounds int) {
	a.activate()
	for range rounds {
		switch a.rng.IntN(10) {
		case 0:
			a.append(nil, &journal.Entry{Expect: a.seq, Retire: true})
			a.activate()
		case 1:
			a.handleQueue()
		case 2:
			a.appendRefused()
		default:
			a.appendEntry()
		}
	}
	a.handleQueue()
	for range cap(a.room) {
		a.room <- struct{}{}
	}
}

// activate begins an activation, which must find everything that the last one
// appended.
func (a *workloadActor) activate() {
	a.activation = a.store.NextActivation()
	passed := make(chan error, 1)
	a.store.Append(&journal.Entry{
		Slot: a.stream.Slot(), Stream: a.stream, Activation: a.activation, Activate: true, At: testStart,
		Release: func(err error) { passed <- err },
	})
	if err := <-passed; err != nil {
		a.t.Errorf("activation refused: %v", err)
	}
	v := a.store.View()
	defer v.Close()
	last := uint64(0)
	err := v.Events(a.stream, ^uint64(0), true, func(seq uint64, _ int64, _ journal.StoredEvent) bool { last = seq; return false })
	if err != nil || last != a.seq {
		a.t.Errorf("an activation finds %d events, the last one had appended %d (%v)", last, a.seq, err)
	}
}

func (a *workloadActor) append(d *operation, e *journal.Entry) {
	e.Slot, e.Stream, e.At = a.stream.Slot(), a.stream, testStart
	if e.Activation == 0 {
		e.Activation = a.activation
	}
	if d != nil {
		a.mu.Lock()
		a.operations[d.number] = d
		a.mu.Unlock()
	}
	a.room <- struct{}{}
	e.Release = func(err error) {
		<-a.room
		switch {
		case d == nil && err != nil, d != nil && !errors.Is(err, d.refusal):
			a.t.Errorf("entry of %v (operation %v): got %v", a.stream.Slot(), d != nil, err)
		case d != nil && err == nil:
			a.promise(promise{operation: d.number, released: true})
		}
	}
	a.store.Append(e)
}

// newOperation numbers an operation and returns what every entry has: an event, a
// row of its own, a count.
func (a *workloadActor) newOperation(d *operation) (*operation, *journal.Entry) {
	a.mu.Lock()
	d.stream, d.number = a.stream, uint64(len(a.operations))
	a.operations = append(a.operations, nil)
	a.mu.Unlock()
	return d, &journal.Entry{
		Expect: a.seq, Gather: d.number%2 == 0,
		Events: []journal.StoredEvent{{Tag: 7, Data: layout.EncodeNumber(d.number)}},
		Rows:   []journal.Row{operationRow(a.stream.Slot(), journal.RosterTable, d.number)},
		Counts: []journal.Count{{Org: a.org, Day: 1, N: 1}},
	}
}

func operationRow(slot parley.Slot, table journal.Table, number uint64) journal.Row {
	return journal.Row{Slot: slot, Table: table, Key: layout.EncodeNumber(number), Value: layout.EncodeNumber(^number)}
}

func (a *workloadActor) appendEntry() {
	d, e := a.newOperation(&operation{})
	if a.rng.IntN(3) > 0 {
		d.agent = a.agents[a.rng.IntN(len(a.agents))]
		d.message = parley.NewID[parley.MessageID](a.stream.Slot(), testStart, testEntropy())
		body := make([]byte, 20+a.rng.IntN(1500))
		binary.BigEndian.PutUint64(body, d.number)
		e.Records = []journal.Record{{ID: d.message, Data: body}}
		e.Effects = append(e.Effects, journal.AppendFeed{To: d.agent, Kind: journal.MessageEntry, Ref: parley.AnyID(d.message), Note: layout.EncodeNumber(d.number)})
	}
	if broadcasts(a.stream) && a.rng.IntN(3) == 0 {
		d.broadcast = newBroadcast(a.stream.Slot())
		e.Records = append(e.Records, journal.Record{ID: d.broadcast, Data: layout.EncodeNumber(d.number)})
		e.Effects = append(e.Effects, journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(d.broadcast), Note: layout.EncodeNumber(d.number), To: a.seats})
	}
	if a.rng.IntN(3) == 0 {
		d.hosted = true
		e.Hosted = []journal.StreamAppend{{
			Stream: a.workload.hosted[a.stream], Expect: a.hostedSeq,
			Events: []journal.StoredEvent{{Tag: 8, Data: layout.EncodeNumber(d.number)}}, State: layout.EncodeNumber(a.hostedSeq + 1),
		}}
		a.hostedSeq++
	}
	if a.rng.IntN(3) == 0 {
		d.queueOf = a.streams[a.rng.IntN(len(a.streams))]
		e.Effects = append(e.Effects, journal.EnqueueFor{To: d.queueOf, Data: layout.EncodeNumber(d.number)})
	}
	if a.rng.IntN(3) == 0 {
		d.rowSlot, d.hasRow = journaltest.SpreadSlot(a.rng.IntN(8)), true
		e.Effects = append(e.Effects, journal.PutRow{Row: operationRow(d.rowSlot, journal.ClientTable, d.number)})
	}
	if a.rng.IntN(4) == 0 {
		d.created = newStream(journaltest.SpreadSlot(a.rng.IntN(8)))
		e.Effects = append(e.Effects, journal.CreateStream{Stream: d.created, Events: []journal.StoredEvent{{Tag: 9, Data: layout.EncodeNumber(d.number)}}, State: layout.EncodeNumber(d.number)})
	}
	if a.rng.IntN(4) == 0 {
		d.due = testStart.Add(time.Hour + time.Duration(d.number)*time.Millisecond)
		e.Timers = append(e.Timers, journal.Timer{Due: d.due, Stream: a.stream})
	}
	a.seq++
	if a.rng.IntN(2) == 0 {
		e.State = layout.EncodeNumber(a.seq)
	}
	a.append(d, e)
}

// handleQueue handles the queued messages, durable or not, as an actor does.
func (a *workloadActor) handleQueue() {
	v := a.store.View()
	var rows []journal.QueuedMessage
	err := v.Queue(a.stream, 0, func(r journal.QueuedMessage) bool {
		if r.Number > a.handled {
			rows = append(rows, r)
		}
		return true
	})
	v.Close()
	if err != nil {
		a.t.Error(err)
	}
	for _, r := range rows {
		a.handled = r.Number
		d, e := a.newOperation(&operation{fromQueue: true, handles: layout.Number(r.Data)})
		e.Handled = []uint64{r.Number}
		a.seq++
		a.append(d, e)
	}
}

// appendRefused appends an entry that the journal must reject: it has a wrong sequence
// number, comes from an earlier activation, or creates a stream that exists.
func (a *workloadActor) appendRefused() {
	d, e := a.newOperation(&operation{refusal: journal.ErrStale})
	switch a.rng.IntN(4) {
	case 3:
		e.Hosted = []journal.StreamAppend{{Stream: a.workload.hosted[a.stream], Expect: a.hostedSeq + 1, Events: e.Events}}
	case 0:
		e.Expect++
	case 1:
		e.Activation = a.activation - 1
	case 2:
		if a.seq == 0 {
			e.Expect++
			break
		}
		d.refusal = journal.ErrExists
		e.Effects = []journal.Effect{journal.CreateStream{Stream: a.stream, Events: e.Events}}
	}
	a.append(d, e)
}

// read pages through an agent's feed, waits until a page is durable, and records
// receipts for it.
func (w *workload) read(agent parley.AgentID, done chan struct{}) {
	var marked atomic.Int64
	for from := uint64(0); ; {
		v := w.store.View()
		var shown []promise
		err := v.Feed(agent, from, ^uint64(0), func(e journal.FeedEntry) bool {
			shown = append(shown, promise{agent: agent, entry: e, isCopy: e.Kind == journal.CopyEntry})
			return len(shown) < 20
		})
		if err == nil && !w.trusting {
			err = v.Durable(context.Background())
		}
		v.Close()
		if errors.Is(err, parley.ErrOverloaded) {
			continue // the disk was too slow while images were recorded: nothing was shown
		}
		if err != nil {
			w.t.Error(err)
		}
		w.promise(shown...)
		for _, c := range shown {
			from = c.entry.Position
			w.recordReceipt(c, &marked)
		}
		select {
		case <-done:
			if marked.Load() == 0 && len(shown) == 0 {
				return
			}
		default:
		}
		if len(shown) == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func (w *workload) recordReceipt(c promise, pending *atomic.Int64) {
	id := parley.MessageID(c.entry.Ref)
	pending.Add(1)
	w.store.Append(&journal.Entry{
		Slot: c.agent.Slot(), At: testStart,
		Effects: []journal.Effect{journal.RecordReceipt{Recipient: c.agent, Message: id, Position: c.entry.Position, Receipts: journal.Receipts{TransferredAt: 1000}, Copy: c.isCopy}},
		Release: func(err error) {
			if err != nil {
				w.t.Errorf("receipt: %v", err)
			} else {
				w.promise(promise{agent: c.agent, message: id, entry: c.entry, isCopy: c.isCopy})
			}
			pending.Add(-1)
		},
	})
}

// follow records what a subscription returns as promised: it must be durable.
func (w *workload) follow(agent parley.AgentID, done chan struct{}) {
	news := make(chan struct{}, 1)
	sub := w.store.subscribe(agent, 0, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	defer sub.Close()
	for {
		entries, err := sub.Next(3)
		if err != nil {
			w.t.Error(err)
		}
		for _, e := range entries {
			w.promise(promise{agent: agent, entry: e})
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-news:
		case <-done:
			return
		}
	}
}
