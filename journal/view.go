package journal

import (
	"context"

	"parley/client/parley"
)

// View is what is stored at one instant. A caller that answers from it calls Durable first,
// so that nothing is shown that a crash could take back, and Close at last. What reads only
// one kind of content takes only that part.
//
// A read of content whose owner was erased fails with ErrErased. Rows and Table leave
// such rows out.
type View struct {
	Instant
	StreamReader
	MessageReader
	FeedReader
	RowReader
}

// ViewOf returns a view whose parts are all one.
func ViewOf(all interface {
	Instant
	StreamReader
	MessageReader
	FeedReader
	RowReader
},
) View {
	return View{all, all, all, all, all}
}

// Instant is the time at which a view reads.
type Instant interface {
	Close()
	// Durable returns once everything that the view has shown is on stable storage.
	// It fails with parley.ErrOverloaded if the disk hangs.
	Durable(context.Context) error
}

// StreamReader reads the states, the events and the queues of actors.
type StreamReader interface {
	// State returns a stream's stored state and the number of events folded into
	// it; nil if there is none.
	State(Stream) (seq uint64, state []byte, err error)
	// Version returns a number that tells the states of a stream apart: with sealed
	// contents, no state that was ever stored has the number of another one. It is 0 if
	// there is no state. To read it is cheaper than State.
	Version(Stream) (uint64, error)
	// Events calls fn with the stream's events, from number from (counted from 1)
	// on in order, or down from it if reverse, until fn returns false. at is in
	// Unix milliseconds.
	Events(s Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f StoredEvent) bool) error
	// Queue calls fn with the messages queued for an actor after the number beyond,
	// oldest first, until fn returns false.
	Queue(s Stream, beyond uint64, fn func(QueuedMessage) bool) error
}

// MessageReader reads records of messages, and of the copies of a broadcast.
type MessageReader interface {
	// Message calls read with a message's record as stored at reader's home, and
	// returns the message's position in the feed of a recipient who lives there,
	// else 0. Records are only valid during the call of read, here and below;
	// without a record, read is not called. Of a record whose content was erased, read
	// gets the header, and the error is ErrErased.
	Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	// Broadcast calls read with the record of a broadcast as stored at reader's
	// home.
	Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error)
	// Copy returns the recipient of a copy and its position in that agent's feed,
	// as stored at reader's home; the position is 0 if the agent has another home.
	Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error)
	// Copies calls fn with the recipients of a broadcast's copies, as stored at
	// reader's home, until fn returns false. The broadcast's home lists all of
	// them, another home its own agents.
	Copies(reader parley.Slot, broadcast parley.MessageID, fn func(to []parley.Seat) bool) error
}

// FeedReader reads the feeds of agents, and the receipts beside them.
type FeedReader interface {
	// Feed calls fn with the entries of an agent's feed at positions (from, upTo],
	// oldest first, until fn returns false.
	Feed(agent parley.AgentID, from, upTo uint64, fn func(FeedEntry) bool) error
	// Inbox does as Feed with the entries that bring messages only. The others are not
	// read, however many there are.
	Inbox(agent parley.AgentID, from, upTo uint64, fn func(FeedEntry) bool) error
	// InboxBefore calls fn with the entries below a position that bring messages, newest
	// first, until fn returns false. before 0 is the end of the feed.
	InboxBefore(agent parley.AgentID, before uint64, fn func(FeedEntry) bool) error
	// Untransferred calls fn with the untransferred messages of an agent's feed,
	// from position from on, oldest first, until fn returns false or rows entries
	// were read. upTo is the position up to which fn got all of them, and read the
	// number of entries that were read.
	Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (upTo uint64, read int, err error)
	// Receipts returns the receipts of a message: by the Recipient's Position, or
	// without a Recipient those stored at the home of the conversation.
	Receipts(RecordReceipt) (Receipts, error)
	// FeedReceipts calls fn with the receipts of an agent's messages at positions
	// from low to high, oldest first. Messages without receipts are left out.
	FeedReceipts(agent parley.AgentID, low, high uint64, fn func(position uint64, m Receipts)) error
	// Commit returns the number of a commit that the view shows, with all before it; it may
	// show later ones too. It is 0 if that is not known.
	Commit() uint64
	// FeedUnchanged reports that the view shows an agent's feed and its receipts as they were
	// after a commit, whose number Commit returned. It may be false although they are so.
	FeedUnchanged(agent parley.AgentID, commit uint64) bool
}

// RowReader reads the rows of tables, and what their counts add up to.
type RowReader interface {
	Row(slot parley.Slot, table Table, key []byte) ([]byte, bool, error)
	// Rows calls fn with the rows whose keys begin with prefix, after the key
	// beyond (nil: from the first, or from the last if reverse), until fn returns
	// false.
	Rows(slot parley.Slot, table Table, prefix, beyond []byte, reverse bool, fn func(key, value []byte) bool) error
	// RowSize returns how many bytes a row takes as it is stored, which is at least the length
	// of its value; 0 if there is no row. The value is not copied, and an erased one counts too.
	RowSize(slot parley.Slot, table Table, key []byte) (int, error)
	// Table calls fn with all rows of a table, in all homes, until fn returns
	// false.
	Table(table Table, fn func(key, value []byte) bool) error
	// Keys calls fn with the keys of all rows of a table, in all homes, those of erased
	// rows too, until fn returns false. It reads no values.
	Keys(table Table, fn func(key []byte) bool) error
	// Used is what an organization used on a day and stores in all, summed over all homes.
	Used(org parley.OrgID, day uint32) (Usage, error)
}
