package actors

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"parley/actors/delivery"
	"parley/actors/erasure"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/wire"
	"parley/client/parley"
	"parley/journal"
)

// Options of a Node. Journal, Clock, Entropy and Logger are required.
type Options struct {
	Journal journal.Journal
	Clock   parley.Clock
	Entropy parley.Entropy
	Logger  *slog.Logger
	// PageBytes bounds the cache of message records, in bytes; 0 disables it.
	PageBytes int64
	// Render returns the content of a message as pages show it, for that cache; nil keeps
	// it as it is stored.
	Render func(*record.Message) []byte
	// SeatLimit returns how many members a group of an owner may have. There is no
	// limit if it or its result is nil.
	SeatLimit func(owner *org.State) *int
	// Courier sends the requests of webhooks; nil sends none.
	Courier delivery.Courier
	// NewKey, if set, makes the encryption key of an organization, durably. It is called
	// before the organization is created; if it fails, the organization is not.
	NewKey func(parley.OrgID) error
	// DestroyKey, if set, destroys the encryption key of an organization, durably. Without
	// it no organization can be erased.
	DestroyKey func(parley.OrgID, time.Time) error
	// Load, if set, throttles webhook deliveries while requests need the processor.
	Load delivery.Load
	// Router takes requests to the node of a cluster that decides; nil if there is one
	// node only.
	Router host.Router
	// Elsewhere, if set, reports that another node of the cluster leads: that one erases
	// organizations.
	Elsewhere func() bool
	// system runs the actors; nil makes one. Tests share one.
	system *host.System
}

// Node runs the actors over a journal. The HTTP layer calls it. Methods may be called
// from any goroutine. An error is a parley.Refusal, which callers may see, or a defect
// of the server, which they must not.
type Node struct {
	Agents   *Agents
	Orgs     *Orgs
	Messages *Messages
	Feeds    *query.Feeds
	Groups   *Groups
	Webhooks *delivery.Webhooks
	Receipts *delivery.Receipts
	Erasures *erasure.Erasures
	// Keys sign access tokens, CardKeys the A2A cards of agents, ReceiptKeys the receipts of
	// messages, LogKeys checkpoints of the key log.
	Keys, CardKeys, ReceiptKeys, LogKeys *Keys
	KeyLog                               *KeyLog
	Operators                            *Operators

	*core
}

// The methods of a Node, by resource. Queries are promoted.
type (
	// Agents creates and changes agents.
	Agents struct {
		*query.Agents
		*core
	}
	// Orgs registers and changes organizations.
	Orgs struct {
		*query.Orgs
		*core
	}
	// Messages sends messages and moves conversations.
	Messages struct {
		*query.Messages
		*core
	}
	// Groups creates and changes groups and their members.
	Groups struct {
		*query.Groups
		*core
	}
	// KeyLog appends to the key log and proves what is in it.
	KeyLog struct{ *core }
	// Keys manages the platform's signing keys of one purpose.
	Keys struct {
		stream journal.Stream
		*core
	}
)

// core is what all parts of a node share.
type core struct {
	engine  *host.Engine
	journal journal.Journal
	clock   parley.Clock
	entropy parley.Entropy
	queries *query.Queries

	agents    *Agents
	orgs      *Orgs
	operators *Operators
	messages  *Messages
	groups    *Groups
	webhooks  *delivery.Webhooks
	receipts  *delivery.Receipts

	erasures *erasure.Erasures
	// elsewhere is Options.Elsewhere.
	elsewhere func() bool

	// memory is that of the present term, or of the next one.
	memory atomic.Pointer[leaderMemory]
	newKey func(parley.OrgID) error
	// destroyKey is Options.DestroyKey, erased what OnErased set.
	destroyKey func(parley.OrgID, time.Time) error
	erased     atomic.Pointer[func(parley.OrgID)]
	logger     *slog.Logger
	seats      func(owner *org.State) *int
	// queue bounds the pending join requests of groups.
	queue group.Queue
	// kidsMove is set by a test as a control: a thumbprint then finds the latest agent
	// with the key, not the first.
	kidsMove bool
	// unlogged is set by a benchmark: changes of keys do not go into the key log.
	unlogged bool
}

// WireTypes returns what crosses between the nodes of a cluster when one asks the actors of
// another.
func WireTypes() *wire.Types {
	t := wire.NewTypes()
	t.AddError("journal.ErrErased", journal.ErrErased)
	t.Add(AskTypes()...)
	return t
}

