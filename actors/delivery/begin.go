package delivery

import (
	"time"

	"parley/actors/webhook"
)

// dispatch hands one attempt to the courier.
func (d *dispatcher) dispatch(x *Delivery) {
	hooks := d.hooks
	agent, id, lease := x.source, x.Webhook, x.lease
	if erased, err := hooks.aboutErased(x); erased || err != nil {
		d.report(agent, id, webhook.Outcome{Lease: lease, Unsent: !erased, Erased: erased, Error: erasedError})
		return
	}
	x.MayBegin = func() bool { return d.mayBegin(x) }
	retry, accepted := hooks.Courier.Deliver(*x, func(o webhook.Outcome) {
		o.Lease = lease
		d.report(agent, id, o)
	})
	if !accepted {
		d.report(agent, id, webhook.Outcome{Lease: lease, Unsent: true, RetryAfter: retry})
	}
}

// confirmedFor is for how long an attempt may begin after the instant at which this node is
// known to have led.
const confirmedFor = time.Second

// mayBegin reports whether an attempt may begin: this node still delivers, the webhook is
// active, and its organization not suspended. It asks the other nodes first, so it finds what
// any of them had answered when it was called. The rest is known here before this node answers.
func (d *dispatcher) mayBegin(x *Delivery) bool {
	began, confirmed := d.hooks.clock(), make(chan error, 1)
	d.hooks.journal.Confirm(d.term(), func(err error) { confirmed <- err })
	if err := <-confirmed; err != nil || d.hooks.clock().Sub(began) > confirmedFor {
		return false
	}
	suspended, err := d.hooks.Suspended(x.Owner)
	return err == nil && !suspended && d.registry.filter(x.source, x.Webhook).Active
}

func (d *dispatcher) term() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.activation
}
