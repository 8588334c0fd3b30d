package actors

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley"
	"parley/actors/rules"
	"parley/journal"
)

const (
	// sweepEvery is how often idle actors are looked for.
	sweepEvery = 10 * time.Second
	// idleAfter is how long an actor stays in memory without a message.
	idleAfter = 2 * time.Minute
	// crowd is how many actors may be in memory before even briefly idle ones go.
	crowd = 200_000
	// handleShards spreads the table of live actors over locks.
	handleShards = 256
)

// sweep asks an actor to go if it is idle.
type sweep struct{}

// handle is a live actor: the table's entry, and what others may touch of it.
type handle struct {
	stream  journal.Stream
	mailbox *mailbox
	pid     *actor.PID
	used    atomic.Int64 // Unix nanoseconds of the last message
	dropped atomic.Bool
}

// engine gives every stream that is spoken to one live actor.
type engine struct {
	journal journal.Journal
	clock   parley.Clock
	logger  *slog.Logger
	system  *actor.ActorSystem
	// shared: the system is not the engine's own, and outlives it.
	shared   bool
	produce  map[journal.StreamKind]func(*engine, *handle) actor.Actor
	patience time.Duration
	idleFor  time.Duration
	asks     askPool
	crew     crew
	retries  retries
	// queueEntries are the words of a tray that are in memory at once.
	queueEntries int
	quarantined  atomic.Uint64 // words

	shards [handleShards]struct {
		mu      sync.Mutex
		handles map[journal.Stream]*handle
	}
	live     atomic.Int64
	begun    atomic.Uint64 // lives of actors
	draining atomic.Bool
	stop     chan struct{}
	sweeper  sync.WaitGroup
}

// newEngine makes an engine in an actor system, of its own if that is nil.
func newEngine(j journal.Journal, clock parley.Clock, logger *slog.Logger, system *actor.ActorSystem) *engine {
	e := &engine{
		journal: j, clock: clock, logger: logger, patience: askPatience, idleFor: idleAfter,
		system: system, shared: system != nil,
		produce: map[journal.StreamKind]func(*engine, *handle) actor.Actor{},
		stop:    make(chan struct{}),
		retries: retries{first: drainAgainMin, after: time.AfterFunc}, queueEntries: queueEntries,
	}
	if !e.shared {
		e.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }))
	}
	for i := range e.shards {
		e.shards[i].handles = map[journal.Stream]*handle{}
	}
	return e
}

// register makes a kind known. Called before start.
func register[S rules.State, C any, E rules.Event](e *engine, k *kind[S, C, E]) {
	e.produce[k.stream] = func(e *engine, h *handle) actor.Actor {
		return &entity[S, C, E]{kind: k, engine: e, handle: h}
	}
}

func (e *engine) start() error {
	e.sweeper.Add(1)
	go e.sweepIdle()
	return e.journal.Start(e.hint, e.fire)
}

// close takes no more asks; what actors have appended is the journal's to finish.
func (e *engine) close() {
	if e.draining.Swap(true) {
		return
	}
	close(e.stop)
	e.sweeper.Wait()
	for i := range e.shards {
		for _, h := range e.handlesOf(i) {
			e.drop(h, parley.ErrOverloaded)
		}
	}
	if !e.shared {
		e.system.Shutdown()
	}
	e.crew.close()
}

func (e *engine) shard(s journal.Stream) int {
	return int(s.ID[15]^s.ID[14]^s.ID[7]) % handleShards
}

// actor gives the live actor of a stream, bringing it to life if need be.
func (e *engine) actor(s journal.Stream) *handle {
	shard := &e.shards[e.shard(s)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if h := shard.handles[s]; h != nil {
		return h
	}
	h := &handle{stream: s, mailbox: newMailbox()}
	h.used.Store(e.clock().UnixNano())
	produce := e.produce[s.Kind]
	props := actor.PropsFromProducer(
		func() actor.Actor { return produce(e, h) },
		actor.WithMailbox(func() actor.Mailbox { return h.mailbox }),
		actor.WithDispatcher(&e.crew),
	)
	h.pid = e.system.Root.Spawn(props)
	shard.handles[s] = h
	e.live.Add(1)
	e.begun.Add(1)
	return h
}

// drop ends a live actor: what waits for it is refused with reason, and the
// next message brings it to life anew.
func (e *engine) drop(h *handle, reason error) {
	if h.dropped.Swap(true) {
		return
	}
	shard := &e.shards[e.shard(h.stream)]
	shard.mu.Lock()
	if shard.handles[h.stream] == h {
		delete(shard.handles, h.stream)
	}
	pid := h.pid
	shard.mu.Unlock()
	e.live.Add(-1)
	hinted := h.mailbox.close(reason)
	e.system.Root.Stop(pid)
	if hinted != 0 && errors.Is(reason, errStopped) {
		e.nudge(h.stream, hinted)
	}
}

// ask puts a request to a stream's actor and waits for the answer. room is the
// space that was taken in the journal: it goes back when the request is
// answered, even where nobody waits for that any more.
func (e *engine) ask(s journal.Stream, request any, room func()) (any, error) {
	deadline := e.clock().Add(e.patience)
	for {
		patience := deadline.Sub(e.clock())
		if patience <= 0 || e.draining.Load() {
			room()
			return nil, parley.ErrOverloaded
		}
		a := e.asks.ask(request, deadline, room)
		h := e.actor(s)
		h.mailbox.PostUserMessage(a)
		reply, err := a.wait(patience)
		// errStopped means that nobody took the request: it is safe to ask again.
		if !errors.Is(err, errStopped) {
			return reply, err
		}
	}
}

// hint makes a stream's actor look into its tray.
func (e *engine) hint(s journal.Stream) { e.nudge(s, toDrain) }

// nudge gives a stream's actor a hint. An actor that is just going gets it in its
// next life.
func (e *engine) nudge(s journal.Stream, what hint) {
	for e.produce[s.Kind] != nil && !e.draining.Load() {
		if e.actor(s).mailbox.hint(what) {
			return
		}
	}
}

// fire tells a stream's actor that its time has come. The journal does so again
// until the actor cancels the timer.
func (e *engine) fire(s journal.Stream, due time.Time) {
	if e.produce[s.Kind] != nil && !e.draining.Load() {
		e.actor(s).mailbox.PostUserMessage(&ask{command: timerFired{due}, silent: true})
	}
}

// idle reports whether an actor may go: nobody waits for it, and it has not
// been spoken to for a while.
func (e *engine) idle(h *handle) bool {
	limit := e.idleFor
	if e.live.Load() > crowd {
		limit = min(limit, sweepEvery)
	}
	return h.mailbox.UserMessageCount() == 0 && e.clock().UnixNano()-h.used.Load() >= limit.Nanoseconds()
}

func (e *engine) sweepIdle() {
	defer e.sweeper.Done()
	tick := time.NewTicker(min(sweepEvery, max(e.idleFor/2, time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			e.sweepOnce()
		}
	}
}

// sweepOnce asks every actor that looks idle to judge for itself.
func (e *engine) sweepOnce() {
	for i := range e.shards {
		for _, h := range e.handlesOf(i) {
			if e.idle(h) {
				h.mailbox.PostUserMessage(sweep{})
			}
		}
	}
}

func (e *engine) handlesOf(shard int) []*handle {
	e.shards[shard].mu.Lock()
	defer e.shards[shard].mu.Unlock()
	handles := make([]*handle, 0, len(e.shards[shard].handles))
	for _, h := range e.shards[shard].handles {
		handles = append(handles, h)
	}
	return handles
}