// New returns a node. It serves requests after Start.
func New(o Options) *Node {
	c := &core{
		engine: host.New(o.Journal, o.Clock, o.Logger, o.system), journal: o.Journal, clock: o.Clock, entropy: o.Entropy,
		queries: query.New(query.Options{Journal: o.Journal, Clock: o.Clock, RecordBytes: o.PageBytes, Render: o.Render}),
		newKey:  o.NewKey, destroyKey: o.DestroyKey, logger: o.Logger, elsewhere: o.Elsewhere,
		seats: o.SeatLimit, queue: group.Queue{Group: parley.JoinRequestsMax, Org: parley.JoinRequestsPerOrg},
	}
	c.memory.Store(&leaderMemory{})
	c.engine.Router, c.engine.Meter = o.Router, meter{c}
	c.agents, c.orgs = &Agents{c.queries.Agents, c}, &Orgs{c.queries.Orgs, c}
	c.messages, c.groups = &Messages{c.queries.Messages, c}, &Groups{c.queries.Groups, c}
	c.erasures = newErasures(c)
	c.operators = &Operators{c}
	keys := &Keys{rules.SigningKeyStream, c}
	c.webhooks, c.receipts = delivery.New(delivery.Options{
		Engine: c.engine, Journal: o.Journal, Clock: o.Clock, Entropy: o.Entropy, Queries: c.queries, Logger: o.Logger,
		Courier: o.Courier, Load: o.Load,
	})
	host.Register(c.engine, c.orgs.kind())
	host.Register(c.engine, c.agents.kind())
	host.Register(c.engine, c.messages.kind())
	host.Register(c.engine, c.operators.kind())
	host.Register(c.engine, keys.kind())
	host.Register(c.engine, c.groups.kind())
	log := &KeyLog{c}
	host.Register(c.engine, log.kind())
	return &Node{
		Agents: c.agents, Orgs: c.orgs, Messages: c.messages, Feeds: c.queries.Feeds, Groups: c.groups,
		Webhooks: c.webhooks, Receipts: c.receipts, Erasures: c.erasures, Keys: keys, CardKeys: &Keys{rules.CardKeyStream, c}, ReceiptKeys: &Keys{rules.ReceiptKeyStream, c},
		LogKeys: &Keys{rules.LogKeyStream, c}, KeyLog: log, Operators: c.operators, core: c,
	}
}

// Start begins to serve requests and continues unfinished work.
func (n *Node) Start() error {
	if err := n.StartFollowing(); err != nil {
		return err
	}
	n.Erasures.Lead()
	return n.webhooks.Start()
}

// StartFollowing begins to serve requests on a node of a cluster, which need not lead.
func (n *Node) StartFollowing() error { return n.engine.Start() }

// Lead continues unfinished work, which the node of a cluster does that leads. It returns before
// all webhooks are known, and calls failed if they cannot be read.
func (n *Node) Lead(failed func(error)) {
	n.Erasures.Lead()
	n.webhooks.StartSoon(failed)
}

// StopLeading ends what Lead began, drops all actors and forgets what the term remembered:
// another node of the cluster leads. The journal must not take entries any more.
func (n *Node) StopLeading() {
	n.webhooks.Stop()
	n.engine.DropAll()
	n.memory.Store(&leaderMemory{after: n.journal.NextActivation()})
	n.Erasures.Interrupt()
}

// Forget drops from memory what belongs to an organization whose key another node destroyed,
// and ends its streams.
func (n *Node) Forget(id parley.OrgID) error {
	var agents []parley.AgentID
	v := n.journal.View()
	defer v.Close()
	err := v.Rows(id.Slot(), journal.RosterTable, id[:], nil, false, func(_, value []byte) bool {
		agents = append(agents, parley.IDFromBytes[parley.AgentID](value))
		return true
	})
	erasureHost{n.core}.Forget(id, agents)
	return err
}

// Fence returns once this node shows everything that any node of its cluster had
// acknowledged when the call began.
func (n *Node) Fence(ctx context.Context) error { return n.journal.Fence(ctx) }

// Decide has an actor of this node answer a request that came from another node.
func (n *Node) Decide(r host.Request) (any, error) { return n.engine.Decide(r) }

// OnErased has fn called when an organization's key was destroyed, and once more when its
// erasure is complete: what is in memory of it must go, and its streams must end.
func (n *Node) OnErased(fn func(parley.OrgID)) { n.erased.Store(&fn) }

// Close stops serving requests and drops all actors. The journal still completes the
// entries that they appended.
func (n *Node) Close() {
	n.Erasures.Close()
	n.receipts.Close()
	n.webhooks.Close()
	n.engine.Close()
}

// Live returns how many actors are in memory.
func (n *Node) Live() int { return n.engine.Stats().Live }

// Trouble returns why the journal accepts no writes, nil if it does.
func (n *Node) Trouble() *parley.Refusal { return n.journal.Trouble() }

// Overloaded returns the refusal that a write request would get now, nil if it would be
// admitted.
func (n *Node) Overloaded() *parley.Refusal { return n.journal.Overloaded() }

// Damage returns the file of the journal that was found damaged, "" if none was.
func (n *Node) Damage() string { return n.journal.Damage() }
