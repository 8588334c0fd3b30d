package delivery

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// registry knows which webhooks exist and what they want, and watches the feeds of agents that
// have active ones.
type registry struct {
	journal journal.Journal
	// look is called when the feed of an agent has grown.
	look func(agent parley.AnyID)
	// knowing serializes changes of which feeds are watched. A notification holds locks
	// of the journal, so mu is never held while the journal is called.
	knowing sync.Mutex
	// touched are those that changed while they were read; nil before and after. knowing guards it.
	touched map[webhook.ID]struct{}
	// known says that agents has all webhooks.
	known atomic.Bool
	// tasks is how many configurations of push notifications there are.
	tasks atomic.Int64

	mu sync.Mutex
	// agents are keyed by what their webhooks follow: the agent, or a task.
	agents map[parley.AnyID]*watchedAgent
	wanted [32]int // active webhooks per event that they subscribe to
	closed bool
}

// watchedAgent is an agent with webhooks. Its feed is watched while one of them is
// active.
type watchedAgent struct {
	filters map[webhook.ID]record.EventFilter
	stop    func()
}

// set records what a webhook wants; the zero value removes it.
func (r *registry) set(agent parley.AnyID, id webhook.ID, w record.EventFilter) {
	r.knowing.Lock()
	defer r.knowing.Unlock()
	r.touch(id)
	r.setKnown(agent, id, w)
}

// setKnown is set for callers that hold knowing.
func (r *registry) setKnown(agent parley.AnyID, id webhook.ID, w record.EventFilter) {
	watch, stop := r.replace(agent, id, w)
	switch {
	case watch:
		stop := r.journal.Watch(parley.AgentID(agent), func() { r.look(agent) })
		r.mu.Lock()
		r.agents[agent].stop = stop
		r.mu.Unlock()
	case stop != nil:
		stop()
	}
}

// replace is set without watching. It reports whether the agent's feed must
// be watched from now on, or returns the function that stops watching.
func (r *registry) replace(agent parley.AnyID, id webhook.ID, w record.EventFilter) (watch bool, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[agent]
	if a == nil {
		a = &watchedAgent{filters: map[webhook.ID]record.EventFilter{}}
		r.agents[agent] = a
	}
	r.countWanted(a.filters[id], -1)
	r.countWanted(w, 1)
	if was := a.filters[id]; was.Task.Zero() != w.Task.Zero() {
		if w.Task.Zero() {
			r.tasks.Add(-1)
		} else {
			r.tasks.Add(1)
		}
	}
	a.filters[id] = w
	if w == (record.EventFilter{}) {
		delete(a.filters, id)
	}
	active := false // has active webhooks, which the feed is watched for
	for _, w := range a.filters {
		active = active || w.Active && w.Task.Zero()
	}
	if !active {
		stop, a.stop = a.stop, nil
	}
	if len(a.filters) == 0 {
		delete(r.agents, agent)
	}
	return active && a.stop == nil && !r.closed, stop
}

// countWanted adds by to the count of each event that an active webhook subscribes to.
func (r *registry) countWanted(w record.EventFilter, by int) {
	for x := range r.wanted {
		if w.Active && w.Events&(1<<x) != 0 {
			r.wanted[x] += by
		}
	}
}

// anybodyWants reports whether any active webhook subscribes to an event, or may.
func (r *registry) anybodyWants(x webhook.What) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted[x] > 0 || !r.known.Load()
}

// wants reports whether an active webhook of an agent subscribes to an event.
func (r *registry) wants(agent parley.AnyID, x webhook.What) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted[x] == 0 || r.agents[agent] == nil {
		return false
	}
	for _, w := range r.agents[agent].filters {
		if w.Active && w.Events&(1<<x) != 0 {
			return true
		}
	}
	return false
}

// has reports whether an agent has webhooks, active or not.
func (r *registry) has(agent parley.AnyID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[agent] != nil
}

// filter returns what a webhook wants; the zero value if it was deleted, or the registry closed.
func (r *registry) filter(agent parley.AnyID, id webhook.ID) (w record.EventFilter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.agents[agent]; a != nil && !r.closed {
		w = a.filters[id]
	}
	return w
}

// of returns the webhooks of an agent.
func (r *registry) of(agent parley.AnyID) (ids []webhook.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.agents[agent]; a != nil {
		ids = slices.Collect(maps.Keys(a.filters))
	}
	return ids
}

// all returns the agents and tasks that have webhooks.
func (r *registry) all() []parley.AnyID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.agents))
}

// size returns how many agents and tasks have webhooks.
func (r *registry) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.agents)
}

// beginReading begins, and endReading ends, the time in which all webhooks are read with add.
func (r *registry) beginReading() {
	r.knowing.Lock()
	defer r.knowing.Unlock()
	r.touched = map[webhook.ID]struct{}{}
}

func (r *registry) endReading() {
	r.knowing.Lock()
	defer r.knowing.Unlock()
	r.touched = nil
	r.known.Store(true)
}

// add adds a webhook as its row has it, unless that has changed since. It returns false when the
// registry is closed.
func (r *registry) add(source parley.AnyID, id webhook.ID, w record.EventFilter) bool {
	r.knowing.Lock()
	defer r.knowing.Unlock()
	if _, newer := r.touched[id]; !newer {
		r.setKnown(source, id, w)
	}
	return !r.isClosed()
}

// touch notes that a webhook has changed. The caller holds knowing.
func (r *registry) touch(id webhook.ID) {
	if r.touched != nil {
		r.touched[id] = struct{}{}
	}
}

// touchAll has none of these webhooks added any more.
func (r *registry) touchAll(all map[webhook.ID]parley.AgentID) {
	r.knowing.Lock()
	defer r.knowing.Unlock()
	for id := range all {
		r.touch(id)
	}
}

func (r *registry) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// close has nothing watched any more. It reports whether it was called before.
func (r *registry) close() (before bool) {
	r.knowing.Lock() // no feed is about to be watched
	defer r.knowing.Unlock()
	r.mu.Lock()
	before, r.closed = r.closed, true
	var stops []func()
	for _, a := range r.agents {
		if a.stop != nil {
			stops = append(stops, a.stop)
		}
	}
	r.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	return before
}
