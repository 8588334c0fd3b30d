package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

const (
	// sweepEvery is how often idle actors are looked for.
	sweepEvery = 10 * time.Second
	// idleAfter is how long an actor stays in memory without a message.
	idleAfter = 2 * time.Minute
	// gatherMax is more than any kind of actor gathers messages.
	gatherMax = time.Second
	// activeActorsHigh is how many actors may be in memory before those that have
	// been idle for only sweepEvery are passivated too.
	activeActorsHigh = 200_000
	// actorShards is over how many locks the table of active actors is spread.
	actorShards = 256
)

// sweep asks an actor to passivate itself if it is idle.
type sweep struct{}

// activeActor is an actor in memory: its entry in the table, and what other
// goroutines may use of it.
type activeActor struct {
	stream  journal.Stream
	mailbox *mailbox
	pid     *actor.PID
	used    atomic.Int64 // Unix nanoseconds of the last message
	dropped atomic.Bool
}

// Engine keeps one active actor for each stream that is asked for something. Its
// exported fields may be changed before Start.
type Engine struct {
	journal journal.Journal
	clock   parley.Clock
	// Logger takes failures of actors and quarantined messages.
	Logger *slog.Logger
	system *System
	// shared: the system is not the engine's own, and outlives it.
	shared  bool
	produce map[journal.StreamKind]func(*Engine, *activeActor) actor.Actor
	// gather is how long actors of a kind wait before they handle their queues.
	gather map[journal.StreamKind]time.Duration
	// Timeout is how long a request waits for its answer.
	Timeout time.Duration
	// GatherMax bounds how long an actor gathers messages before it handles its queue.
	GatherMax time.Duration
	// IdleFor is how long an actor stays in memory without a message.
	IdleFor time.Duration
	// QueueMessages is how many messages of an actor's durable queue are in memory
	// at once.
	QueueMessages int
	// QueriesMax is how many queries may be under way.
	QueriesMax int64
	// Router, if set, takes requests to the node that decides.
	Router Router
	// Meter, if set, counts what requests use.
	Meter Meter
	// Asked, if set, is called with each request that may come from another node, and its answer.
	// Only tests set it.
	Asked func(request, reply any)

	asks        askPool
	workers     workerPool
	retries     retries
	watches     watches
	quarantined atomic.Uint64 // messages

	shards [actorShards]struct {
		mu      sync.Mutex
		handles map[journal.Stream]*activeActor
	}
	// gathers are the streams whose actors gather messages now.
	gathers   map[journal.Stream]bool
	gathering sync.Mutex

	live        atomic.Int64
	queries     atomic.Int64  // under way
	answered    func()        // ends a query
	activations atomic.Uint64 // since the start
	draining    atomic.Bool
	stop        chan struct{}
	sweeper     sync.WaitGroup
}

// New makes an engine. It runs its actors in the given actor system, or in a system
// of its own if that is nil.
func New(j journal.Journal, clock parley.Clock, logger *slog.Logger, system *System) *Engine {
	e := &Engine{
		journal: j, clock: clock, Logger: logger, Timeout: AnswerTimeout, IdleFor: idleAfter, GatherMax: gatherMax,
		system: system, shared: system != nil,
		produce: map[journal.StreamKind]func(*Engine, *activeActor) actor.Actor{},
		gather:  map[journal.StreamKind]time.Duration{}, gathers: map[journal.Stream]bool{},
		stop:    make(chan struct{}),
		retries: retries{first: retryPauseMin, after: time.AfterFunc}, QueueMessages: QueueMessages,
		QueriesMax: queriesMax,
	}
	e.answered = func() { e.queries.Add(-1) }
	if !e.shared {
		e.system = NewSystem(logger)
	}
	for i := range e.shards {
		e.shards[i].handles = map[journal.Stream]*activeActor{}
	}
	return e
}

// System is the actor system that runs the actors. Making one is most of the cost of
// making an engine; several engines may share one.
type System = actor.ActorSystem

