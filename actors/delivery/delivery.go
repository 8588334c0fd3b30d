// Package delivery records what has become of messages and tells the webhooks of agents
// what happens.
//
// A Dispatcher knows which agents have webhooks, wakes these when their agents' feeds
// have something new, and hands attempts to a Courier. Each webhook is an actor: its
// turns make jobs of feed entries, lease attempts and store their outcomes.
package delivery

import (
	"log/slog"
	"time"

	"parley"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query"
	"parley/journal"
)

// Options of webhooks and receipts. All but Courier and Demand are required.
type Options struct {
	Engine  *host.Engine
	Journal journal.Journal
	Clock   parley.Clock
	Entropy parley.Entropy
	Queries *query.Queries
	Logger  *slog.Logger
	// Courier makes the attempts; nil makes none.
	Courier Courier
	// Load, if set, is what deliveries step back for.
	Load Load
}

// Webhooks are the webhooks of all agents. Queries about them are promoted.
type Webhooks struct {
	*query.Webhooks
	// Courier makes the attempts. It may be replaced before Start.
	Courier Courier
	// Suspends reports whether an organization's webhooks pause. It is
	// (*org.State).Suspended, unless a test replaces it.
	Suspends func(*org.State) bool

	engine   *host.Engine
	journal  journal.Journal
	clock    parley.Clock
	entropy  parley.Entropy
	queries  *query.Queries
	receipts *Receipts
	dispatch *dispatcher
	// started is when the process did. Leases from before are nobody's.
	started time.Time
}

// Receipts record that messages were transferred, announced or read.
type Receipts struct {
	// ReadStep is how many receipts ReadUpTo records at once.
	ReadStep int

	journal  journal.Journal
	clock    parley.Clock
	queries  *query.Queries
	webhooks *Webhooks
	batch    *batcher
}

// New makes the webhooks and receipts of a node, and registers the actors of webhooks
// with its engine. Start begins to deliver.
func New(o Options) (*Webhooks, *Receipts) {
	hooks := &Webhooks{
		Webhooks: o.Queries.Webhooks, engine: o.Engine, journal: o.Journal, clock: o.Clock, entropy: o.Entropy, queries: o.Queries,
		Courier: o.Courier, started: o.Clock(), Suspends: (*org.State).Suspended,
	}
	if hooks.Courier == nil {
		hooks.Courier = noCourier{}
	}
	hooks.dispatch = newDispatcher(hooks, o.Load)
	hooks.receipts = &Receipts{journal: o.Journal, clock: o.Clock, queries: o.Queries, webhooks: hooks, ReadStep: readStep}
	hooks.receipts.batch = &batcher{receipts: hooks.receipts, logger: o.Logger}
	host.Register(o.Engine, hooks.kind())
	return hooks, hooks.receipts
}

// Start reads which webhooks there are and begins to deliver.
func (hooks *Webhooks) Start() error { return hooks.dispatch.start() }

// Close begins no more attempts, and waits for the dispatcher.
func (hooks *Webhooks) Close() { hooks.dispatch.close() }

// Close appends the receipts that were gathered.
func (rs *Receipts) Close() { rs.batch.close() }

// Waiting is how many receipts were gathered and are not appended yet.
func (rs *Receipts) Waiting() int { return rs.batch.length() }
