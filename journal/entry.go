package journal

import (
	"errors"
	"time"

	"parley/client/parley"
)

// Effect is one change that an entry makes beyond the actor's own stream and rows:
// to a feed, to another actor's queue or rows, to a receipt. An effect on the
// entry's own journal is applied in the same batch as the entry. An effect on
// another journal goes through an outbox, which loses nothing and applies nothing
// twice.
//
//sumtype:decl
type Effect interface {
	// Home is the slot that the effect applies to.
	Home() parley.Slot
	effect()
}

func (AppendFeed) effect()    {}
func (Fanout) effect()        {}
func (RecordReceipt) effect() {}
func (EnqueueFor) effect()    {}
func (PutRow) effect()        {}
func (AddToList) effect()     {}
func (DropFeed) effect()      {}
func (CreateStream) effect()  {}

// AppendFeed appends to an agent's feed. The record of a MessageEntry is the one of
// the entry's Records whose id is Ref.
type AppendFeed struct {
	To   parley.AgentID
	Kind FeedKind
	Ref  parley.AnyID
	Note []byte
	// Begins is FeedEntry.Begins.
	Begins bool
}

// RecordReceipt records that a message was transferred to, announced to or read by
// its recipient. The earliest instant wins, in whatever order receipts arrive.
type RecordReceipt struct {
	// Recipient is the agent whose feed has the message; zero if the receipt goes
	// only to the home of the conversation.
	Recipient parley.AgentID
	Message   parley.MessageID
	// Position of the message in the recipient's feed.
	Position uint64
	Receipts Receipts
	// Copy says that the message is a copy of a broadcast. Receipts of copies are
	// kept at the recipient's home only.
	Copy bool
	// Sender of the message. Its feed gets a ReceiptEntry that says which kinds of News the
	// message gets by this receipt, of which it had none before; none if there are none. Neither
	// is stored.
	Sender parley.AgentID
	News   ReceiptKinds
}

// DropFeed drops messages from an agent's feed, for good: readers find neither the entries
// nor receipts. Subscribers that have such an entry in memory lose it.
type DropFeed struct {
	Of       parley.AgentID
	Messages []DroppedMessage
}

// DroppedMessage is an entry of a feed that is dropped: its position, its kind and its Ref.
type DroppedMessage struct {
	Position uint64
	Kind     FeedKind
	Ref      parley.AnyID
}

// EnqueueFor appends Data to the durable queue of an actor, which handles it in a
// later turn.
type EnqueueFor struct {
	To   Stream
	Data []byte
}

// PutRow sets or deletes a row that lives in another slot than the entry's.
type PutRow struct{ Row }

// AddToList appends a conversation to the list of an agent's conversations. The list
// of an agent to which a message begins a conversation needs none: see
// FeedEntry.Begins.
type AddToList struct {
	Agent        parley.AgentID
	Conversation parley.ConversationID
}

// CreateStream begins a stream, which must not exist yet.
type CreateStream struct {
	Stream Stream
	// Fresh says that the stream's id was drawn at random just now, so that the
	// journal need not check that it does not exist.
	Fresh  bool
	Events []StoredEvent
	State  []byte
	// Owners own State and the events that are not Clear.
	Owners Owners
}

// Fanout appends to the feeds of many agents. All of them get the same Ref, except
// for a CopyEntry: then Ref is a broadcast, and each agent gets the copy of it that
// its seat numbers. The record of the broadcast is the one of the entry's Records
// whose id is Ref; each home keeps it once.
//
// One batch appends to at most FanoutChunk feeds of a home. The rest follows in
// order in later batches, which the entry's Release does not wait for. Feed entries
// that the same stream appends later come after all of them.
type Fanout struct {
	Kind FeedKind
	Ref  parley.AnyID
	Note []byte
	// To is sorted by seat number.
	To []parley.Seat
	// Begins is FeedEntry.Begins, for all agents.
	Begins bool
}

// FanoutChunk is the number of feeds of one home that a Fanout appends to in one
// batch.
const FanoutChunk = 256

// Home is the slot of the first agent.
func (w Fanout) Home() parley.Slot { return w.To[0].Agent.Slot() }

// Home is the agent's slot.
func (w AppendFeed) Home() parley.Slot { return w.To.Slot() }

// Home is the slot of the recipient, or of the conversation if there is none.
func (w RecordReceipt) Home() parley.Slot {
	if w.Recipient.Zero() {
		return w.Message.Slot()
	}
	return w.Recipient.Slot()
}

// Home is the agent's slot.
func (w DropFeed) Home() parley.Slot { return w.Of.Slot() }

// Home is the actor's slot.
func (w EnqueueFor) Home() parley.Slot { return w.To.Slot() }

// Home is the row's slot.
func (w PutRow) Home() parley.Slot { return w.Slot }

// Home is the agent's slot.
func (w AddToList) Home() parley.Slot { return w.Agent.Slot() }

// Home is the stream's slot.
func (w CreateStream) Home() parley.Slot { return w.Stream.Slot() }

// Row is one row of a table.
type Row struct {
	Slot   parley.Slot
	Table  Table
	Key    []byte
	Value  []byte
	Delete bool
	// Beneath deletes all rows whose keys begin with Key. It is valid in
	// Entry.Rows, not in an effect.
	Beneath bool
	// Owners own Value. A value of a table that HasContent has owners.
	Owners Owners
}

// Record is a stored message. Each home that needs it keeps it once.
type Record struct {
	ID parley.MessageID
	// Data is the message as readers get it: a header of Clear bytes, then the content.
	Data  []byte
	Clear int
	// Owners own the content.
	Owners Owners
	// Stored is what is stored of the message; nil stands for Data. The layer that seals
	// contents sets it.
	Stored []byte
}

