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
	hooks *Webhooks
	// knowing serializes changes of which feeds are watched. A notification holds locks
	// of the journal, so mu is never held while the journal is called.
	knowing sync.Mutex

	mu sync.Mutex
	// agents are keyed by what their webhooks follow: the agent, or a task.
	agents   map[parley.AnyID]*watchedAgent
	wanted   [32]int // active webhooks per event that they subscribe to
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
	// parked holds the agents of suspended organizations whose webhooks are paused.
	parked map[parley.OrgID]map[parley.AnyID]struct{}
	closed bool
	// known says that agents has all webhooks.
	known atomic.Bool
	// touched are those that changed while they were read; nil before and after. knowing guards it.
	touched map[webhook.ID]struct{}
	// activation is a number of the term in which it delivers.
	activation uint64
	// tasks is how many configurations of push notifications there are.
	tasks atomic.Int64
	// unwatch stops watching conversations.
	unwatch func()

	signal   chan struct{}
	stop     chan struct{}
	running  sync.WaitGroup
	attempts [4]atomic.Uint64 // by outcome: unsent, delivered, dead, failed
}

// waiter is an agent whose webhooks have something to do.
type waiter struct {
	agent parley.AnyID
	since time.Time
}

// watchedAgent is an agent with webhooks. Its feed is watched while one of them is
// active.
type watchedAgent struct {
	filters map[webhook.ID]record.EventFilter
	stop    func()
}

func newDispatcher(hooks *Webhooks, demand Load) *dispatcher {
	return &dispatcher{
		hooks: hooks, agents: map[parley.AnyID]*watchedAgent{}, queued: map[parley.AnyID]struct{}{}, leases: map[webhook.ID]uint64{},
		outcomes: map[webhook.ID][]webhook.Outcome{}, reported: map[webhook.ID]struct{}{}, granted: map[webhook.ID]struct{}{}, throttle: throttle{load: demand}, parked: map[parley.OrgID]map[parley.AnyID]struct{}{}, signal: make(chan struct{}, 1), stop: make(chan struct{}),
	}
}

// lookAll has all webhooks check for work.
func (d *dispatcher) lookAll() {
	d.mu.Lock()
	for agent := range d.agents {
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

func (d *dispatcher) setFilter(agent parley.AnyID, id webhook.ID, w record.EventFilter) {
	d.knowing.Lock()
	defer d.knowing.Unlock()
	d.touch(id)
	d.setKnown(agent, id, w)
}

// setKnown is setFilter for callers that hold knowing.
func (d *dispatcher) setKnown(agent parley.AnyID, id webhook.ID, w record.EventFilter) {
	watch, stop := d.replaceFilter(agent, id, w)
	switch {
	case watch:
		stop := d.hooks.journal.Watch(parley.AgentID(agent), func() { d.look(agent) })
		d.mu.Lock()
		d.agents[agent].stop = stop
		d.mu.Unlock()
	case stop != nil:
		stop()
	}
}

// replaceFilter is setFilter without watching. It reports whether the agent's feed must
// be watched from now on, or returns the function that stops watching.
func (d *dispatcher) replaceFilter(agent parley.AnyID, id webhook.ID, w record.EventFilter) (watch bool, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.agents[agent]
	if a == nil {
		a = &watchedAgent{filters: map[webhook.ID]record.EventFilter{}}
		d.agents[agent] = a
	}
	d.countWanted(a.filters[id], -1)
	d.countWanted(w, 1)
	if was := a.filters[id]; was.Task.Zero() != w.Task.Zero() {
		if w.Task.Zero() {
			d.tasks.Add(-1)
		} else {
			d.tasks.Add(1)
		}
	}
	a.filters[id] = w
	if w == (record.EventFilter{}) {
		delete(a.filters, id)
		delete(d.granted, id)
		delete(d.reported, id)
		delete(d.leases, id)
	}
	active := false // has active webhooks, which the feed is watched for
	for _, w := range a.filters {
		active = active || w.Active && w.Task.Zero()
	}
	if !active {
		stop, a.stop = a.stop, nil
	}
	if len(a.filters) == 0 {
		delete(d.agents, agent)
	}
	return active && a.stop == nil && !d.closed, stop
}

// countWanted adds by to the count of each event that an active webhook subscribes to.
func (d *dispatcher) countWanted(w record.EventFilter, by int) {
	for x := range d.wanted {
		if w.Active && w.Events&(1<<x) != 0 {
			d.wanted[x] += by
		}
	}
}

// anybodyWants reports whether any active webhook subscribes to an event, or may.
func (d *dispatcher) anybodyWants(x webhook.What) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted[x] > 0 || !d.known.Load()
}

// wants reports whether an active webhook of an agent subscribes to an event.
func (d *dispatcher) wants(agent parley.AnyID, x webhook.What) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted[x] == 0 || d.agents[agent] == nil {
		return false
	}
	for _, w := range d.agents[agent].filters {
		if w.Active && w.Events&(1<<x) != 0 {
			return true
		}
	}
	return false
}

