package journal

import (
	"errors"
	"time"

	"parley"
)

// StreamKind tells what sort of actor a stream belongs to. It is written to
// disk: numbers are only ever added.
type StreamKind byte

// The kinds of streams.
const (
	RegistrationStream StreamKind = 1
	OrgStream          StreamKind = 2
	AgentStream        StreamKind = 3
	ConversationStream StreamKind = 4
	IssuerStream       StreamKind = 5
	SlugStream         StreamKind = 6
	GroupStream        StreamKind = 7
	WebhookStream      StreamKind = 8
)

// Stream names the ordered events of one actor.
type Stream struct {
	Kind StreamKind
	ID   parley.AnyID
}

// Zero reports whether s names nothing.
func (s Stream) Zero() bool { return s.Kind == 0 }

// Slot is where the stream lives.
func (s Stream) Slot() parley.Slot { return s.ID.Slot() }

// StoredEvent is one event as the journal keeps it: the aggregate's own number for
// its type, and its encoding.
type StoredEvent struct {
	Tag  byte
	Data []byte
}

// Table names a set of rows too large for an actor's memory. Written to disk:
// numbers are only ever added.
type Table byte

// The row-backed sets. The slot of each row is that of the id or name its key begins with.
const (
	// SlugTable: slug → organization id.
	SlugTable Table = 1
	// NameTable: organization id, agent name → agent id. Names are never freed.
	NameTable Table = 2
	// RosterTable: organization id, place (8 bytes) → agent id. In order of creation.
	RosterTable Table = 3
	// ClientTable: client id → organization id.
	ClientTable Table = 4
	// PollTable: SHA-256 of a poll token → agent id.
	PollTable Table = 5
	// KidTable: key id (RFC 7638 thumbprint) → agent id.
	KidTable Table = 6
	// ConversationTable: agent id, position (8 bytes) → conversation id. In the
	// order in which conversations came to the agent.
	ConversationTable Table = 7
	// OnceTable: day, scope, idempotency key → the message it made.
	// Rows of past days are forgotten, see OnceDays.
	OnceTable Table = 8
	// GroupNameTable: organization id, group name → group id. Names are never freed.
	GroupNameTable Table = 9
	// GroupRosterTable: organization id, place (8 bytes) → group id. In order of creation.
	GroupRosterTable Table = 10
	// RequestTable: group id, join request id → the request as it was settled.
	RequestTable Table = 11
	// ConcernTable: agent id, join request id → group id. Live requests about the agent.
	ConcernTable Table = 12
	// PlaceTable: group id, agent id → the numbers of the seats that it ever had
	// there, 4 bytes each.
	PlaceTable Table = 13
	// PublicTable: group id → what the directory shows of a public group. All of
	// them live in the slot that DirectorySlot names.
	PublicTable Table = 14
	// TransferredTable: agent id → a position of its feed (8 bytes) up to which all
	// copies of broadcasts were carried to it.
	TransferredTable Table = 15
	// WebhookTable: agent id, webhook id → what is to be known of the webhook at
	// hand. Webhooks live in the slot of their agent.
	WebhookTable Table = 16
	// DeliveryTable: webhook id, job number (8 bytes) → the delivery job.
	DeliveryTable Table = 17
	// RetryTable: webhook id, due instant in milliseconds (8 bytes), job number (8
	// bytes) → nothing. Jobs that wait for another attempt.
	RetryTable Table = 18
	// ReadTable: agent id → a position of its feed (8 bytes) up to which all
	// messages were read.
	ReadTable Table = 19
	// QuarantineTable: kind of a stream, its id, number in its tray (8 bytes) → the
	// instant in milliseconds (8 bytes) and a word for its actor that could not be
	// decoded, byte for byte.
	QuarantineTable Table = 20
	// HolderTable: group id, organization id → the first agent of the organization
	// that had a seat in the group.
	HolderTable Table = 21
	// SpentTable: day of expiry, challenge → the organization that it made.
	// Rows of past days are forgotten as those of OnceTable.
	SpentTable Table = 22
)

// DirectorySlot is where the directory's rows live.
var DirectorySlot = parley.SlotOf("directory")

// OnceDays is how many days an idempotency key is looked up for, today
// included: a key written in the last second of a day is known for 24 hours.
const OnceDays = 2

// Day numbers UTC days.
func Day(t time.Time) uint32 { return uint32(t.Unix() / 86400) }

// FeedKind tells what an entry of an agent's feed announces.
type FeedKind byte

// The kinds of feed entries.
const (
	MessageEntry FeedKind = 1 // Ref is the message
	StatusEntry  FeedKind = 2 // Ref is the conversation, Note its new status
	CopyEntry    FeedKind = 3 // Ref is the agent's copy of a broadcast, see Copy
	GroupEntry   FeedKind = 4 // Ref is the group, Note what became of what
	ReceiptEntry FeedKind = 5 // Ref is a message of the agent's, Note what its recipient did with it
)