// NewSystem makes an actor system.
func NewSystem(logger *slog.Logger) *System {
	quiet := slog.New(quietHandler{logger.Handler()})
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
}

// quietHandler logs at debug what the actor system logs at info: its start, for instance,
// which says nothing to an operator.
type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, quieted(level))
}

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = quieted(r.Level)
	return h.Handler.Handle(ctx, r)
}

func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

func quieted(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}

// Register adds a kind of actor. Call it before Start. A kind of the same stream kind
// is replaced.
func Register[S rules.State, C any, E rules.Event](e *Engine, k *Kind[S, C, E]) {
	e.gather[k.Stream] = k.Gather
	e.produce[k.Stream] = func(e *Engine, h *activeActor) actor.Actor {
		return &entity[S, C, E]{kind: k, engine: e, handle: h}
	}
}

// Start begins to take requests, and has the journal report durable queues and timers
// that have to be handled.
func (e *Engine) Start() error {
	e.sweeper.Add(1)
	go e.sweepIdle()
	return e.journal.Start(e.Drain, e.Fire)
}

// Close takes no more requests. The journal still finishes what actors have appended.
func (e *Engine) Close() {
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
	e.workers.close()
}

func (e *Engine) shardOf(s journal.Stream) int {
	return int(s.ID[15]^s.ID[14]^s.ID[7]) % actorShards
}

