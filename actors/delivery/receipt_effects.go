package delivery

import (
	"parley"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/journal"
)

// Effects are what there is to say of a mark: the mark, and where a webhook of
// the sender's wants to know, what is new in it to the sender's feed.
func (rs *Receipts) Effects(m journal.RecordReceipt) []journal.Effect {
	return rs.appendEffects(nil, m)
}

func (rs *Receipts) appendEffects(words []journal.Effect, m journal.RecordReceipt) []journal.Effect {
	sender := m.Sender
	m.Sender = parley.AgentID{}
	words = append(words, m)
	var note byte
	if m.Receipts.DeliveredAt() != 0 && rs.webhooks.watched(sender, webhook.MessageDelivered) {
		note |= record.ReceiptDelivered
	}
	if m.Receipts.ReadAt != 0 && rs.webhooks.watched(sender, webhook.MessageRead) {
		note |= record.ReceiptRead
	}
	if note != 0 {
		note &^= rs.recordedBefore(m)
	}
	if note == 0 {
		return words
	}
	return append(words, journal.AppendFeed{To: sender, Kind: journal.ReceiptEntry, Ref: parley.AnyID(m.Message), Note: []byte{note}})
}

// recordedBefore is what the marks of a message have said already. Two that mark it in
// the same moment may both bring the news: what rests on it is told at least
// once. Where the marks cannot be read nothing is known.
func (rs *Receipts) recordedBefore(m journal.RecordReceipt) (note byte) {
	v := rs.journal.Latest()
	defer v.Close()
	marks, err := v.Receipts(m)
	if err != nil {
		return 0
	}
	if marks.DeliveredAt() != 0 {
		note |= record.ReceiptDelivered
	}
	if marks.ReadAt != 0 {
		note |= record.ReceiptRead
	}
	return note
}
