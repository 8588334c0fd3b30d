// Package scenario defines the scenarios: what one operation of each is, how its answers are
// checked, and which messages were acknowledged.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/a2a"
	"parley/bench/scenario/directory"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

// loads makes a Load a Scenario.
type loads struct {
	host.Load
	set  *Set
	name string
}

// Run implements Scenario.
func (l loads) Run(ctx context.Context, r *host.Round) error {
	dial, err := l.set.Prepare(ctx, l.name, r.Plan.Clients)
	if err != nil {
		return err
	}
	m, err := load.Run(ctx, r.Plan, dial, r.Bench.Begin(ctx))
	if m != nil {
		m.Fill(r.Result)
	}
	return err
}

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
	// Stream opens idle streams, sends one event to all of them, and closes them.
	Stream = "stream"
	// Hot is many callers that reply in one conversation, Cold the same in ten thousand
	// conversations.
	Hot  = "hot"
	Cold = "cold"
	// Idle is a server without requests.
	Idle = "idle"
	// Overload is Send over thousands of connections, at and beyond capacity.
	Overload = "overload"
	// Fanout is broadcasts to one large group.
	Fanout = "fanout"
	// HotGroup is members of one very large group that vote on its join requests, with joins
	// and departures among the votes.
	HotGroup = "hotgroup"
	// Poll requests how many messages have arrived for an agent that has very many.
	Poll = "poll"
	// Webhook sends to agents without and with a webhook.
	Webhook = "webhook"
	// Directory searches a directory of many cards.
	Directory = "directory"
	// A2A calls agents over the A2A bridge, in turn with Sync, and subscribes to many tasks.
	A2A = "a2a"
	// Quota is Send on two servers in turn, without and with quotas and rates.
	Quota = "quota"
	// Failover is Send on several nodes, of which the one that leads is killed again and again.
	Failover = "failover"
	// Erase is the erasure of an organization while others send.
	Erase = "erase"
	// GrowAgents creates agents, and GrowMessages stores messages, up to several sizes in turn.
	// A server is measured at each.
	GrowAgents   = "grow-agents"
	GrowMessages = "grow-messages"
)

// Names lists all scenarios in the order in which they are run.
func Names() (all []string) {
	for _, kind := range kinds {
		all = append(all, kind.name)
	}
	return all
}

// plain are the scenarios that targets other than Parley support.
var plain = []string{Send, Inbox}

// Set is the scenarios on one target.
type Set struct {
	*host.Host
	// scenarios are those that were used so far, by name.
	scenarios map[string]host.Scenario
}

// NewSet prepares a target.
func NewSet(ctx context.Context, name string, endpoint target.Endpoint, params host.Params) (*Set, error) {
	h, err := host.NewHost(ctx, name, endpoint, params)
	if err != nil {
		return nil, err
	}
	return setOf(h), nil
}

func setOf(h *host.Host) *Set { return &Set{h, map[string]host.Scenario{}} }

// Close releases the resources of the scenarios.
func (s *Set) Close() {
	for _, one := range s.scenarios {
		if holds, is := one.(interface{ close() }); is {
			holds.close()
		}
	}
}

// Can reports whether the target supports a scenario.
func (s *Set) Can(name string) bool {
	if s.Deployment == nil {
		return slices.Contains(plain, name)
	}
	return slices.Contains(Names(), name)
}

// Scenario returns a scenario on this target; nil if there is no such scenario.
func (s *Set) Scenario(name string) host.Scenario {
	at := slices.Index(Names(), name)
	if s.scenarios[name] == nil && at >= 0 {
		s.scenarios[name] = kinds[at].of(s)
	}
	return s.scenarios[name]
}

// Prepare prepares the operations of a scenario for its clients and returns the Dial that
// connects them. Each preparation gets new tokens. They live for a quarter of an hour, which
// bounds a run.
func (s *Set) Prepare(ctx context.Context, name string, clients int) (load.Dial, error) {
	if !s.Can(name) {
		return nil, fmt.Errorf("%s does not take part in %s", s.Name(), name)
	}
	operations, is := s.Scenario(name).(host.Load)
	if !is {
		return nil, fmt.Errorf("%s is not a load; scenarios are: %s", name, strings.Join(Names(), ", "))
	}
	if clients < 1 || clients >= host.WorkersMax {
		return nil, fmt.Errorf("%d clients are not between 1 and %d", clients, host.WorkersMax-1)
	}
	if s.Deployment != nil {
		if err := s.FreshTokens(ctx); err != nil {
			return nil, err
		}
	}
	return operations.Prepare(ctx, clients)
}

