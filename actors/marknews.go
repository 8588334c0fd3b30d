package actors

import (
	"parley"
	"parley/actors/webhook"
	"parley/journal"
)

// What the feed of a sender says of a message of its own, as bits of one byte.
const (
	newsDelivered byte = 1 << iota
	newsRead
)

// MarkNews reads the note of a ReceiptEntry: what the message's recipient did with
// it, for the first time. Of a note that is not known it is neither.
func MarkNews(note []byte) (delivered, read bool) {
	if len(note) == 0 {
		return false, false
	}
	return note[0]&newsDelivered != 0, note[0]&newsRead != 0
}

// markWords are what there is to say of a mark: the mark, and where a webhook of
// the sender's wants to know, what is new in it to the sender's feed.
func (n *Node) markWords(m journal.RecordReceipt) []journal.Effect { return n.appendMark(nil, m) }

func (n *Node) appendMark(words []journal.Effect, m journal.RecordReceipt) []journal.Effect {
	sender := m.Sender
	m.Sender = parley.AgentID{}
	words = append(words, m)
	var note byte
	if m.Receipts.DeliveredAt() != 0 && n.watched(sender, webhook.MessageDelivered) {
		note |= newsDelivered
	}
	if m.Receipts.ReadAt != 0 && n.watched(sender, webhook.MessageRead) {
		note |= newsRead
	}
	if note != 0 {
		note &^= n.knownNews(m)
	}
	if note == 0 {
		return words
	}
	return append(words, journal.AppendFeed{To: sender, Kind: journal.ReceiptEntry, Ref: parley.AnyID(m.Message), Note: []byte{note}})
}

// knownNews is what the marks of a message have said already. Two that mark it in
// the same moment may both bring the news: what rests on it is told at least
// once. Where the marks cannot be read nothing is known.
func (n *Node) knownNews(m journal.RecordReceipt) (note byte) {
	v := n.journal.Latest()
	defer v.Close()
	marks, err := v.Receipts(m)
	if err != nil {
		return 0
	}
	if marks.DeliveredAt() != 0 {
		note |= newsDelivered
	}
	if marks.ReadAt != 0 {
		note |= newsRead
	}
	return note
}
