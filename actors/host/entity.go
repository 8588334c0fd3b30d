package host

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Kind describes the actors of one kind of stream: how to load one, and how it
// handles requests. S, C and E are the state, commands and events of its aggregate. A
// request may be of another type than C: a turn may decide about several aggregates.
type Kind[S rules.State, C any, E rules.Event] struct {
	Stream journal.StreamKind
	Rules  rules.Aggregate[S, C, E]
	Blank  func() S
	// Handle handles one request. Everything that it adds to the turn is stored, also
	// if it answers with a refusal. Any other error is a defect: nothing is stored.
	Handle func(*Turn[S, C, E], any) (reply any, err error)
	// HandleQueued handles one message of the actor's durable queue; nil if the kind
	// gets none. After an error, also a refusal, the message stays in the queue.
	HandleQueued func(*Turn[S, C, E], *record.SagaMessage) error
	// GatherQueued, if set, reads before the turn what HandleQueued needs from other homes.
	GatherQueued func(S, *record.SagaMessage) error
	// HandlePage, if set, handles a page of the queue in one turn, instead of HandleQueued.
	HandlePage func(*Turn[S, C, E], []*record.SagaMessage) error
	// Gather is how long the actor waits after a message was queued before it handles its
	// queue, so that one turn handles all that came meanwhile.
	Gather time.Duration
	// Work, if set, is called after the queue is drained, whenever the actor is hinted.
	Work func(*Turn[S, C, E]) error
	// StateEvery is after how many events the folded state is stored. With 1 the
	// stored state is always the current one.
	StateEvery uint64
	// Weight, if set, raises StateEvery for large states.
	Weight func(S) uint64
}

func (k *Kind[S, C, E]) storeAfter(s S) uint64 {
	if k.Weight == nil {
		return k.StateEvery
	}
	return max(k.StateEvery, k.Weight(s))
}

// TimerDue is the request of a timer that is due.
type TimerDue struct{ Due time.Time }

// entity is one actor of a kind.
type entity[S rules.State, C any, E rules.Event] struct {
	kind   *Kind[S, C, E]
	engine *Engine
	handle *activeActor

	state      S
	loaded     bool
	erased     bool // its state was erased, for good
	seq        uint64
	activation uint64
	stored     uint64 // events since the state was last stored
	handled    uint64 // number of the last queued message that was handled
	owed       hint   // hints that are not done yet
	// page is the last entry of the newest page of the queue, if there is more.
	page *Pending
	// last is the newest entry appended; all later answers depend on it.
	last *Pending
	// overlay holds rows that were appended and may not be applied yet, by key.
	overlay map[string]overlaidRow
	recent  []*Pending
}

type overlaidRow struct {
	value   []byte
	deleted bool
	pending *Pending
}

// Pending is an entry that was appended and may not be durable yet.
type Pending struct {
	// keys of its rows in the actor's overlay.
	keys    []string
	mu      sync.Mutex
	done    bool
	err     error
	waiting []func(error)
}

// then calls fn when the entry is released, at once if it was. The error is why the
// entry is not stored.
func (t *Pending) then(fn func(error)) {
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

func (t *Pending) release(err error) {
	t.mu.Lock()
	t.done, t.err = true, err
	waiting := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	for _, fn := range waiting {
		fn(err)
	}
}

func (t *Pending) Released() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// Receive implements actor.Actor. It handles one message.
func (e *entity[S, C, E]) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		e.activate()
	case *actor.Stopping: // by us, or by a fault of the actor system
		e.engine.drop(e.handle, errStopped)
	case *ask:
		e.serve(m)
	case hint:
		e.owed |= m
		e.guard(nil, e.catchUp)
	case sweep:
		e.guard(nil, e.passivate)
	}
}

// activate appends an empty entry and opens the mailbox when that is applied. The
// actor's rows then have everything that earlier activations appended, and the journal
// rejects later entries with their activation numbers. All answers depend on the entry,
// and so on everything before it.
func (e *entity[S, C, E]) activate() {
	e.activation = e.engine.journal.NextActivation()
	own := &Pending{}
	e.last = own
	e.engine.journal.Append(&journal.Entry{
		Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Activate: true,
		At:      e.engine.clock(),
		Applied: e.handle.mailbox.open,
		Release: func(err error) {
			switch {
			case errors.Is(err, journal.ErrNotLeader), errors.Is(err, parley.ErrOutcomeUnknown) && e.engine.Router != nil:
				e.engine.drop(e.handle, journal.ErrNotLeader) // an activation changes nothing
			case err != nil:
				e.engine.drop(e.handle, parley.ErrOverloaded)
			}
			own.release(err)
		},
	})
}

// load reads the actor's state at its first message, and again for as long as there
// is none: another actor's entry begins the stream, and may not be applied yet.
func (e *entity[S, C, E]) load() error {
	if e.loaded && e.state.Exists() {
		return nil
	}
	v := e.engine.journal.View()
	defer v.Close()
	e.state = e.kind.Blank()
	seq, folded, err := e.kind.Rules.Load(rules.StoredIn(v), e.handle.stream, e.state)
	if err != nil {
		e.erased = errors.Is(err, journal.ErrErased)
		return err
	}
	e.seq, e.stored, e.loaded = seq, folded, true
	e.owed |= toDrain
	return e.catchUp()
}