// BringsMessage reports whether an entry of this kind brings a message.
func (k FeedKind) BringsMessage() bool { return k == MessageEntry || k == CopyEntry }

// FeedEntry is one line of an agent's append-only feed.
type FeedEntry struct {
	// Position grows along the feed, with holes.
	Position uint64
	Kind     FeedKind
	Ref      parley.AnyID
	// Note is a few bytes whose meaning Kind tells: TypeHash of a message, the
	// status word of a conversation.
	Note []byte
	// At is the arrival in milliseconds; it never decreases along the feed and
	// is never before the message's own time.
	At int64
	// Record is the message's record where the reader has it at hand, else nil.
	// That of a copy is the broadcast's.
	Record []byte
}

// TypeHash is a message type's note in the feed: enough to skip rows of other
// types without reading their bodies.
func TypeHash(messageType string) []byte {
	h := uint32(2166136261)
	for i := range len(messageType) {
		h = (h ^ uint32(messageType[i])) * 16777619
	}
	return []byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}
}

// Channel is what brought a message to its recipient. Written to disk: numbers
// are only ever added.
type Channel byte

// The channels. // docs: delivery.md
const (
	InboxChannel  Channel = 1 // a page of the inbox, or the message itself
	StreamChannel Channel = 2
	SyncChannel   Channel = 3
	WaitChannel   Channel = 4
	BridgeChannel Channel = 5
)

// Receipts are the instants, in Unix milliseconds, at which something first
// happened to a message; zero is "not yet".
type Receipts struct {
	// TransferredAt is when its body was carried to its recipient, By what carried it.
	TransferredAt int64
	TransferredBy Channel
	// AnnouncedAt is when the target of a webhook took the news of it, which
	// delivers it too, but does not carry it.
	AnnouncedAt int64
	ReadAt      int64
}

// DeliveredAt is when the message was delivered, whichever way.
func (m Receipts) DeliveredAt() int64 {
	if m.TransferredAt == 0 || m.AnnouncedAt != 0 && m.AnnouncedAt < m.TransferredAt {
		return m.AnnouncedAt
	}
	return m.TransferredAt
}

// Earliest gives the earlier of each instant. Of two deliveries in one millisecond
// the lower channel's counts: the order of merging does not show.
func (m Receipts) Earliest(o Receipts) Receipts {
	switch {
	case m.TransferredAt == o.TransferredAt:
		m.TransferredBy = min(m.TransferredBy, o.TransferredBy)
	case m.TransferredAt == 0 || o.TransferredAt != 0 && o.TransferredAt < m.TransferredAt:
		m.TransferredAt, m.TransferredBy = o.TransferredAt, o.TransferredBy
	}
	m.AnnouncedAt, m.ReadAt = earliest(m.AnnouncedAt, o.AnnouncedAt), earliest(m.ReadAt, o.ReadAt)
	return m
}

func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Transferred reports whether the message's body has reached its recipient.
func (m Receipts) Transferred() bool { return m.TransferredAt != 0 || m.ReadAt != 0 }

// Effect is something said to an actor or its rows, wherever they live. Words to
// the speaker's own home take effect in the same batch; others travel in a
// lane that loses and doubles nothing.
//
//sumtype:decl
type Effect interface {
	// Home is the slot the word is addressed to.
	Home() parley.Slot
	effect()
}

func (AppendFeed) effect()    {}
func (Fanout) effect()        {}
func (RecordReceipt) effect() {}
func (EnqueueFor) effect()    {}
func (PutRow) effect()        {}
func (AddToList) effect()     {}
func (CreateStream) effect()  {}

// AppendFeed appends to an agent's feed. For a MessageEntry the record is found
// in the entry's Records under Ref.
type AppendFeed struct {
	To   parley.AgentID
	Kind FeedKind
	Ref  parley.AnyID
	Note []byte
}

// RecordReceipt notes that a message was delivered to, or read by, its recipient. The
// earliest instant wins, whatever the order in which marks arrive.
type RecordReceipt struct {
	// Recipient whose feed has the message; zero when the mark is only brought
	// to where the conversation lives.
	Recipient parley.AgentID
	Message   parley.MessageID
	// Position of the message in the recipient's feed.
	Position uint64
	Receipts Receipts
	// Copy: the message is a copy of a broadcast, whose marks are kept with its
	// recipient only.
	Copy bool
	// Sender of the message, for whoever makes the entry. It is not stored.
	Sender parley.AgentID
}

// EnqueueFor puts Data into the in-tray of an actor, which handles it in a later turn.
type EnqueueFor struct {
	To   Stream
	Data []byte
}

// PutRow sets or deletes a row of a set that lives elsewhere than the speaker.
type PutRow struct{ Row }

// AddToList appends to the list of an agent's conversations.
type AddToList struct {
	Agent        parley.AgentID
	Conversation parley.ConversationID
}

