package actors

import (
	"context"
	"log/slog"
	"time"

	"parley"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/journal"
)

// Options of a Node. Journal, Clock, Entropy and Logger are required.
type Options struct {
	Journal journal.Journal
	Clock   parley.Clock
	Entropy parley.Entropy
	Logger  *slog.Logger
	// PageBytes bounds the messages that are kept at hand because pages showed
	// them; 0 keeps none.
	PageBytes int64
	// SeatLimit is how many members a group of an owner may have; nil, or an answer
	// of nil, is no limit.
	SeatLimit func(owner *org.State) *int
	// Courier carries deliveries of webhooks; nil carries none.
	Courier Courier
	// Demand, if set, is what deliveries of webhooks step back for.
	Demand Demand
	// system is the actor system to live in; nil is one of its own, which is
	// what costs most in making a node.
	system *host.System
}

// Node runs the actors over one journal set and is what doors talk to. Its
// methods may be called from any goroutine; errors are parley.Refusals, or
// defects that a caller is told nothing of.
type Node struct {
	engine  *host.Engine
	journal journal.Journal
	clock   parley.Clock
	entropy parley.Entropy
	facts   *facts
	shown   *shown
	marker  *marker
	counts  *pollIndex
	quota   dayQuota
	seats   func(owner *org.State) *int
	// began is when the process did: attempts of webhooks that are older are
	// nobody's.
	began    time.Time
	courier  Courier
	dispatch *dispatcher
	// transferredStep is how much a journal has to grow before it is noted anew how
	// far an agent of it has been carried everything.
	transferredStep uint64
	// waitRows is how many entries of a feed one look for messages passes by.
	waitRows int
	// queue bounds the join requests of groups.
	queue group.Queue
	// suspends is (*org.State).Suspended, unless a test has another.
	suspends func(*org.State) bool
	// companyRows is how many events of a conversation one look for those who share
	// rows of it passes by.
	companyRows int
	// kidsMove, which only a test sets: the latest agent that has a key, not the
	// first, is found by its thumbprint.
	kidsMove bool
	// forgetsRosters, which only a test sets: each request looks at all agents that
	// an organization ever had.
	forgetsRosters bool
	// ackStep is how many marks of one request are on their way at once.
	ackStep int
}

// New makes a node. Start brings it to life.
func New(o Options) *Node {
	n := &Node{
		engine: host.New(o.Journal, o.Clock, o.Logger, o.system), journal: o.Journal,
		clock: o.Clock, entropy: o.Entropy, facts: newFacts(o.Journal),
		shown: newShown(o.PageBytes), counts: newPollIndex(), seats: o.SeatLimit, transferredStep: transferredStep, waitRows: waitRows, companyRows: companyRows, queue: group.Queue{Group: parley.JoinRequestsMax, Org: parley.JoinRequestsPerOrg}, ackStep: ackStep,
		suspends: (*org.State).Suspended,
	}
	n.began, n.courier, n.dispatch = o.Clock(), o.Courier, newDispatcher(n, o.Demand)
	if n.courier == nil {
		n.courier = noCourier{}
	}
	n.marker = newMarker(n, o.Logger)
	host.Register(n.engine, n.registrationKind())
	host.Register(n.engine, n.orgKind())
	host.Register(n.engine, n.agentKind())
	host.Register(n.engine, n.conversationKind())
	host.Register(n.engine, n.issuerKind())
	host.Register(n.engine, n.groupKind())
	host.Register(n.engine, n.webhookKind())
	return n
}

// Start begins to handle what was left to do and to take requests.
func (n *Node) Start() error {
	if err := n.engine.Start(); err != nil {
		return err
	}
	return n.dispatch.start()
}

// Close takes no more requests and lets the actors go. What they have said is
// the journal's to finish.
func (n *Node) Close() {
	n.marker.close()
	n.dispatch.close()
	n.engine.Close()
}

// Live is the number of actors in memory.
func (n *Node) Live() int { return n.engine.Stats().Live }

// Trouble is why the journal takes no writes, nil if it does.
func (n *Node) Trouble() *parley.Refusal { return n.journal.Trouble() }

// Overloaded is why a request that writes would be refused just now, nil if it
// would not: it need not be read.
func (n *Node) Overloaded() *parley.Refusal { return n.journal.Overloaded() }

// Damage is the file of the journal in which rot was met, empty if none was.
func (n *Node) Damage() string { return n.journal.Damage() }

// view runs a read and answers only when all that it saw is durable.
func (n *Node) view(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, n.journal.View(), read)
}

// row is view for a read of one row.
func (n *Node) row(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, n.journal.Latest(), read)
}
