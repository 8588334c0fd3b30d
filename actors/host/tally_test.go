package host

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// tally is the smallest aggregate: a sum.
type tally struct{ sum uint64 }

func (s *tally) MarshalVT() ([]byte, error) { return binary.BigEndian.AppendUint64(nil, s.sum), nil }
func (s *tally) Exists() bool               { return s.sum != 0 }

func (s *tally) UnmarshalVT(b []byte) error {
	if len(b) != 8 {
		return errors.New("not a tally")
	}
	s.sum = binary.BigEndian.Uint64(b)
	return nil
}

// Requests to a tally.
type (
	add   uint64   // returns the sum
	look  struct{} // returns the sum and changes nothing
	spoil struct{} // changes the state and panics
	put   struct{} // stores a row
	get   struct{} // reads that row
	hold  struct{ entered, leave chan struct{} }
)

var errOdd = parley.Refuse(parley.Unprocessable, "odd", "The tally does not like this number.")

// tallyKind returns a kind that rejects the number 13 and adds the numbers in queued
// messages.
func tallyKind(stateEvery uint64) *Kind[*tally, add, *tally] {
	return &Kind[*tally, add, *tally]{
		Stream: journal.OrgStream, StateEvery: stateEvery,
		Blank: func() *tally { return &tally{} },
		Rules: rules.Aggregate[*tally, add, *tally]{
			Decide: func(_ *tally, c add, _ time.Time) ([]*tally, error) {
				if c == 13 {
					return nil, errOdd
				}
				return []*tally{{sum: uint64(c)}}, nil
			},
			Evolve: func(s, e *tally) { s.sum += e.sum },
			Tag:    func(*tally) byte { return 1 },
			New:    func(byte) (*tally, bool) { return &tally{}, true },
		},
		Handle: func(t *Turn[*tally, add, *tally], request any) (any, error) {
			switch r := request.(type) {
			case add:
				err := t.Decide(r)
				return t.State.sum, err
			case put:
				t.PutRow(1, []byte("row"), nil)
			case get:
				_, _, err := t.Row(1, []byte("row"))
				return t.State.sum, err
			case hold:
				close(r.entered)
				<-r.leave
			case spoil:
				t.State.sum = 999
				panic("spoiled")
			}
			return t.State.sum, nil
		},
		HandleQueued: func(t *Turn[*tally, add, *tally], said *record.SagaMessage) error {
			return t.Decide(add(said.GetNumber()))
		},
	}
}

// fakeJournal is a journal in memory that releases entries when a test says so.
type fakeJournal struct {
	journal.Journal // methods that a tally does not need

	mu      sync.Mutex
	epoch   uint64
	streams map[journal.Stream]*fakeStream
	held    []func()
	holding bool
	// fail, if set, makes the journal reject the next entry that does not end the
	// activation.
	fail     error
	onQueued func(journal.Stream)
	// follows: another node leads, so no actor is activated here.
	follows bool
	// damage is the file that is reported as damaged.
	damage string
}

type fakeStream struct {
	epoch  uint64
	events []journal.StoredEvent
	state  []byte
	stored uint64
	queue  []journal.QueuedMessage
	words  uint64
}

func (l *fakeJournal) Damage() string { return l.damage }

func (l *fakeJournal) Admit(parley.Slot, int) (func(), error) { return func() {}, nil }

func newFakeJournal() *fakeJournal { return &fakeJournal{streams: map[journal.Stream]*fakeStream{}} }

func (l *fakeJournal) stream(s journal.Stream) *fakeStream {
	if l.streams[s] == nil {
		l.streams[s] = &fakeStream{}
	}
	return l.streams[s]
}

func (l *fakeJournal) Confirm(_ uint64, release func(error)) { release(nil) }

func (l *fakeJournal) Append(e *journal.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.apply(e, l.stream(e.Stream))
	if e.Applied != nil && err == nil {
		e.Applied()
	}
	if e.Release == nil {
		return
	}
	if release := e.Release; l.holding && !e.Activate {
		l.held = append(l.held, func() { release(err) })
	} else {
		go release(err)
	}
}

