package delivery

import (
	"maps"
	"slices"
	"time"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// lookAtOnce webhooks check for work in each ThrottleRound after the start, 10,000 a second: what
// most of them would find is nothing, and requests need the processors.
const lookAtOnce = 100

// begin starts the dispatcher, which knows no webhook yet.
func (d *dispatcher) begin() {
	d.mu.Lock()
	clear(d.leases)
	d.activation = d.hooks.journal.NextActivation()
	d.mu.Unlock()
	d.knowing.Lock()
	d.touched = map[webhook.ID]struct{}{}
	d.knowing.Unlock()
	d.running.Go(d.run)
}

// learn reads which webhooks exist.
func (d *dispatcher) learn() error {
	v := d.hooks.journal.View()
	defer v.Close()
	err := v.Table(journal.WebhookTable, func(key, value []byte) bool {
		w := record.DecodeEventFilter(value)
		source := parley.AnyID(w.Task)
		if source.Zero() {
			source = parley.IDFromBytes[parley.AnyID](key[:16])
		}
		return d.add(source, parley.IDFromBytes[webhook.ID](key[16:]), w)
	})
	if err != nil {
		return err
	}
	d.knowing.Lock()
	d.touched = nil
	d.known.Store(true)
	d.knowing.Unlock()
	unwatch := d.hooks.queries.Feeds.WatchConversations(d.changed, d.lookAll)
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.unwatch = unwatch
	}
	d.mu.Unlock()
	if closed {
		unwatch()
	}
	return nil
}

// add adds a webhook as its row has it, unless that has changed since. It returns false when the
// dispatcher is closed.
func (d *dispatcher) add(source parley.AnyID, id webhook.ID, w record.EventFilter) bool {
	d.knowing.Lock()
	defer d.knowing.Unlock()
	if _, newer := d.touched[id]; !newer {
		d.setKnown(source, id, w)
	}
	return !d.isClosed()
}

// touch notes that a webhook has changed. The caller holds knowing.
func (d *dispatcher) touch(id webhook.ID) {
	if d.touched != nil {
		d.touched[id] = struct{}{}
	}
}

// touchAll has none of these webhooks added any more.
func (d *dispatcher) touchAll(all map[webhook.ID]parley.AgentID) {
	d.knowing.Lock()
	defer d.knowing.Unlock()
	for id := range all {
		d.touch(id)
	}
}

func (d *dispatcher) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// lookAround has all webhooks check for work, some at a time.
func (d *dispatcher) lookAround() {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.agents))
	d.mu.Unlock()
	for some := range slices.Chunk(all, lookAtOnce) {
		d.mu.Lock()
		for _, agent := range some {
			d.enqueue(agent)
		}
		d.mu.Unlock()
		d.wake()
		select {
		case <-time.After(ThrottleRound):
		case <-d.stop:
			return
		}
	}
}

// close stops the dispatcher. Outcomes of attempts in progress are lost; their leases
// expire.
func (d *dispatcher) close() {
	closed, stops := d.shut()
	if closed {
		return
	}
	for _, stop := range stops {
		stop()
	}
	close(d.stop)
	d.running.Wait()
}

// shut has nothing watched any more. It returns how to stop what was, or that it was called before.
func (d *dispatcher) shut() (before bool, stops []func()) {
	d.knowing.Lock() // no feed is about to be watched
	defer d.knowing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.closed = d.closed, true
	for _, a := range d.agents {
		if a.stop != nil {
			stops = append(stops, a.stop)
		}
	}
	if d.unwatch != nil {
		stops = append(stops, d.unwatch)
	}
	return before, stops
}