// Bytes returns what is stored of the message.
func (r *Record) Bytes() []byte {
	if r.Stored != nil {
		return r.Stored
	}
	return r.Data
}

// Timer wakes the actor of Stream at Due or later, again and again until an entry of
// that stream cancels it.
type Timer struct {
	Due    time.Time
	Stream Stream
	Cancel bool
}

// Count adds to what an organization used on a day.
type Count struct {
	Org parley.OrgID
	Day uint32
	// N is how many of Of are added.
	N  int64
	Of Counted
	// Bytes are added to what the organization stores, in steps of StoredStep. Only a count of
	// messages may have them.
	Bytes int64
	// Part says which row of the day has the count. No row may get more than
	// CountedMax messages or CountedBytesMax bytes.
	Part uint16
}

// Counted is what a Count counts.
type Counted uint8

// What is counted of an organization on a day.
const (
	CountedMessages Counted = iota
	CountedChanges
	CountedInvitations
	CountedKeyChanges
	CountedReports
)

const (
	// StoredStep is the unit of stored bytes.
	StoredStep = 16
	// CountedMax and CountedBytesMax are what one row of a day may have.
	CountedMax      = 1 << 29
	CountedBytesMax = StoredStep << 32
)

// RoundStored rounds a number of bytes up to whole steps.
func RoundStored(n int) int64 { return (int64(n) + StoredStep - 1) / StoredStep * StoredStep }

// Usage is what an organization used: on a day, but for Stored.
type Usage struct {
	Messages, Changes, Invitations, KeyChanges, Reports int64
	// Stored is how many bytes it stores, of all days.
	Stored int64
}

// Sum adds another usage.
func (u *Usage) Sum(more Usage) {
	u.Messages += more.Messages
	u.Changes += more.Changes
	u.Invitations += more.Invitations
	u.KeyChanges += more.KeyChanges
	u.Reports += more.Reports
	u.Stored += more.Stored
}

// Add adds what a count counts on the day of the usage.
func (u *Usage) Add(of Counted, n int64) {
	switch of {
	case CountedMessages:
		u.Messages += n
	case CountedChanges:
		u.Changes += n
	case CountedInvitations:
		u.Invitations += n
	case CountedKeyChanges:
		u.KeyChanges += n
	case CountedReports:
		u.Reports += n
	}
}

// Entry is what one turn of an actor appends to its journal. The journal stores all
// of it or nothing.
type Entry struct {
	// Slot selects the journal. It is Stream's slot if there is a stream.
	Slot parley.Slot
	// Stream is the actor's; zero for effects that no actor decided, such as
	// receipts.
	Stream Stream
	// Activation is the number of the actor's activation. The journal rejects an
	// entry of an activation older than the stream's latest with ErrStale.
	Activation uint64
	// Activate begins an activation: its release says that everything that earlier
	// activations appended has been applied.
	Activate bool
	// Retire ends the activation.
	Retire bool
	// Expect is the number of events that the stream must have before Events.
	Expect uint64
	Events []StoredEvent
	// State is the state after Events; nil keeps the stored one.
	State []byte
	// Owners own State and the Events that are not Clear.
	Owners Owners
	// Hosted appends to further streams that this actor alone writes. They live in
	// its slot.
	Hosted []StreamAppend
	// Rows are rows of the entry's own slot.
	Rows    []Row
	Records []Record
	Effects []Effect
	Timers  []Timer
	Counts  []Count
	// Handled are the numbers of queued messages that this turn dealt with.
	Handled []uint64
	At      time.Time
	// Gather says that nobody waits for the entry: the journal may keep it for about 2 ms,
	// to store it together with others. Order does not change, and an entry that does not
	// wait takes along all that came before it.
	Gather bool
	// Here says that no other node of a cluster takes the entry over: if this node does not
	// lead, or not any more, it is released with ErrNotLeader.
	Here bool
	// Applied, if set, is called when the entry was accepted and is visible to views,
	// before it is durable. It must not block.
	Applied func()
	// Release is called once: with nil when the entry is on stable storage and its
	// effects have been applied in every journal (or are late, and will be), or with
	// the reason why the journal rejected it. With parley.ErrOutcomeUnknown it may be
	// stored later. Entries without effects on other
	// journals are released in the order in which they were appended. It must not
	// block.
	Release func(error)
}

// StreamAppend appends to a stream that another stream's actor hosts.
type StreamAppend struct {
	Stream Stream
	// Expect is the number of events that the stream must have before Events.
	Expect uint64
	Events []StoredEvent
	// State is the state after Events; nil keeps the stored one.
	State []byte
	// Owners own State and the Events that are not Clear.
	Owners Owners
}

// Errors that a journal passes to Release.
var (
	// ErrStale: a later activation of the stream has appended. What the actor has in
	// memory is out of date.
	ErrStale = errors.New("the stream has moved on")
	// ErrExists: a stream that the entry creates exists already.
	ErrExists = errors.New("the stream exists already")
	// ErrClosed: the journal is closed to entries and to reads.
	ErrClosed = parley.ErrOverloaded.Saying("The server is stopping; nothing was done.")
	// ErrNotLeader: another node decides, or none at present. Nothing was done.
	ErrNotLeader = parley.ErrOverloaded.Distinct().Saying("The cluster is choosing another leader; nothing was done. Try again shortly.")
	// ErrBehind: this node cannot show in time what was acknowledged before. Nothing was
	// done.
	ErrBehind = parley.ErrOverloaded.Saying("The server has not caught up with its cluster; nothing was done. Try again shortly.")
)

// QueuedMessage is one message in an actor's durable queue.
type QueuedMessage struct {
	Number uint64
	Data   []byte
}
