package journal

import (
	"context"
	"time"

	"parley"
)

// Journal keeps what actors say and shows what is kept. The package
// persistence has one for a single node.
type Journal interface {
	// Append takes an entry; what becomes of it is told through its Release.
	Append(*Entry)
	// Admit takes room for one entry of about size bytes in the journal of
	// slot, or refuses with parley.ErrOverloaded before anything has happened.
	Admit(slot parley.Slot, size int) (release func(), err error)
	// NextActivation numbers an activation.
	NextActivation() uint64
	// Row reads one row as the journal last applied it, durable or not.
	Row(slot parley.Slot, table Table, key []byte) ([]byte, bool, error)
	// View shows all that is applied, at one instant.
	View() View
	// Latest shows with each read what is applied by then. It is cheaper, and
	// suits a caller that reads one row, or scans once.
	Latest() View
	// Follow gives an agent's feed beyond the position after, then what is new.
	// notify is called, and must not block, when Next may have more.
	Follow(agent parley.AgentID, after uint64, notify func()) Subscription
	// Watch calls notify, which must not block, when there is something new in an
	// agent's feed, until stop is called.
	Watch(agent parley.AgentID, notify func()) (stop func())
	// DurablePosition is the position up to which an agent's feed is durable.
	DurablePosition(agent parley.AgentID) uint64
	// AssignedPosition is a position beyond which no view opened so far shows a line of an
	// agent's feed.
	AssignedPosition(agent parley.AgentID) uint64
	// Trouble is why no writes are taken, nil if they are.
	Trouble() *parley.Refusal
	// Overloaded is why Admit would refuse whoever comes now, nil if it would not.
	Overloaded() *parley.Refusal
	// Damage is the file in which rot was met, empty if none was.
	Damage() string
	// Start begins to call onQueue for actors with words in their tray and
	// onTimer for those whose time has come.
	Start(onTray func(Stream), onTimer func(Stream, time.Time)) error
}

// View is what is stored, at one instant. Whoever answers from it calls Durable first.
type View interface {
	Close()
	Durable(context.Context) error
	State(Stream) (seq uint64, state []byte, err error)
	Events(s Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f StoredEvent) bool) error
	Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error)
	Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error)
	Copies(reader parley.Slot, broadcast parley.MessageID, fn func(to []parley.Seat) bool) error
	Receipts(RecordReceipt) (Receipts, error)
	FeedReceipts(agent parley.AgentID, low, high uint64, fn func(position uint64, m Receipts)) error
	Feed(agent parley.AgentID, from, upTo uint64, fn func(FeedEntry) bool) error
	FeedBefore(agent parley.AgentID, before uint64, fn func(FeedEntry) bool) error
	Untransferred(agent parley.AgentID, from uint64, rows int, fn func(position uint64, id parley.MessageID) bool) (told uint64, err error)
	Row(slot parley.Slot, table Table, key []byte) ([]byte, bool, error)
	Rows(slot parley.Slot, table Table, prefix, beyond []byte, reverse bool, fn func(key, value []byte) bool) error
	Table(table Table, fn func(key, value []byte) bool) error
	Queue(s Stream, beyond uint64, fn func(QueuedMessage) bool) error
	Used(org parley.OrgID, day uint32) (int64, error)
}

// Subscription follows a feed: every entry once, in order.
type Subscription interface {
	// Next gives the entries that follow, at most limit; none: not yet.
	Next(limit int) ([]FeedEntry, error)
	// Live gives what Next would as far as that does not wait for the disk;
	// behind: Next has to.
	Live(limit int) (entries []FeedEntry, behind bool)
	// Behind is what is to be read from rows: the entries beyond from, up to upTo;
	// the same position twice if there are none.
	Behind() (from, upTo uint64)
	// Pass has what follows begin beyond a position within that: entries up to it
	// were read elsewhere.
	Pass(position uint64)
	Position() uint64
	Close()
}
