// Package scenario defines what one operation of each scenario is, how its answers are
// checked, and which messages were acknowledged.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/target"
)

// Names of the scenarios.
const (
	// Send is a direct message from one of a few senders to one of many agents.
	Send = "send"
	// Reply is a round trip through the event streams of both agents.
	Reply = "reply"
	// Sync is a request that waits for the other agent's answer.
	Sync = "sync"
	// Inbox is the newest page of an agent that has messages.
	Inbox = "inbox"
	// Deep is the first and the deepest page of one long inbox, in turn.
	Deep = "deep"
	// Mixed is 70 % send, 15 % inbox, 10 % reply, 5 % reading one message.
	Mixed = "mixed"
	// Hot is many callers that reply in one conversation, Cold the same in ten thousand
	// conversations.
	Hot  = "hot"
	Cold = "cold"
	// Stream opens idle streams, sends one event to all of them, and closes them. It is
	// not a load but a separate measurement: see Host.Streams.
	Stream = "stream"
	// Idle is a server without requests; the runner measures it alone.
	Idle = "idle"
	// Overload is Send over thousands of connections, at and beyond capacity. It has
	// its own load generator: see Host.Press.
	Overload = "overload"
	// Fanout is broadcasts to one large group. It measures more than operations: see
	// Host.Fanout.
	Fanout = "fanout"
	// Votes is members of one very large group that vote on its join requests.
	Votes = "votes"
	// HotGroup is Votes with joins and departures among them.
	HotGroup = "hotgroup"
	// Poll requests how many messages have arrived for an agent that has very many.
	Poll = "poll"
	// Webhook sends to agents without and with a webhook. It measures more than
	// operations: see Host.Webhook.
	Webhook = "webhook"
	// Quota is Send on two servers in turn, without and with quotas and rates; the
	// runner measures it alone. See Host.CheckTerms.
	Quota = "quota"
	// Directory searches a directory of many cards. It measures more than operations: see
	// Host.Directory.
	Directory = "directory"
	// A2A calls agents over the A2A bridge, in turn with Sync, and subscribes to many
	// tasks. It measures more than operations: see Host.A2A and Host.Subscribe.
	A2A = "a2a"
	// Failover is Send on several nodes, of which the one that leads is killed again and
	// again; the runner measures it alone. See Host.PrepareFailover.
	Failover = "failover"
)

// Names lists all scenarios in the order in which they are run. Deep needs a depth. Hot
// and the scenarios after it are run only if they are named.
func Names() []string {
	return []string{Send, Reply, Sync, Inbox, Deep, Stream, Mixed, Hot, Cold, Idle, Overload, Fanout, Votes, HotGroup, Poll, Webhook, Quota, Directory, A2A, Failover}
}

// Params are the parameters of the scenarios.
type Params struct {
	// Seed makes the payloads and choices of this bench repeatable and different from
	// those of others.
	Seed uint64
	// Payload is the length of encrypted_payload.
	Payload int
	// Agents is the number of recipients, Senders the number of agents that send to
	// them.
	Agents, Senders int
	// Depth is the page that Deep compares with the first.
	Depth int
	// Streams is how many streams Stream opens.
	Streams int
	// Connections is how many connections Overload opens.
	Connections int
	// Members is how many agents get a copy of each broadcast of Fanout, Electors how
	// many may vote in Votes; 0 stands for 1,000 and 10,000.
	Members, Electors int
	// Polled is how many messages the polled agent of Poll has, Hooks how many agents
	// have a webhook in Webhook; 0 stands for 1,000,000 and 1,000.
	Polled, Hooks int
	// Cards is how many cards Directory publishes; 0 stands for 100,000.
	Cards int
	// Subscriptions is how many streams of tasks A2A opens; 0 stands for 5,000.
	Subscriptions int
	// Tier is the trust tier that the operator sets for the organizations of the bench;
	// 0 leaves it unchanged.
	Tier int
	// Keep records all acknowledged messages, for Verify.
	Keep bool
	// Sample keeps one of this many acknowledged messages instead, for VerifySample; 0
	// keeps none.
	Sample int
	// Note is called before long steps, such as the filling of inboxes; it may be nil.
	Note func(string)
}

// keep returns how many acknowledged messages there are per message that is kept.
func (p Params) keep() int {
	if p.Keep {
		return 1
	}
	return p.Sample
}

// Check rejects parameters that cannot be run.
func (p Params) Check() error {
	switch {
	case p.Payload < PayloadMin || p.Payload > 131072:
		return fmt.Errorf("a payload of %d characters is not between %d and 131072", p.Payload, PayloadMin)
	case p.Agents < 1 || p.Agents >= 10_000_000:
		return fmt.Errorf("%d agents are not between 1 and 9999999", p.Agents)
	case p.Senders < 1 || p.Senders > 10_000:
		return fmt.Errorf("%d senders are not between 1 and 10000", p.Senders)
	case p.Depth < 0 || p.Streams < 0 || p.Connections < 0:
		return fmt.Errorf("neither depth nor streams nor connections may be negative")
	case p.Members < 0 || p.Members > groupMost || p.Electors > groupMost:
		return fmt.Errorf("%d members and %d electors are not between 1 and %d", p.Members, p.Electors, groupMost)
	case p.Polled < 0 || p.Hooks < 0 || p.Hooks >= 1_000_000:
		return fmt.Errorf("%d messages polled or %d webhooks are too few or too many", p.Polled, p.Hooks)
	case p.Cards < 0 || p.Cards > 0 && p.Cards < cardsLeast || p.Cards > cardsMost:
		return fmt.Errorf("%d cards are not between %d and %d", p.Cards, cardsLeast, cardsMost)
	case p.Subscriptions < 0 || p.Subscriptions > subscriptionsMax:
		return fmt.Errorf("%d subscriptions are not between 0 and %d", p.Subscriptions, subscriptionsMax)
	case p.Electors != 0 && p.Electors < electorsLeast:
		return fmt.Errorf("%d electors settle whatever they vote on: at least %d are needed", p.Electors, electorsLeast)
	}
	return nil
}

