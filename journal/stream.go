package journal

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/client/parley"
)

// StreamKind is the kind of actor that a stream belongs to. The number is
// stored: kinds are added, never renumbered.
type StreamKind byte

// Stream kinds.
const (
	OrgStream          StreamKind = 2
	AgentStream        StreamKind = 3
	ConversationStream StreamKind = 4
	IssuerStream       StreamKind = 5
	SlugStream         StreamKind = 6
	GroupStream        StreamKind = 7
	WebhookStream      StreamKind = 8
	WorkloadStream     StreamKind = 9
	KeyLogStream       StreamKind = 10
	OperatorStream     StreamKind = 11
)

// HasContent reports whether the states of such streams, and their events unless they are
// Clear, belong to organizations.
func (k StreamKind) HasContent() bool {
	switch k {
	case OrgStream, AgentStream, ConversationStream, GroupStream, WebhookStream:
		return true
	}
	return false
}

// HasHeader reports whether the states and events of such streams are readable without
// what was erased: they are protobuf messages whose fields below HeaderFields are clear.
func (k StreamKind) HasHeader() bool { return k == ConversationStream }

// HeaderFields is the number from which on fields are content, in messages that have a
// header.
const HeaderFields = 100

// HeaderLen returns the length of the header of an encoded protobuf message: of its fields
// below HeaderFields, which are encoded first.
func HeaderLen(message []byte) (n int) {
	for n < len(message) {
		number, _, length := protowire.ConsumeField(message[n:])
		if length < 0 || number >= HeaderFields {
			break
		}
		n += length
	}
	return n
}

// Stream identifies the ordered events of one actor.
type Stream struct {
	Kind StreamKind
	ID   parley.AnyID
}

// Zero reports whether s identifies no stream.
func (s Stream) Zero() bool { return s.Kind == 0 }

// Slot is the slot that the stream lives in.
func (s Stream) Slot() parley.Slot { return s.ID.Slot() }

// StoredEvent is one event as the journal stores it: the aggregate's number for
// the event's type, below 128, and the encoded event.
type StoredEvent struct {
	Tag  byte
	Data []byte
	// Clear says that nobody owns the event: it has ids, instants and statuses only. It
	// is for the code that builds an entry, and not stored.
	Clear bool
}

// Table identifies a set of rows that is too large to be kept in an actor's
// memory. The number is stored: tables are added, never renumbered.
type Table byte