// kinds are all scenarios, in the order in which they are run. Hot and those after it are run
// only if they are named.
var kinds = []struct {
	name string
	of   func(s *Set) host.Scenario
}{
	{Send, func(s *Set) host.Scenario { return loads{&send{s.Host}, s, Send} }},
	{Reply, func(s *Set) host.Scenario { return loads{&reply{s.Host}, s, Reply} }},
	{Sync, func(s *Set) host.Scenario { return loads{&syncCalls{s.Host}, s, Sync} }},
	{Inbox, func(s *Set) host.Scenario { return loads{&inbox{s.Host}, s, Inbox} }},
	{Stream, func(s *Set) host.Scenario { return &streams{s.Host} }},
	{Hot, func(s *Set) host.Scenario { return loads{&replies{host: s.Host, conversations: 1}, s, Hot} }},
	{Cold, func(s *Set) host.Scenario {
		return loads{&replies{host: s.Host, conversations: coldConversations}, s, Cold}
	}},
	{Idle, func(*Set) host.Scenario { return idle{} }},
	{Overload, func(s *Set) host.Scenario { return &overload{s.Host} }},
	{Fanout, func(s *Set) host.Scenario { return &fanout{host: s.Host, patience: copiesPatience} }},
	{HotGroup, func(s *Set) host.Scenario { return loads{&hotGroup{host: s.Host}, s, HotGroup} }},
	{Poll, func(s *Set) host.Scenario { return &poll{host: s.Host, set: s} }},
	{Webhook, func(s *Set) host.Scenario { return &webhook{host: s.Host, patience: deliveryWait} }},
	{Quota, func(s *Set) host.Scenario { return &quota{s} }},
	{Directory, func(s *Set) host.Scenario { return directory.New(s.Host) }},
	{A2A, func(s *Set) host.Scenario { return a2a.New(s.Host, (&syncCalls{s.Host}).Prepare) }},
	{Failover, func(s *Set) host.Scenario { return &failover{s} }},
	{Erase, func(s *Set) host.Scenario { return &erase{set: s} }},
	{GrowAgents, func(s *Set) host.Scenario { return &growAgents{host: s.Host} }},
	{GrowMessages, func(s *Set) host.Scenario { return &growMessages{set: s} }},
}

// idle is a server without load.
type idle struct{}

// Run implements Scenario.
func (idle) Run(ctx context.Context, r *host.Round) error {
	if _, err := r.Bench.Restart(ctx); err != nil {
		return err
	}
	window := r.Bench.Begin(ctx)
	window.Begin()
	began := time.Now()
	err := host.SleepUntil(ctx, began.Add(min(time.Second, r.Plan.Duration)))
	window.End()
	r.Result.Seconds = time.Since(began).Seconds()
	r.Result.Figures = map[string]float64{"resident_bytes": float64(r.Bench.Meter().Resident())}
	return err
}

// Verify reads back every mailbox of the bench, in pages of a hundred, and compares the
// messages with the acknowledged ones, and votes, seats and deliveries likewise. Of a cluster it
// reads every node, not through the balancer. Params.Keep or Params.Sample should be set, because
// otherwise there is nothing to compare with. Of a sample it reads each message by its id.
func (s *Set) Verify(ctx context.Context) (*result.Verification, error) {
	if s.Deployment == nil {
		return nil, fmt.Errorf("%s gives no inboxes to read back", s.Name())
	}
	v, err := s.verify(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be verified: %w", s.Name(), err)
	}
	return v, nil
}

func (s *Set) verify(ctx context.Context) (*result.Verification, error) {
	s.Log.Settle(s.Params.KeepEvery())
	var undelivered int
	var err error
	hooks := webhookOf(s)
	if hooks != nil { // before the mailboxes are read: that would delay deliveries
		if undelivered, err = hooks.missingDeliveries(ctx); err != nil {
			return nil, err
		}
	}
	if !s.Params.Keep {
		if err := s.FreshTokens(ctx); err != nil {
			return nil, err
		}
		return host.ReadSample(ctx, s.Host)
	}
	v, err := host.ReadMailboxes(ctx, s.Host)
	if err != nil {
		return nil, err
	}
	if erased, _ := s.scenarios[Erase].(*erase); erased != nil && erased.erasure != nil {
		if err := erased.verifyGone(ctx); err != nil {
			return nil, err
		}
	}
	if group := hotGroupOf(s); group != nil {
		if v.Commands, v.CommandsLost, err = group.recount(ctx); err != nil {
			return nil, err
		}
	}
	if hooks != nil {
		c := hooks.sink.summarize()
		v.Deliveries, v.DeliveriesLost, v.DeliveredAgain = int64(c.accepted), int64(undelivered), int64(c.again)
	}
	return v, nil
}

// hotGroupOf returns the group of HotGroup; nil if there is none yet.
func hotGroupOf(s *Set) *hotGroup {
	of, _ := s.scenarios[HotGroup].(loads)
	if group, _ := of.Load.(*hotGroup); group != nil && group.Group != nil {
		return group
	}
	return nil
}

// webhookOf returns the webhooks of Webhook; nil if there are none yet.
func webhookOf(s *Set) *webhook {
	if hooks, _ := s.scenarios[Webhook].(*webhook); hooks != nil && hooks.sink != nil {
		return hooks
	}
	return nil
}

// PrepareMixedLoad prepares the load under which a server is killed: messages; broadcasts,
// votes and joins if there are groups for them; and messages to agents with a webhook if
// there are any.
func PrepareMixedLoad(ctx context.Context, s *Set, clients int) (load.Dial, error) {
	send, err := s.Prepare(ctx, Send, clients)
	if err != nil {
		return nil, err
	}
	commands, notified, group := send, send, hotGroupOf(s)
	if group != nil {
		if commands, err = group.Prepare(ctx, min(clients, len(group.ballots))); err != nil {
			return nil, err
		}
	}
	if hooks := webhookOf(s); hooks != nil {
		hooks.sink.forget()
		notified = hooks.sendingTo(hooks.answering)
	}
	fan, _ := s.scenarios[Fanout].(*fanout)
	run := s.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		switch {
		case worker%4 == 1 && fan != nil && fan.group != nil:
			c, err := newBroadcaster(ctx, s.Host, fan.group, fan.speakers[worker%len(fan.speakers)])
			if err != nil {
				return nil, err
			}
			return &broadcasting{broadcaster: c, key: host.Key{Run: run, Worker: uint32(worker)}}, nil
		case worker%4 == 2 && group != nil && worker < len(group.ballots):
			return commands(ctx, worker)
		case worker%4 == 3:
			return notified(ctx, worker)
		}
		return send(ctx, worker)
	}, nil
}