// Host is a target that is prepared for scenarios: on Parley, two organizations with
// their agents. One goroutine uses it; the clients it creates run concurrently.
type Host struct {
	name         string
	door         target.Door
	params       Params
	payloads     *payloads
	acknowledged acknowledgedLog
	run          uint16
	world        *world // nil unless the target is Parley
	filled       int    // messages that every worker has at least
	long         *longInbox
	openings     []opening // conversations of the first planner
	unborn       []*agent  // workers that are being created
	lengthy      atomic.Int64
	largeGroup   *assembly     // the group that Fanout broadcasts to
	speakers     []*agent      // the agents that broadcast
	patience     time.Duration // for copies that do not arrive
	house        *house        // the group of Votes
	polled       *polled       // the polled mailbox
	hooks        *hooks        // the agents of Webhook
	index        *cardIndex    // the cards of Directory
	bridge       bridge        // the agents of A2A
	subscribing  [][2]*agent   // an agent that begins tasks, and the one that answers them
	erased       *erased       // the organization of Erase
	// newsPatience bounds the wait for deliveries that do not arrive.
	newsPatience time.Duration
	// foundWithin bounds the wait for a published card, cardPatience that for all cards.
	foundWithin, cardPatience time.Duration
}

// NewHost prepares a target.
func NewHost(ctx context.Context, name string, door target.Door, params Params) (*Host, error) {
	if err := params.Check(); err != nil {
		return nil, err
	}
	h := &Host{name: name, door: door, params: params, payloads: newPayloads(params.Seed, params.Payload), patience: landingPatience, newsPatience: newsPatience, foundWithin: foundWithin, cardPatience: cardPatience}
	if door.Kind != target.Parley {
		return h, nil
	}
	var err error
	if h.world, err = newWorld(ctx, door, params); err != nil {
		return nil, fmt.Errorf("%s cannot be made ready: %w", name, err)
	}
	return h, nil
}

// Name returns the target's name.
func (h *Host) Name() string { return h.name }

// Door returns the target's addresses and tokens.
func (h *Host) Door() target.Door { return h.door }

// Reopen sets the addresses of a restarted target.
func (h *Host) Reopen(door target.Door) {
	h.door = door
	if h.world != nil {
		h.world.close()
	}
}

// Can reports whether the target supports a scenario.
func (h *Host) Can(name string) bool {
	if h.world != nil {
		return slices.Contains(Names(), name)
	}
	return name == Send || name == Inbox
}

// Prepare prepares a scenario for its clients and returns the Dial that connects them.
// Each preparation gets new tokens. They live for a quarter of an hour, which bounds a
// run.
func (h *Host) Prepare(ctx context.Context, name string, clients int) (load.Dial, error) {
	if !h.Can(name) {
		return nil, fmt.Errorf("%s does not take part in %s", h.name, name)
	}
	if clients < 1 || clients >= workersMax {
		return nil, fmt.Errorf("%d clients are not between 1 and %d", clients, workersMax-1)
	}
	if h.world != nil {
		if err := h.world.freshTokens(ctx); err != nil {
			return nil, fmt.Errorf("%s gives no tokens: %w", h.name, err)
		}
	}
	switch name {
	case Send:
		return h.prepareSend()
	case Inbox:
		return h.prepareInbox(ctx)
	case Deep:
		return h.prepareDeep(ctx)
	case Reply:
		return h.prepareReply(ctx, clients)
	case Sync:
		return h.prepareSync(ctx, clients)
	case Mixed:
		return h.prepareMixed(ctx)
	case Hot:
		return h.prepareTalk(ctx, 1)
	case Cold:
		return h.prepareTalk(ctx, coldConversations)
	case Votes, HotGroup:
		return h.prepareVotes(ctx, clients, name == HotGroup)
	case Poll:
		return h.preparePoll(ctx)
	case A2A:
		return h.prepareA2A(ctx, clients)
	}
	return nil, fmt.Errorf("%s is not a load; known are: %s", name, strings.Join(Names(), ", "))
}

// Settle ends a run: it collects the answers that its clients received. An id that was
// given to two messages counts as a failure of the run, not as an operation.
func (h *Host) Settle(run *result.Run) {
	twice := h.acknowledged.settle(h.params.keep())
	if twice == 0 {
		return
	}
	run.Failures += twice
	run.Operations = max(0, run.Operations-twice)
	if run.Seconds > 0 {
		run.PerSecond = float64(run.Operations) / run.Seconds
	}
	if run.Reasons == nil {
		run.Reasons = map[string]int64{}
	}
	run.Reasons["wrong answer: an id that another message has"] += twice
}

// Stored returns how many messages were acknowledged in total.
func (h *Host) Stored() int64 { return h.acknowledged.count }

// Acknowledged returns how many acknowledged messages are recorded, including all copies
// of broadcasts.
func (h *Host) Acknowledged() int {
	n := len(h.acknowledged.entries)
	for _, c := range h.acknowledged.casts {
		n += c.group.recipients()
	}
	return n
}

// nextRun returns a number for a run with its own keys.
func (h *Host) nextRun() uint16 {
	h.run++
	return h.run
}

func (h *Host) note(format string, args ...any) {
	if h.params.Note != nil {
		h.params.Note(h.name + ": " + fmt.Sprintf(format, args...))
	}
}
