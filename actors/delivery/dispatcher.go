package delivery

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// gatherFor is the pause between rounds, so that feed entries that arrive in quick
// succession become jobs in one turn.
const gatherFor = 2 * time.Millisecond

// dispatcher knows which agents have webhooks, wakes these when there is something new
// for them, hands attempts to the courier and returns outcomes. Everything it knows can
// be read from the journal again.
type dispatcher struct {
	hooks    *Webhooks
	registry registry
	parking  parking

	mu       sync.Mutex
	queued   map[parley.AnyID]struct{}
	queue    []waiter // the agents in queued, longest waiting first
	throttle throttle
	// granted holds the webhooks that were woken within the throttle's budget: they may
	// begin attempts even if the throttle is limiting when their turn comes.
	granted map[webhook.ID]struct{}
	// leases are the first ones that this process may have given since it began to deliver.
	leases   map[webhook.ID]uint64
	out      []Delivery
	outcomes map[webhook.ID][]webhook.Outcome
	// reported holds the webhooks with new outcomes. They are woken without throttling,
	// because a crash would repeat their deliveries.
	reported map[webhook.ID]struct{}
	// activation is a number of the term in which it delivers.
	activation uint64
	// unwatch stops watching conversations.
	unwatch func()

	signal   chan struct{}
	stop     chan struct{}
	running  sync.WaitGroup
	attempts attemptCounts
}

// waiter is an agent whose webhooks have something to do.
type waiter struct {
	agent parley.AnyID
	since time.Time
}

func newDispatcher(hooks *Webhooks, demand Load) *dispatcher {
	d := &dispatcher{
		hooks: hooks, queued: map[parley.AnyID]struct{}{}, leases: map[webhook.ID]uint64{},
		outcomes: map[webhook.ID][]webhook.Outcome{}, reported: map[webhook.ID]struct{}{}, granted: map[webhook.ID]struct{}{}, throttle: throttle{load: demand}, signal: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	d.registry = registry{journal: hooks.journal, look: d.look, agents: map[parley.AnyID]*watchedAgent{}}
	d.parking.agents = map[parley.OrgID]map[parley.AnyID]struct{}{}
	return d
}

// lookAll has all webhooks check for work.
func (d *dispatcher) lookAll() {
	d.mu.Lock()
	for _, agent := range d.registry.all() {
		d.enqueue(agent)
	}
	d.mu.Unlock()
	d.wake()
}

// set records a webhook's current filter, or removes a deleted webhook. One that is not active
// begins no more attempts.
func (d *dispatcher) set(s *webhook.State) {
	w := record.EventFilterOf(s)
	if s.Deleted() {
		w = record.EventFilter{}
	}
	d.setFilter(s.Source(), s.WebhookID(), w)
	if w.Active {
		d.look(s.Source())
	} else {
		d.hooks.Courier.Drop(s.WebhookID())
	}
}

// setFilter records what a webhook wants; nothing of a deleted one is kept.
func (d *dispatcher) setFilter(agent parley.AnyID, id webhook.ID, w record.EventFilter) {
	d.registry.set(agent, id, w)
	if w != (record.EventFilter{}) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.granted, id)
	delete(d.reported, id)
	delete(d.leases, id)
	delete(d.outcomes, id)
}

// changed has the configurations of push notifications of a conversation check for work.
func (d *dispatcher) changed(id parley.ConversationID) {
	if d.registry.tasks.Load() > 0 && d.registry.has(parley.AnyID(id)) {
		d.look(parley.AnyID(id))
	}
}

// look has an agent's webhooks check for work.
func (d *dispatcher) look(agent parley.AnyID) {
	d.mu.Lock()
	d.enqueue(agent)
	d.mu.Unlock()
	d.wake()
}

// enqueue queues an agent whose webhooks have work. An agent that is queued keeps its
// place. The caller holds mu.
func (d *dispatcher) enqueue(agent parley.AnyID) {
	if _, waits := d.queued[agent]; waits {
		return
	}
	d.queued[agent] = struct{}{}
	d.queue = append(d.queue, waiter{agent, d.hooks.clock()})
}

// send queues attempts for the courier.
func (d *dispatcher) send(out []Delivery) {
	d.mu.Lock()
	d.out = append(d.out, out...)
	d.throttle.began(len(out))
	d.mu.Unlock()
	d.wake()
}

