package actors

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// kind is a sort of actor: how to load one, and what it does with a command.
// C is the aggregate's sum of commands, but what comes through the mailbox are
// the node's own requests: a turn may judge more than one aggregate.
type kind[S rules.State, C any, E rules.Event] struct {
	stream journal.StreamKind
	rules  rules.Aggregate[S, C, E]
	blank  func() S
	// handle takes one request. What it adds to the turn is kept whole, also
	// where it answers with a refusal.
	handle func(*turn[S, C, E], any) (reply any, err error)
	// handleQueued takes one word from the tray; nil where nobody says any to its like. An
	// error, also a refusal, says that the word cannot be handled now: it stays.
	handleQueued func(*turn[S, C, E], *record.SagaMessage) error
	// wake, if set, looks for what is to be done whenever the actor is hinted, after
	// the words in its tray.
	wake func(*turn[S, C, E]) error
	// stateEvery is after how many events the folded state is stored; 1 makes
	// the stored state always the current one.
	stateEvery uint64
	// weight, if set, is after how many events at least a state of its size is
	// worth storing.
	weight func(S) uint64
}

func (k *kind[S, C, E]) storeAfter(s S) uint64 {
	if k.weight == nil {
		return k.stateEvery
	}
	return max(k.stateEvery, k.weight(s))
}

// timerFired is the request of a due timer.
type timerFired struct{ due time.Time }

// entity is one actor of a kind.
type entity[S rules.State, C any, E rules.Event] struct {
	kind   *kind[S, C, E]
	engine *engine
	handle *handle

	state      S
	loaded     bool
	seq        uint64
	activation uint64
	stored     uint64 // events since the state was last stored
	heard      uint64 // number of the last word taken from the tray
	owes       hint   // what it was hinted at and has not done
	// page is the last entry of the newest page of the tray, where there is more.
	page *ticket
	// last is the newest entry appended; what follows rests on it.
	last *ticket
	// overlay holds rows appended and maybe not applied yet, by key.
	overlay map[string]overlaid
	recent  []*ticket
}

type overlaid struct {
	value  []byte
	gone   bool
	ticket *ticket
}

// ticket is an entry on its way.
type ticket struct {
	// keys of the rows it laid over, the actor's own.
	keys    []string
	mu      sync.Mutex
	done    bool
	err     error
	waiting []func(error)
}

// then calls fn when the entry is released, at once if it has been.
func (t *ticket) then(fn func(error)) {
	t.mu.Lock()
	if !t.done {
		t.waiting = append(t.waiting, fn)
		t.mu.Unlock()
		return
	}
	err := t.err
	t.mu.Unlock()
	fn(err)
}

func (t *ticket) release(err error) {
	t.mu.Lock()
	t.done, t.err = true, err
	waiting := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	for _, fn := range waiting {
		fn(err)
	}
}

func (t *ticket) released() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// Receive takes one message. // the one loop
func (e *entity[S, C, E]) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		e.activate()
	case *actor.Stopping: // by us, or by a fault of the actor system's own
		e.engine.drop(e.handle, errStopped)
	case *ask:
		e.serve(m)
	case hint:
		e.owes |= m
		e.guard(nil, e.listen)
	case sweep:
		e.guard(nil, e.retire)
	}
}

// activate passes an empty entry through the journal and opens the mailbox when
// it is applied: everything that former incarnations said is then in its rows.
// What is answered from them rests on the entry, and so on all before it.
func (e *entity[S, C, E]) activate() {
	e.activation = e.engine.journal.NextActivation()
	tk := &ticket{}
	e.last = tk
	e.engine.journal.Append(&journal.Entry{
		Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Activate: true,
		At:      e.engine.clock(),
		Applied: e.handle.mailbox.open,
		Release: func(err error) {
			if err != nil {
				e.engine.drop(e.handle, parley.ErrOverloaded)
			}
			tk.release(err)
		},
	})
}

