// Package journal is the contract between actors and storage: what a turn of an
// actor appends (Entry), what it changes elsewhere (Effect), and what can be read
// back (View, Subscription). Package persistence implements it; package
// persistence/journaltest is the suite that every implementation passes.
package journal

import (
	"context"
	"time"

	"parley"
)

// Journal stores entries and reads them back.
type Journal interface {
	// Append takes an entry. It never blocks and never fails at once: the outcome is
	// passed to the entry's Release.
	Append(*Entry)
	// Admit reserves room for one entry of about size bytes in the journal of slot,
	// or fails with parley.ErrOverloaded before anything has happened.
	Admit(slot parley.Slot, size int) (release func(), err error)
	// NextActivation returns the number of a new activation.
	NextActivation() uint64
	// Fence returns once views that are opened afterwards show everything that any node
	// had acknowledged when the call began. On one node all views do.
	Fence(context.Context) error
	// Confirm calls release once it is certain that this node decided at some instant
	// after the call, or with ErrNotLeader. An answer that depends on the memory of an
	// actor, and on no entry, waits for it: another node may have decided since. An
	// activation that began before this node decided is refused too.
	Confirm(activation uint64, release func(error))
	// Row reads one row as it was last applied, durable or not.
	Row(slot parley.Slot, table Table, key []byte) ([]byte, bool, error)
	// View returns a consistent view of everything that is applied.
	View() View
	// Latest returns a view in which each read sees what is applied by then. It is
	// cheaper, for a caller that reads one row or scans once.
	Latest() View
	// Follow subscribes to an agent's feed beyond the position after. notify is
	// called when Next may have more; it must not block.
	Follow(agent parley.AgentID, after uint64, notify func()) Subscription
	// Watch calls notify when there is something new in an agent's feed, until stop
	// is called. notify must not block.
	Watch(agent parley.AgentID, notify func()) (stop func())
	// Observe calls the observer for each change that is applied and durable, until stop
	// is called. A change may be reported twice, also before it is applied in another
	// journal; the last report follows the last change.
	Observe(Observer) (stop func())
	// DurablePosition is the position up to which an agent's feed is durable.
	DurablePosition(agent parley.AgentID) uint64
	// AssignedPosition is a position beyond which no view opened so far has an entry
	// of an agent's feed.
	AssignedPosition(agent parley.AgentID) uint64
	// Settle returns once everything that was appended before the call is on stable
	// storage and has been applied in every journal.
	Settle(context.Context) error
	// Arrived returns once all that the journal of one slot had for the journal of
	// another when the call began, as far as views showed it, is applied there and on
	// stable storage. It writes nothing.
	Arrived(ctx context.Context, from, to parley.Slot) error
	// Trouble is the reason why the journal takes no writes, nil if it does.
	Trouble() *parley.Refusal
	// Overloaded is the error that Admit would return now, nil if it would admit.
	Overloaded() *parley.Refusal
	// Damage names the file in which a read found corruption, empty if none did.
	Damage() string
	// Start begins to call onQueue for actors with queued messages and onTimer for
	// those with due timers. Neither must block; onTimer is called again until the
	// timer is cancelled.
	Start(onQueue func(Stream), onTimer func(Stream, time.Time)) error
}

// View reads what is stored. A caller that answers from it calls Durable first, so
// that nothing is shown that a crash could take back.
//
// A read of content whose owner was erased fails with ErrErased. Rows and Table leave
// such rows out.
type View interface {
	Close()
	// Durable returns once everything that the view has shown is on stable storage.
	// It fails with parley.ErrOverloaded if the disk hangs.
	Durable(context.Context) error
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
	// Receipts returns the receipts of a message: by the Recipient's Position, or
	// without a Recipient those stored at the home of the conversation.
	Receipts(RecordReceipt) (Receipts, error)
	// FeedReceipts calls fn with the receipts of an agent's messages at positions
	// from low to high, oldest first. Messages without receipts are left out.
	FeedReceipts(agent parley.AgentID, low, high uint64, fn func(position uint64, m Receipts)) error
	// Feed calls fn with the entries of an agent's feed at positions (from, upTo],
	// oldest first, until fn returns false.
	Feed(agent parley.AgentID, from, upTo uint64, fn func(FeedEntry) bool) error
	// Inbox does as Feed with the entries that bring messages only. The others are not
	// read, however many there are.
	Inbox(agent parley.AgentID, from, upTo uint64, fn func(FeedEntry) bool) error
	// InboxBefore calls fn with the entries below a position that bring messages, newest
	// first, until fn returns false. before 0 is the end of the feed.
	InboxBefore(agent parley.AgentID, before uint64, fn func(FeedEntry) bool) error
	// Commit returns the number of a commit that the view shows, with all before it; it may
	// show later ones too. It is 0 if that is not known.
	Commit() uint64
	// FeedUnchanged reports that the view shows an agent's feed and its receipts as they were
	// after a commit, whose number Commit returned. It may be false although they are so.
	FeedUnchanged(agent parley.AgentID, commit uint64) bool
	// Untransferred calls fn with the untransferred messages of an agent's feed,
	// from position from on, oldest first, until fn returns false or rows entries
	// were read. upTo is the position up to which fn got all of them, and read the
	// number of entries that were read.
	Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (upTo uint64, read int, err error)
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
	// Queue calls fn with the messages queued for an actor after the number beyond,
	// oldest first, until fn returns false.
	Queue(s Stream, beyond uint64, fn func(QueuedMessage) bool) error
	// Used is what an organization used on a day and stores in all, summed over all homes.
	Used(org parley.OrgID, day uint32) (Usage, error)
}

// Subscription follows a feed: it returns every entry once, in order.
type Subscription interface {
	// Next returns the entries that follow, at most limit; none if there are none yet.
	Next(limit int) ([]FeedEntry, error)
	// Live returns what Next would as far as it is in memory; behind says that Next
	// has to read from the disk.
	Live(limit int) (entries []FeedEntry, behind bool)
	// Behind is the range that has to be read from rows: beyond from, up to upTo. The
	// two are equal if there is none.
	Behind() (from, upTo uint64)
	// Pass skips entries up to a position within that range, which were read
	// elsewhere.
	Pass(position uint64)
	Position() uint64
	Close()
}