// report stores the outcome of an attempt for its webhook and wakes it. An attempt of a former
// term reports to nobody: its lease has expired.
func (d *dispatcher) report(agent parley.AnyID, id webhook.ID, o webhook.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.registry.filter(agent, id) == (record.EventFilter{}) {
		return // the webhook was deleted, or the term is over
	}
	d.outcomes[id] = append(d.outcomes[id], o)
	d.reported[id] = struct{}{}
	d.wake()
}

// mayLease reports whether a webhook was woken because there may be something new for
// it, and whether it may begin attempts now or is throttled.
func (d *dispatcher) mayLease(id webhook.ID) (granted, begins bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, granted = d.granted[id]
	delete(d.granted, id)
	return granted, granted || !d.throttle.limited
}

// take removes and returns the outcomes that were reported to a webhook.
func (d *dispatcher) take(id webhook.ID) []webhook.Outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.outcomes[id]
	delete(d.outcomes, id)
	return all
}

func (d *dispatcher) wake() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

func (d *dispatcher) run() {
	for {
		select {
		case <-d.stop:
			return
		case <-d.signal:
		}
		out, streams, left := d.round()
		for i := range out {
			d.dispatch(&out[i])
		}
		for _, s := range streams {
			d.hooks.engine.Wake(s)
		}
		switch {
		case left:
			time.Sleep(ThrottleRound)
			d.wake()
		case len(streams) > 0:
			time.Sleep(gatherFor)
		}
	}
}

// round returns the attempts to send and the webhooks to wake, and whether other
// webhooks are throttled.
func (d *dispatcher) round() (out []Delivery, streams []journal.Stream, left bool) {
	now := d.hooks.clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	out, d.out = d.out, nil
	d.throttle.update(now)
	for id := range d.reported {
		streams = append(streams, rules.WebhookStream(id))
	}
	clear(d.reported)
	late := 0
	for late < len(d.queue) && now.Sub(d.queue[late].since) >= ThrottlePatience {
		late++
	}
	turn := max(late, d.throttle.wake(len(d.queue)))
	for _, w := range d.queue[:turn] {
		delete(d.queued, w.agent)
		for _, id := range d.registry.of(w.agent) {
			streams = append(streams, rules.WebhookStream(id))
			d.granted[id] = struct{}{}
		}
	}
	if d.queue = d.queue[turn:]; len(d.queue) == 0 {
		d.queue = nil
	}
	return out, streams, len(d.queue) > 0
}

// attemptCounts count attempts by outcome: unsent, delivered, dead, failed.
type attemptCounts [4]atomic.Uint64

// count counts the outcomes of attempts.
func (c *attemptCounts) count(results []*webhook.Result) {
	for _, r := range results {
		switch {
		case r.Unsent:
			c[0].Add(1)
		case r.Status == webhook.Delivered:
			c[1].Add(1)
		case r.Status == webhook.Dead:
			c[2].Add(1)
		default:
			c[3].Add(1)
		}
	}
}

func (c *attemptCounts) stats() Stats {
	return Stats{Unsent: c[0].Load(), Delivered: c[1].Load(), Dead: c[2].Load(), Failed: c[3].Load()}
}

// Stats are numbers of the deliveries: the outcomes of attempts since the start, how
// many agents have webhooks, and how many of these wait to be woken. SteppingBack is
// set while deliveries are throttled.
type Stats struct {
	Unsent, Delivered, Dead, Failed uint64
	Agents, Waiting                 int
	SteppingBack                    bool
	// Paused is how many suspended organizations have webhooks that wait.
	Paused int
}

// Stats returns the current numbers.
func (hooks *Webhooks) Stats() Stats {
	d := hooks.dispatch()
	s := d.attempts.stats()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Agents, s.Waiting, s.SteppingBack, s.Paused = d.registry.size(), len(d.queue), d.throttle.limited, d.parking.orgs()
	return s
}

// SetLoad replaces Options.Load. Only tests need it.
func (hooks *Webhooks) SetLoad(demand Load) {
	hooks.dispatch().mu.Lock()
	defer hooks.dispatch().mu.Unlock()
	hooks.dispatch().throttle.load = demand
}