// Tables, as key → value. Names that clients chose may be stored as hashes, see NameIn.
// A row lives in the slot of the id or the name that its
// key begins with.
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
	// order in which conversations came to the agent. Those that began with a message
	// to the agent have a row only up to the position in ListedTable.
	ConversationTable Table = 7
	// OnceTable: day (4 bytes), length of the scope (1 byte), scope, idempotency key →
	// the message it made.
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
	// TransferredTable: agent id → position of its feed (8 bytes) up to which all
	// messages were transferred to it.
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
	// QuarantineTable: kind of a stream, its id, number in its queue (8 bytes) → the
	// instant in milliseconds (8 bytes) and the queued message that its actor could
	// not decode, byte for byte.
	QuarantineTable Table = 20
	// HolderTable: group id, organization id → the first agent of the organization
	// that had a seat in the group.
	HolderTable Table = 21
	// SpentTable: day of expiry, challenge → the organization that it made, or whose agent
	// proved a workload identity with it.
	// Rows of past days are forgotten as those of OnceTable.
	SpentTable Table = 22
	// ListedTable: agent id → position of its feed (8 bytes) up to which the entries
	// that begin conversations have rows in ConversationTable.
	ListedTable Table = 23
	// CardTable: agent id → the agent's card.
	CardTable Table = 24
	// ActivityTable: agent id → the hour in which the agent last sent a message (4
	// bytes), counted from 1970-01-01 UTC.
	ActivityTable Table = 25
	// TaskTable: agent id, id of another agent, id of a conversation that the one has
	// begun with the other → nothing. Only conversations up to the position in TaskedTable
	// have a row, see there.
	TaskTable Table = 26
	// TaskedTable: agent id → position in the list of its conversations (8 bytes) up to
	// which those that it has begun with another agent have rows in TaskTable. Rows are
	// written by the first query that needs them.
	TaskedTable Table = 27
	// WorkloadTable: SPIFFE id → the organization that has proven it.
	WorkloadTable Table = 28
	// ErasureTable: organization id → how far its erasure has come.
	ErasureTable Table = 29
	// KeyLogTable: number of a leaf of the key log (8 bytes) → the hashes of the subtrees that
	// the leaf completes, from the smallest on. It lives in the slot of the log's stream.
	KeyLogTable Table = 30
	// KeyLogPlaceTable: a leaf of the key log (32 bytes) → its number (8 bytes). It lives in
	// the slot of the log's stream.
	KeyLogPlaceTable Table = 31
	// KeyPackageTable: agent id, 1 for that of last resort and else 0 (1 byte), end of the
	// lifetime in Unix seconds (8 bytes), cipher suite (2 bytes), first 16 bytes of the
	// SHA-256 → the MLS KeyPackage, as it was uploaded. Those that others may claim.
	KeyPackageTable Table = 32
	// MLSCommitTable: group id, epoch (8 bytes) → the commit that was made in that epoch
	// of the MLS group.
	MLSCommitTable Table = 33
	// MLSGroupInfoTable: group id → the GroupInfo of the MLS group's epoch.
	MLSGroupInfoTable Table = 34
	// MLSWelcomeTable: group id, epoch (8 bytes) → the Welcome to those whom the commit of
	// that epoch added. It is there until all of them have acknowledged it.
	MLSWelcomeTable Table = 35
	// MLSMemberTable: group id, agent id → the Welcomes that the agent has not
	// acknowledged, and the commit that last removed it. Group id, epoch (8 bytes) → how
	// many agents (4 bytes) have not acknowledged the Welcome of that epoch.
	MLSMemberTable Table = 36
	// HandedOutTable: agent id, end of the lifetime in Unix seconds (8 bytes), first 16
	// bytes of the SHA-256 → nothing. MLS KeyPackages that were claimed.
	HandedOutTable Table = 37
	// ReportTable: organization id, id of a message, an agent or a group → the open report of
	// the one about the other.
	ReportTable Table = 38
	// ClosedReportTable: day of the closing (4 bytes), organization id, report id → the report.
	// Rows leave when they are ReportDays old.
	ClosedReportTable Table = 39
	// TokenTable: organization id, id of a credential → the hour in which the credential last
	// got a token (4 bytes), counted from 1970-01-01 UTC.
	TokenTable Table = 40
)

// MLSTables are the tables of the MLS groups of groups. Their keys begin with the id of
// the group.
var MLSTables = []Table{MLSCommitTable, MLSGroupInfoTable, MLSWelcomeTable, MLSMemberTable}

// HasContent reports whether the values of a table belong to an organization.
func (t Table) HasContent() bool {
	switch t {
	case OnceTable, RequestTable, PublicTable, WebhookTable, DeliveryTable, CardTable, ActivityTable, MLSCommitTable, MLSGroupInfoTable, MLSWelcomeTable, KeyPackageTable, ReportTable, ClosedReportTable:
		return true
	}
	return false
}

// NameIn returns where in a key of the table a name begins that a client chose, such as
// a slug or an idempotency key. It is len(key) if there is none.
func (t Table) NameIn(key []byte) int {
	at := len(key)
	switch t {
	case SlugTable, WorkloadTable:
		at = 0
	case NameTable, GroupNameTable:
		at = 16
	case OnceTable:
		if len(key) > 4 {
			at = 5 + int(key[4])
		}
	}
	return min(at, len(key))
}

// DirectorySlot is the slot of the directory's rows.
var DirectorySlot = parley.SlotOf("directory")

// OnceDays is how many days an idempotency key is looked up for, today
// included: a key written in the last second of a day is known for 24 hours.
const OnceDays = 2

// ReportDays is how many days a closed report is kept, after the day of its closing.
const ReportDays = 400

// Day is the number of the UTC day of t, counted from 1970-01-01.
func Day(t time.Time) uint32 { return uint32(t.Unix() / 86400) }