// CreateStream begins a stream that must not exist yet.
type CreateStream struct {
	Stream Stream
	// Fresh says that the stream's id was drawn at random just now: that it
	// does not exist need not be looked up.
	Fresh  bool
	Events []StoredEvent
	State  []byte
}

// Fanout appends to the feeds of many agents. Its Ref is theirs in common, but
// for a CopyEntry: there each gets the copy of Ref, a broadcast, that its seat
// numbers. The broadcast's record is found in the entry's Records under Ref and
// kept once in each home.
//
// What goes to one home beyond FanoutChunk seats follows in parts, in order,
// and the entry's Release does not wait for that. What the same stream says to
// feeds later comes after it.
type Fanout struct {
	Kind FeedKind
	Ref  parley.AnyID
	Note []byte
	// To is in ascending order of numbers.
	To []parley.Seat
	// AddToList, unless zero, appends to the agents' lists of conversations.
	AddToList parley.ConversationID
}

// FanoutChunk is how many agents a Fanout reaches at one home in one batch.
const FanoutChunk = 256

// Home of a word to many is that of the first.
func (w Fanout) Home() parley.Slot { return w.To[0].Agent.Slot() }

// Home is where the feed's agent lives.
func (w AppendFeed) Home() parley.Slot { return w.To.Slot() }

// Home is where the recipient lives, or else the conversation.
func (w RecordReceipt) Home() parley.Slot {
	if w.Recipient.Zero() {
		return w.Message.Slot()
	}
	return w.Recipient.Slot()
}

// Home is where the actor lives.
func (w EnqueueFor) Home() parley.Slot { return w.To.Slot() }

// Home is where the row lives.
func (w PutRow) Home() parley.Slot { return w.Slot }

// Home is where the agent lives.
func (w AddToList) Home() parley.Slot { return w.Agent.Slot() }

// Home is where the stream will live.
func (w CreateStream) Home() parley.Slot { return w.Stream.Slot() }

// Row is one member of a row-backed set.
type Row struct {
	Slot   parley.Slot
	Table  Table
	Key    []byte
	Value  []byte
	Delete bool
	// Beneath deletes all rows whose keys begin with Key. Only a speaker's own.
	Beneath bool
}

// Record is a message as stored: written once per home that needs it.
type Record struct {
	ID   parley.MessageID
	Data []byte
}

// Timer asks for its stream to be woken at or after Due; it stays until an
// entry of that stream cancels it.
type Timer struct {
	Due    time.Time
	Stream Stream
	Cancel bool
}

// Count adds N to what an organization used on a day.
type Count struct {
	Org parley.OrgID
	Day uint32
	N   int64
}

// Entry is what one turn of an actor asks its journal to keep: all of it or
// nothing.
type Entry struct {
	// Slot says whose journal this is for; Stream's slot where there is one.
	Slot parley.Slot
	// Stream speaks; zero for words that no actor judged (marks).
	Stream Stream
	// Activation is the activation that speaks. A smaller one than the stream's
	// latest is refused.
	Activation uint64
	// Activate begins an activation: the entry passes behind everything that
	// earlier ones said.
	Activate bool
	// Retire ends the activation.
	Retire bool
	// Expect is the number of events the stream must have before Facts.
	Expect uint64
	Events []StoredEvent
	// State is the folded state after Facts; nil leaves the stored one.
	State []byte
	// Hosted continues streams that the speaker keeps besides its own. They live
	// in its slot, and nobody else ever speaks for them.
	Hosted []StreamAppend
	// Purge removes the stream's events and state for good. Its timers are
	// cancelled in the same entry.
	Purge bool
	// Rows are the speaker's own.
	Rows    []Row
	Records []Record
	Effects []Effect
	Timers  []Timer
	Counts  []Count
	// Handled are in-tray rows that this turn has dealt with.
	Handled []uint64
	At      time.Time
	// Applied, if set, is called once the entry, not refused, is visible to views,
	// before it is durable. It must not block.
	Applied func()
	// Release is called once, when the entry is on stable storage and has taken
	// effect wherever it was addressed (or that is late: then the effect
	// follows), or with the reason why it was refused. Entries that stay at home
	// are released in the order of appending. It must not block.
	Release func(error)
}

// StreamAppend continues a stream that another one hosts.
type StreamAppend struct {
	Stream Stream
	// Expect is the number of events the stream has before Facts.
	Expect uint64
	Events []StoredEvent
	// State is the folded state after Facts; nil leaves the stored one.
	State []byte
}

// Refusals of a journal, told through Release.
var (
	// ErrStale: another activation of the stream has spoken since. The actor's
	// memory is worth nothing any more.
	ErrStale = errors.New("the stream has moved on")
	// ErrExists: a stream that the entry begins exists already.
	ErrExists = errors.New("the stream exists already")
	// ErrClosed: the journal takes no more entries and shows no more rows.
	ErrClosed = parley.ErrOverloaded.Saying("The server is stopping; nothing was done.")
)

// QueuedMessage is one word waiting for an actor.
type QueuedMessage struct {
	Number uint64
	Data   []byte
}
