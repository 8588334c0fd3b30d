package apply

import (
	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Item is one input of the evaluator: a journal entry, or a message that arrived in
// an outbox. Apply fills in the outcome.
type Item struct {
	// Entry is the journal entry. For a message it is empty; Apply gives it the
	// message's effects and records.
	*journal.Entry
	// Message is the message that arrived, nil for an entry.
	Message *Message

	// Refusal is why the entry was rejected: then nothing of it is in the batch.
	Refusal error
	// Appended are the feed entries appended in this journal, in order, and Fanouts
	// those that fan-outs appended.
	Appended []Appended
	Fanouts  []FanoutPart
	// Queued are the actors of this journal for which messages were enqueued.
	Queued []journal.Stream
	// Outgoing are the messages to be sent when the batch is durable. They are
	// stored in the outboxes by this batch.
	Outgoing []*Message

	// viaOutbox: feed entries for agents of this journal go through its outbox to
	// itself, because earlier ones of the stream are still under way there, or
	// later parts of a fan-out of this entry.
	viaOutbox bool
	// direct: one chunk of a fan-out, the one numbered directChunk, is written in
	// the entry's own batch.
	direct      bool
	directChunk uint32
}

// Appended is a feed entry that was appended to an agent's feed.
type Appended struct {
	Agent parley.AgentID
	Entry journal.FeedEntry
}

// Message carries effects of one entry to another journal, or later parts of a
// fan-out to its own. The messages of an outbox are numbered densely; the target
// applies each number once, in order.
type Message struct {
	Source, Target int
	Number         uint64
	layout.OutboxMessage
	// Awaited: the answer to the entry's sender waits until the message has arrived.
	Awaited bool

	// chunk is the chunk of a fan-out that it carries; open: it takes more parts of
	// that chunk.
	chunk uint32
	open  bool
	// stream appended the entry, and broadcast is the record of the broadcast whose
	// copies the message carries. Neither is stored: they are unknown after the
	// state was loaded again.
	stream    journal.Stream
	broadcast []byte
}

// record is the record of a message that the item carries, nil if it carries none.
func (it *Item) record(id parley.MessageID) *journal.Record {
	for i := range it.Records {
		if it.Records[i].ID == id {
			return &it.Records[i]
		}
	}
	return nil
}

// text is the record of a message as readers get it; nil if the item has only what is
// stored of it, as after the state was loaded again.
func (it *Item) text(id parley.MessageID) []byte {
	if r := it.record(id); r != nil {
		return r.Data
	}
	return nil
}

// position is the position that a message of the item was given in its recipient's
// feed, 0 if that feed is in another journal.
func (it *Item) position(id parley.MessageID) uint64 {
	for i := range it.Appended {
		if e := &it.Appended[i].Entry; e.Kind == journal.MessageEntry && parley.MessageID(e.Ref) == id {
			return e.Position
		}
	}
	return 0
}