// load reads the actor's state at its first message, and again for as long as
// there is none: what begins a stream is another's entry, and may be on its way.
func (e *entity[S, C, E]) load() error {
	if e.loaded && e.state.Exists() {
		return nil
	}
	v := e.engine.journal.View()
	defer v.Close()
	e.state = e.kind.blank()
	seq, folded, err := e.kind.rules.Load(v, e.handle.stream, e.state)
	if err != nil {
		return err
	}
	e.seq, e.stored, e.loaded = seq, folded, true
	e.owes |= toDrain
	return e.listen()
}

// serve answers one ask.
func (e *entity[S, C, E]) serve(m *ask) {
	if e.handle.dropped.Load() {
		m.complete(nil, errStopped)
		return
	}
	if !m.silent && e.engine.clock().After(m.deadline) {
		m.complete(nil, parley.ErrOverloaded) // nobody waits; nothing was done
		return
	}
	e.guard(m, func() error {
		if err := e.load(); err != nil {
			return err
		}
		e.handle.used.Store(e.engine.clock().UnixNano())
		t := e.begin()
		defer t.abandon()
		reply, err := e.kind.handle(t, m.command)
		if err != nil && !isRefusal(err) {
			return err
		}
		t.finish(func(failure error) {
			switch {
			case failure == nil:
				m.complete(reply, err)
			case errors.Is(failure, journal.ErrExists) && t.exists != nil:
				m.complete(nil, t.exists)
			default:
				m.complete(nil, parley.ErrOutcomeUnknown)
			}
		})
		return nil
	})
}

// listen does what the actor owes: it takes the words in the tray, if there may be
// any, and looks for what else is to be done.
func (e *entity[S, C, E]) listen() error {
	if !e.loaded {
		return e.load() // which listens
	}
	if e.owes&toDrain != 0 && e.kind.handleQueued != nil {
		if err := e.drainQueue(); err != nil {
			return err
		}
	}
	if e.kind.wake != nil {
		if err := e.work(); err != nil {
			return err
		}
	}
	e.owes = 0
	e.engine.retries.passed(e.handle.stream)
	return nil
}

// work looks for what there is to do besides the words in the tray.
func (e *entity[S, C, E]) work() error {
	t := e.begin()
	defer t.abandon()
	e.handle.used.Store(t.now.UnixNano())
	if err := e.kind.wake(t); err != nil {
		return err
	}
	t.finish(func(error) {})
	return nil
}

// guard runs one turn. A defect (a panic, a damaged row) answers "internal" and
// drops the actor, whose memory may be half changed: the next message loads it
// anew. What it was hinted at and has not done, its next life is hinted at.
func (e *entity[S, C, E]) guard(m *ask, run func() error) {
	failed := func(err error, stack []byte) {
		e.engine.logger.Error("actor failed", "stream", e.handle.stream.Kind, "id", e.handle.stream.ID.String(),
			"error", err, "stack", string(stack))
		if m != nil {
			m.complete(nil, parley.ErrInternal)
		}
		e.leave()
	}
	defer func() {
		if r := recover(); r != nil {
			failed(fmt.Errorf("panic: %v", r), debug.Stack())
		}
	}()
	err := run()
	switch {
	case err == nil:
	case isRefusal(err): // no defect: the journal is closing
		if m != nil {
			m.complete(nil, err)
		}
		e.leave()
	default:
		failed(err, nil)
	}
}

// leave ends an actor in the middle of a turn.
func (e *entity[S, C, E]) leave() {
	e.engine.drop(e.handle, errStopped)
	if e.owes != 0 {
		e.engine.retries.failed(e.handle.stream, e.owes, e.engine.nudge)
	}
}

// retire ends an actor that has been idle and whose every word is durable.
func (e *entity[S, C, E]) retire() error {
	if e.handle.dropped.Load() || !e.engine.idle(e.handle) {
		return nil
	}
	// One that had nothing to say has learnt no sequence either.
	if err := e.load(); err != nil {
		return err
	}
	if e.last != nil && !e.last.released() {
		return nil
	}
	e.engine.journal.Append(&journal.Entry{
		Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Expect: e.seq,
		Retire: true, At: e.engine.clock(),
	})
	e.engine.drop(e.handle, errStopped)
	return nil
}

func isRefusal(err error) bool {
	refusal := (*parley.Refusal)(nil)
	return errors.As(err, &refusal)
}
