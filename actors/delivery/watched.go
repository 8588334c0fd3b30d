package delivery

import (
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// watched reports whether an active webhook of an agent subscribes to an event. A node that
// does not deliver, or does not know all webhooks yet, reads the rows.
func (hooks *Webhooks) watched(agent parley.AgentID, x webhook.What) (wants bool) {
	if d := hooks.dispatch(); d.registry.known.Load() {
		return d.registry.wants(parley.AnyID(agent), x)
	}
	v := hooks.journal.Latest()
	defer v.Close()
	err := v.Rows(agent.Slot(), journal.WebhookTable, agent[:], nil, false, func(_, value []byte) bool {
		w := record.DecodeEventFilter(value)
		wants = w.Active && w.Events&(1<<x) != 0
		return !wants
	})
	return wants || err != nil
}

// Subscribed returns which agents have an active webhook that subscribes to an event, nil if none has
// one. It reports false while the node does not know all webhooks.
func Subscribed(hooks *Webhooks, x webhook.What) (to func(parley.AgentID) bool, known bool) {
	r := &hooks.dispatch().registry
	if !r.known.Load() {
		return nil, false
	}
	if r.anybodyWants(x) {
		to = func(agent parley.AgentID) bool { return r.wants(parley.AnyID(agent), x) }
	}
	return to, true
}

// mayWatch is watched for a turn, which reads no rows of the sender's home. Until the node knows all
// webhooks, any agent may have one: the dispatcher ignores what nobody subscribes to.
func (hooks *Webhooks) mayWatch(agent parley.AgentID, x webhook.What) bool {
	d := hooks.dispatch()
	return !d.registry.known.Load() || d.registry.wants(parley.AnyID(agent), x)
}

// watching reports whether any active webhook subscribes to receipts. A node that does not
// deliver takes any webhook for one.
func (hooks *Webhooks) watching() (found bool) {
	if d := hooks.dispatch(); d.registry.known.Load() {
		return d.registry.anybodyWants(webhook.MessageDelivered) || d.registry.anybodyWants(webhook.MessageRead)
	}
	v := hooks.journal.Latest()
	defer v.Close()
	err := v.Table(journal.WebhookTable, func(_, _ []byte) bool {
		found = true
		return false
	})
	return found || err != nil
}