// actor gives the active actor of a stream, activating it if need be.
func (e *Engine) actor(s journal.Stream) *activeActor {
	shard := &e.shards[e.shardOf(s)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if h := shard.handles[s]; h != nil {
		return h
	}
	h := &activeActor{stream: s, mailbox: newMailbox()}
	h.used.Store(e.clock().UnixNano())
	produce := e.produce[s.Kind]
	props := actor.PropsFromProducer(
		func() actor.Actor { return produce(e, h) },
		actor.WithMailbox(func() actor.Mailbox { return h.mailbox }),
		actor.WithDispatcher(&e.workers),
	)
	h.pid = e.system.Root.Spawn(props)
	shard.handles[s] = h
	e.live.Add(1)
	e.activations.Add(1)
	return h
}

// drop removes an actor from memory. Requests in its mailbox are refused with reason;
// the next one activates the actor anew.
func (e *Engine) drop(h *activeActor, reason error) {
	if h.dropped.Swap(true) {
		return
	}
	shard := &e.shards[e.shardOf(h.stream)]
	shard.mu.Lock()
	if shard.handles[h.stream] == h {
		delete(shard.handles, h.stream)
	}
	pid := h.pid
	shard.mu.Unlock()
	e.live.Add(-1)
	hinted := h.mailbox.close(reason)
	e.system.Root.Stop(pid)
	e.watches.notify(h.stream)
	if hinted != 0 && errors.Is(reason, errStopped) {
		e.nudge(h.stream, hinted)
	}
}

// ask sends a request to a stream's actor and waits for the answer. release is called
// once, when the request is answered, even if the caller has given up by then: it
// frees the room that was admitted for the request.
func (e *Engine) ask(s journal.Stream, request any, payer *parley.Payer, release func()) (any, error) {
	deadline := e.clock().Add(e.Timeout)
	for {
		patience := deadline.Sub(e.clock())
		if patience <= 0 || e.draining.Load() {
			release()
			return nil, parley.ErrOverloaded
		}
		a := e.asks.ask(request, deadline, release)
		a.payer = payer
		h := e.actor(s)
		h.mailbox.PostUserMessage(a)
		reply, err := a.wait(patience)
		// errStopped means that no actor took the request: it is safe to ask again.
		if !errors.Is(err, errStopped) {
			return reply, err
		}
	}
}

// Drop removes a stream's actor from memory, if it is there. Requests in its mailbox go to
// its next activation, which reads what is stored.
func (e *Engine) Drop(s journal.Stream) {
	shard := &e.shards[e.shardOf(s)]
	shard.mu.Lock()
	h := shard.handles[s]
	shard.mu.Unlock()
	if h != nil {
		e.drop(h, errStopped)
	}
}

// DropAll removes all actors from memory: another node leads. Requests in their mailboxes are
// refused with journal.ErrNotLeader, because nothing was done.
func (e *Engine) DropAll() {
	for i := range e.shards {
		for _, h := range e.handlesOf(i) {
			e.drop(h, journal.ErrNotLeader)
		}
	}
}

// Wake has a stream's actor run its kind's Work.
func (e *Engine) Wake(s journal.Stream) { e.nudge(s, toWork) }

// Stats are the numbers of an Engine at one instant.
type Stats struct {
	// Live is how many actors are in memory; Activations counts those of all actors since the start.
	Live        int
	Activations uint64
	// Refused counts requests that a full mailbox rejected, Overdue those that were
	// answered with outcome_unknown because their actor did not answer in time.
	Refused, Overdue uint64
	// Quarantined counts messages of actors that could not be decoded and were put
	// into quarantine since the start.
	Quarantined uint64
	// Queries are under way.
	Queries int64
}

// Stats reads the numbers.
func (e *Engine) Stats() Stats {
	return Stats{
		Live: int(e.live.Load()), Activations: e.activations.Load(),
		Refused: e.asks.refused.Load(), Overdue: e.asks.overdue.Load(), Quarantined: e.quarantined.Load(),
		Queries: e.queries.Load(),
	}
}

// Drain has a stream's actor handle the messages in its durable queue, at once or when it
// has gathered what comes in the meantime.
func (e *Engine) Drain(s journal.Stream) {
	pause := min(e.gather[s.Kind], e.GatherMax)
	if pause == 0 {
		e.nudge(s, toDrain)
		return
	}
	e.gathering.Lock()
	defer e.gathering.Unlock()
	if e.gathers[s] {
		return
	}
	e.gathers[s] = true
	time.AfterFunc(pause, func() {
		e.gathering.Lock()
		delete(e.gathers, s)
		e.gathering.Unlock()
		e.nudge(s, toDrain)
	})
}

// nudge gives a stream's actor a hint. If the actor is being dropped, its next
// activation gets it.
func (e *Engine) nudge(s journal.Stream, what hint) {
	for e.produce[s.Kind] != nil && !e.draining.Load() {
		if e.actor(s).mailbox.hint(what) {
			return
		}
	}
}

// Fire tells a stream's actor that a timer is due. The journal calls it again until
// the actor cancels the timer.
func (e *Engine) Fire(s journal.Stream, due time.Time) {
	if e.produce[s.Kind] != nil && !e.draining.Load() {
		e.actor(s).mailbox.PostUserMessage(&ask{command: TimerDue{due}, silent: true})
	}
}

// idle reports whether an actor may be passivated: its mailbox is empty, and its last
// message is IdleFor ago, or as far ahead of a clock that was set back.
func (e *Engine) idle(h *activeActor) bool {
	limit := e.IdleFor
	if e.live.Load() > activeActorsHigh {
		limit = min(limit, sweepEvery)
	}
	since := time.Duration(e.clock().UnixNano() - h.used.Load())
	return h.mailbox.UserMessageCount() == 0 && since.Abs() >= limit
}

func (e *Engine) sweepIdle() {
	defer e.sweeper.Done()
	tick := time.NewTicker(min(sweepEvery, max(e.IdleFor/2, time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			e.Sweep()
		}
	}
}

// Sweep asks every actor that looks idle to passivate itself.
func (e *Engine) Sweep() {
	for i := range e.shards {
		for _, h := range e.handlesOf(i) {
			if e.idle(h) {
				h.mailbox.PostUserMessage(sweep{})
			}
		}
	}
}

func (e *Engine) handlesOf(shard int) []*activeActor {
	e.shards[shard].mu.Lock()
	defer e.shards[shard].mu.Unlock()
	handles := make([]*activeActor, 0, len(e.shards[shard].handles))
	for _, h := range e.shards[shard].handles {
		handles = append(handles, h)
	}
	return handles
}
