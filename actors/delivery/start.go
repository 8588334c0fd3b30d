package delivery

import (
	"slices"
	"sync"
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
	d.registry.beginReading()
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
		return d.registry.add(source, parley.IDFromBytes[webhook.ID](key[16:]), w)
	})
	if err != nil {
		return err
	}
	d.registry.endReading()
	unwatch := sync.OnceFunc(d.hooks.queries.Feeds.WatchConversations(d.changed, d.lookAll))
	d.mu.Lock()
	d.unwatch = unwatch
	d.mu.Unlock()
	if d.registry.isClosed() { // close may not have seen it
		unwatch()
	}
	return nil
}

// lookAround has all webhooks check for work, some at a time.
func (d *dispatcher) lookAround() {
	for some := range slices.Chunk(d.registry.all(), lookAtOnce) {
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
	if d.registry.close() {
		return
	}
	d.mu.Lock()
	unwatch := d.unwatch
	d.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	close(d.stop)
	d.running.Wait()
}