func (l *fakeJournal) apply(e *journal.Entry, s *fakeStream) error {
	switch {
	case e.Activate && l.follows:
		return journal.ErrNotLeader
	case e.Activate:
		s.epoch = e.Activation
		return nil
	case e.Activation != s.epoch || e.Expect != uint64(len(s.events)):
		return journal.ErrStale
	case l.fail != nil && !e.Retire:
		err := l.fail
		l.fail = nil
		return err
	}
	s.events = append(s.events, e.Events...)
	if e.State != nil {
		s.state, s.stored = e.State, uint64(len(s.events))
	}
	for _, n := range e.Handled {
		for i, row := range s.queue {
			if row.Number == n {
				s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
				break
			}
		}
	}
	return nil
}

// release releases the n oldest held entries.
func (l *fakeJournal) release(n int) {
	l.mu.Lock()
	held := l.held[:n]
	l.held = l.held[n:]
	l.mu.Unlock()
	for _, release := range held {
		release()
	}
}

func (l *fakeJournal) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = on
}

// enqueueNumber adds a number to an actor's queue, without a hint.
func (l *fakeJournal) enqueueNumber(s journal.Stream, n byte) {
	said := &record.SagaMessage{Kind: record.SagaMessage_ended, Group: s.ID.Bytes(), Number: uint32(n)}
	word, _ := said.MarshalVT()
	l.enqueue(s, word)
}

// enqueue adds any bytes to an actor's queue, without a hint.
func (l *fakeJournal) enqueue(s journal.Stream, word []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.stream(s)
	to.words++
	to.queue = append(to.queue, journal.QueuedMessage{Number: to.words, Data: word})
}

func (l *fakeJournal) NextActivation() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	return l.epoch
}

func (l *fakeJournal) Start(onQueued func(journal.Stream), _ func(journal.Stream, time.Time)) error {
	l.onQueued = onQueued
	return nil
}

func (l *fakeJournal) View() journal.View   { return journal.ViewOf(&fakeView{of: l}) }
func (l *fakeJournal) Latest() journal.View { return journal.ViewOf(&fakeView{of: l}) }

type fakeView struct {
	journal.View
	of *fakeJournal
}

func (v *fakeView) Close()                        {}
func (v *fakeView) Durable(context.Context) error { return nil }

func (v *fakeView) State(s journal.Stream) (uint64, []byte, error) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	of := v.of.stream(s)
	return of.stored, of.state, nil
}

func (v *fakeView) Events(s journal.Stream, from uint64, _ bool, fn func(uint64, int64, journal.StoredEvent) bool) error {
	v.of.mu.Lock()
	facts := v.of.stream(s).events
	v.of.mu.Unlock()
	for n := from; n <= uint64(len(facts)) && fn(n, 0, facts[n-1]); {
		n++
	}
	return nil
}

func (v *fakeView) Queue(s journal.Stream, beyond uint64, fn func(journal.QueuedMessage) bool) error {
	v.of.mu.Lock()
	rows := v.of.stream(s).queue
	v.of.mu.Unlock()
	for _, row := range rows {
		if row.Number > beyond && !fn(row) {
			break
		}
	}
	return nil
}

// newEngine returns an engine with tallies over a fake journal.
func newEngine(t testing.TB, stateEvery uint64, tune ...func(*Engine)) (*Engine, *fakeJournal) {
	l := newFakeJournal()
	e := New(journal.Of(l), time.Now, slog.New(slog.DiscardHandler), nil)
	Register(e, tallyKind(stateEvery))
	for _, f := range tune {
		f(e)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, l
}

// streamOf returns the stream of tally n.
func streamOf(n byte) journal.Stream {
	return journal.Stream{Kind: journal.OrgStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: n}}
}

// answer is the outcome of an ask.
type answer struct {
	reply any
	err   error
}

// askInBackground sends a request to a tally and returns the channel of its answer.
func askInBackground(e *Engine, s journal.Stream, request any) <-chan answer {
	to := make(chan answer, 1)
	go func() {
		reply, err := e.ask(s, request, nil, func() {})
		to <- answer{reply, err}
	}()
	return to
}

// noneAnswered reports whether no channel has an answer.
func noneAnswered(places ...<-chan answer) bool {
	for _, p := range places {
		if len(p) > 0 {
			return false
		}
	}
	return true
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after ten seconds: %s", what)
		}
	}
}