// serve answers one ask.
func (e *entity[S, C, E]) serve(m *ask) {
	if e.handle.dropped.Load() {
		m.complete(nil, errStopped)
		return
	}
	if !m.silent && e.engine.clock().After(m.deadline) {
		m.complete(nil, parley.ErrOverloaded) // the caller has given up; nothing was done
		return
	}
	e.guard(m, func() error {
		if err := e.load(); err != nil {
			e.cancelTimer(m, err)
			return err
		}
		e.handle.used.Store(e.engine.clock().UnixNano())
		t := e.begin()
		t.Payer = m.payer
		defer t.abandon()
		reply, err, failure := e.handleMetered(t, m.command)
		if t.spoiled { // the state has changed already: it is loaded anew
			defer e.abort()
		}
		if lacking := (*Lacking)(nil); errors.As(failure, &lacking) { // depends on nothing, so it need not be durable
			m.complete(nil, failure)
			return nil
		}
		if failure != nil {
			return failure
		}
		t.commit(func(failure error) {
			if errors.Is(failure, journal.ErrErased) || errors.Is(failure, journal.ErrNotLeader) { // nothing was done
				m.complete(nil, failure)
				return
			}
			if failure != nil {
				m.complete(nil, parley.ErrOutcomeUnknown)
				return
			}
			m.complete(reply, err)
		})
		return nil
	})
}

// cancelTimer cancels the timer of a request that failed because the actor's state was
// erased. Otherwise the journal would call it again for ever.
func (e *entity[S, C, E]) cancelTimer(m *ask, failure error) {
	due, ok := m.command.(TimerDue)
	if !ok || !errors.Is(failure, journal.ErrErased) {
		return
	}
	e.engine.journal.Append(&journal.Entry{
		Slot: e.handle.stream.Slot(), At: e.engine.clock(),
		Timers: []journal.Timer{{Due: due.Due, Stream: e.handle.stream, Cancel: true}},
	})
}

// catchUp does what the actor was hinted at: it drains its queue and runs its kind's
// Work.
func (e *entity[S, C, E]) catchUp() error {
	if !e.loaded {
		return e.load() // which catches up
	}
	if e.owed&toDrain != 0 && (e.kind.HandleQueued != nil || e.kind.HandlePage != nil) {
		if err := e.drainQueue(); err != nil {
			return err
		}
	}
	if e.kind.Work != nil {
		if err := e.work(); err != nil {
			return err
		}
	}
	e.owed = 0
	e.engine.retries.passed(e.handle.stream)
	return nil
}

// work runs its kind's Work in a turn.
func (e *entity[S, C, E]) work() error {
	t := e.begin()
	defer t.abandon()
	e.handle.used.Store(t.Now.UnixNano())
	if err := e.kind.Work(t); err != nil {
		return err
	}
	t.commit(func(error) {})
	return nil
}

// errDamaged refuses what another node will soon decide, if there is one that can: a node that
// found a damaged file hands over its leadership. It says nothing about the load.
var errDamaged = parley.ErrOverloaded.Saying("A file of the node that leads is damaged; nothing was done. Another node takes over if one is ready. Try again.").ForOne()

// guard runs one turn. A defect (a panic, a damaged row) is answered with "internal" and
// drops the actor, whose memory may be half changed: the next message loads it anew.
// Its next activation gets the hints that are not done.
func (e *entity[S, C, E]) guard(m *ask, run func() error) {
	failed := func(err, reason error, stack []byte) {
		if stack != nil || !parley.IsRefusal(err) { // a refusal is no defect: the journal is closing
			e.engine.Logger.Error("actor failed", "stream", e.handle.stream.Kind, "id", e.handle.stream.ID.String(),
				"error", err, "stack", string(stack))
		}
		if m != nil {
			m.complete(nil, reason)
		}
		e.abort()
	}
	defer func() {
		if r := recover(); r != nil {
			failed(fmt.Errorf("panic: %v", r), parley.ErrInternal, debug.Stack())
		}
	}()
	if err := run(); err != nil {
		failed(err, e.engine.reason(err), nil)
	}
}

// abort drops the actor in the middle of a turn. What an erased actor owes is never done.
func (e *entity[S, C, E]) abort() {
	e.engine.drop(e.handle, errStopped)
	if e.owed != 0 && !e.erased {
		e.engine.retries.failed(e.handle.stream, e.owed, e.engine.nudge)
	}
}

// passivate drops an actor that is idle, if everything that it appended is durable.
func (e *entity[S, C, E]) passivate() error {
	if e.handle.dropped.Load() || !e.engine.idle(e.handle) {
		return nil
	}
	// An actor that has handled no request does not know its sequence number yet.
	if err := e.load(); err != nil {
		return err
	}
	if e.last != nil && !e.last.Released() {
		return nil
	}
	e.engine.journal.Append(&journal.Entry{
		Slot: e.handle.stream.Slot(), Stream: e.handle.stream, Activation: e.activation, Expect: e.seq,
		Retire: true, At: e.engine.clock(),
	})
	e.engine.drop(e.handle, errStopped)
	return nil
}

// IgnoreRefusal drops a refusal of the rules: a queued message has no caller who could
// get it. The refusal of a journal that is closing stays an error: the message is
// handled after the next start.
func IgnoreRefusal(err error) error {
	if parley.IsRefusal(err) && !errors.Is(err, parley.ErrOverloaded) {
		return nil
	}
	return err
}
