package delivery

import (
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// Effects returns the effects of a receipt for the entry of a turn: the receipt itself, and if a
// webhook of the sender may subscribe to it, an entry in the sender's feed with what is new in it.
func (rs *Receipts) Effects(m journal.RecordReceipt) []journal.Effect {
	return rs.appendEffects(nil, m, rs.webhooks.mayWatch)
}

// appendEffects appends the effects of a receipt. Watched reports whether a webhook of an agent
// subscribes to an event.
func (rs *Receipts) appendEffects(effects []journal.Effect, m journal.RecordReceipt, watched func(parley.AgentID, webhook.What) bool) []journal.Effect {
	sender := m.Sender
	m.Sender = parley.AgentID{}
	effects = append(effects, m)
	var note byte
	if m.Receipts.DeliveredAt() != 0 && watched(sender, webhook.MessageDelivered) {
		note |= record.ReceiptDelivered
	}
	if m.Receipts.ReadAt != 0 && watched(sender, webhook.MessageRead) {
		note |= record.ReceiptRead
	}
	if note != 0 {
		note &^= rs.recordedBefore(m)
	}
	if note == 0 {
		return effects
	}
	return append(effects, journal.AppendFeed{To: sender, Kind: journal.ReceiptEntry, Ref: parley.AnyID(m.Message), Note: []byte{note}})
}

// recordedBefore returns what the stored receipts of a message already say. Two
// receipts of one message at the same time may both be taken as new, so the sender's
// feed gets the news at least once. If the receipts cannot be read, everything counts
// as new.
func (rs *Receipts) recordedBefore(m journal.RecordReceipt) (note byte) {
	v := rs.journal.Latest()
	defer v.Close()
	receipts, err := v.Receipts(m)
	if err != nil {
		return 0
	}
	if receipts.DeliveredAt() != 0 {
		note |= record.ReceiptDelivered
	}
	if receipts.ReadAt != 0 {
		note |= record.ReceiptRead
	}
	return note
}
