// Package delivery records what happened to messages (receipts) and notifies the
// webhooks of agents.
//
// Each webhook is an actor: its turns create jobs from feed entries, lease attempts and
// store their outcomes. The dispatcher knows which agents have webhooks, wakes them
// when their agents' feeds have new entries, and hands attempts to a Courier.
package delivery

import (
	"log/slog"
	"sync/atomic"

	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// Options of webhooks and receipts. All but Courier and Load are required.
type Options struct {
	Engine  *host.Engine
	Journal journal.Journal
	Clock   parley.Clock
	Entropy parley.Entropy
	Queries *query.Queries
	Logger  *slog.Logger
	// Courier makes the attempts; nil makes none.
	Courier Courier
	// Load, if set, throttles deliveries while requests need the processor.
	Load Load
}

// Webhooks manages the webhooks of all agents. The methods of query.Webhooks are
// promoted.
type Webhooks struct {
	*query.Webhooks
	// Courier makes the attempts. It may be replaced before Start.
	Courier Courier
	// Suspends reports whether an organization's webhooks pause. It is
	// (*org.State).Suspended unless a test replaces it.
	Suspends func(*org.State) bool

	engine   *host.Engine
	journal  journal.Journal
	clock    parley.Clock
	entropy  parley.Entropy
	queries  *query.Queries
	receipts *Receipts
	load     Load
	// dispatching is the dispatcher of the present leadership, or of the next one.
	dispatching atomic.Pointer[dispatcher]
}

// Receipts records that messages were transferred, announced or read.
type Receipts struct {
	// ReadStep is how many receipts ReadUpTo records at once.
	ReadStep int

	journal  journal.Journal
	clock    parley.Clock
	queries  *query.Queries
	webhooks *Webhooks
	batch    *batcher
}

// New returns the webhooks and receipts of a node and registers the actors of webhooks
// with its engine. Start begins to deliver.
func New(o Options) (*Webhooks, *Receipts) {
	hooks := &Webhooks{
		Webhooks: o.Queries.Webhooks, engine: o.Engine, journal: o.Journal, clock: o.Clock, entropy: o.Entropy, queries: o.Queries,
		Courier: o.Courier, load: o.Load, Suspends: (*org.State).Suspended,
	}
	if hooks.Courier == nil {
		hooks.Courier = noCourier{}
	}
	hooks.dispatching.Store(newDispatcher(hooks, o.Load))
	hooks.receipts = &Receipts{journal: o.Journal, clock: o.Clock, queries: o.Queries, webhooks: hooks, ReadStep: readStep}
	hooks.receipts.batch = &batcher{receipts: hooks.receipts, logger: o.Logger}
	host.Register(o.Engine, hooks.kind())
	return hooks, hooks.receipts
}

// dispatch is the dispatcher.
func (hooks *Webhooks) dispatch() *dispatcher { return hooks.dispatching.Load() }

// Start reads which webhooks exist and begins to deliver.
func (hooks *Webhooks) Start() error {
	d := hooks.dispatch()
	d.begin()
	err := d.learn()
	d.running.Go(d.lookAround)
	return err
}

// StartSoon is Start for a node that begins to lead: requests need not wait until all webhooks are
// read. failed is called with an error of Start.
func (hooks *Webhooks) StartSoon(failed func(error)) {
	d := hooks.dispatch()
	d.begin()
	d.running.Go(func() {
		if err := d.learn(); err != nil && !d.registry.isClosed() {
			failed(err)
			return
		}
		d.lookAround()
	})
}

// Stop ends what Start or StartSoon began: no further attempt begins, and those in progress
// report to nobody. Start may follow.
func (hooks *Webhooks) Stop() {
	hooks.dispatching.Swap(newDispatcher(hooks, hooks.load)).close()
	hooks.Courier.DropAll()
}

// Close stops the dispatcher. No further attempt begins.
func (hooks *Webhooks) Close() { hooks.dispatch().close() }

// Close appends the receipts that are batched.
func (rs *Receipts) Close() { rs.batch.close() }

// Waiting returns how many receipts are batched and not appended yet.
func (rs *Receipts) Waiting() int { return rs.batch.length() }