// hasWebhooks reports whether an agent has webhooks, active or not.
func (d *dispatcher) hasWebhooks(agent parley.AnyID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.agents[agent] != nil
}

// park records that an agent's webhooks wait until its organization is resumed. It then
// calls still again, because a resumption before that would have gone unnoticed, and
// returns its result.
func (d *dispatcher) park(owner parley.OrgID, agent parley.AnyID, still func() (bool, error)) (bool, error) {
	d.mu.Lock()
	if d.parked[owner] == nil {
		d.parked[owner] = map[parley.AnyID]struct{}{}
	}
	d.parked[owner][agent] = struct{}{}
	d.mu.Unlock()
	waits, err := still()
	if !waits || err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.parked[owner], agent); len(d.parked[owner]) == 0 {
			delete(d.parked, owner)
		}
	}
	return waits, err
}

// unpark wakes the parked webhooks of an organization.
func (d *dispatcher) unpark(owner parley.OrgID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for agent := range d.parked[owner] {
		d.enqueue(agent)
	}
	if len(d.parked[owner]) > 0 {
		d.wake()
	}
	delete(d.parked, owner)
}

// changed has the configurations of push notifications of a conversation check for work.
func (d *dispatcher) changed(id parley.ConversationID) {
	if d.tasks.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents[parley.AnyID(id)] != nil {
		d.enqueue(parley.AnyID(id))
		d.wake()
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
	if a := d.agents[agent]; a == nil || a.filters[id] == (record.EventFilter{}) || d.closed {
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
		if a := d.agents[w.agent]; a != nil {
			for id := range a.filters {
				streams = append(streams, rules.WebhookStream(id))
				d.granted[id] = struct{}{}
			}
		}
	}
	if d.queue = d.queue[turn:]; len(d.queue) == 0 {
		d.queue = nil
	}
	return out, streams, len(d.queue) > 0
}

// count counts the outcomes of attempts.
func (d *dispatcher) count(results []*webhook.Result) {
	for _, r := range results {
		switch {
		case r.Unsent:
			d.attempts[0].Add(1)
		case r.Status == webhook.Delivered:
			d.attempts[1].Add(1)
		case r.Status == webhook.Dead:
			d.attempts[2].Add(1)
		default:
			d.attempts[3].Add(1)
		}
	}
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
	s := Stats{Unsent: d.attempts[0].Load(), Delivered: d.attempts[1].Load(), Dead: d.attempts[2].Load(), Failed: d.attempts[3].Load()}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Agents, s.Waiting, s.SteppingBack, s.Paused = len(d.agents), len(d.queue), d.throttle.limited, len(d.parked)
	return s
}

// SetLoad replaces Options.Load. Only tests need it.
func (hooks *Webhooks) SetLoad(demand Load) {
	hooks.dispatch().mu.Lock()
	defer hooks.dispatch().mu.Unlock()
	hooks.dispatch().throttle.load = demand
}
