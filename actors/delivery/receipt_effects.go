package delivery

import (
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// Effect returns the effect of a receipt for the entry of a turn. If a webhook of the sender may
// subscribe to what is new in it, the sender's feed gets an entry about it.
func (rs *Receipts) Effect(m journal.RecordReceipt) journal.Effect {
	return announced(m, rs.webhooks.mayWatch)
}

// announced returns a receipt with the kinds that a webhook of the sender subscribes to, of those
// that it sets. Watched reports whether a webhook of an agent subscribes to an event.
func announced(m journal.RecordReceipt, watched func(parley.AgentID, webhook.What) bool) journal.RecordReceipt {
	kinds := m.Receipts.Kinds()
	m.News = 0
	if kinds&journal.DeliveredReceipt != 0 && watched(m.Sender, webhook.MessageDelivered) {
		m.News |= journal.DeliveredReceipt
	}
	if kinds&journal.ReadReceipt != 0 && watched(m.Sender, webhook.MessageRead) {
		m.News |= journal.ReadReceipt
	}
	return m
}
