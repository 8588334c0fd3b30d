package journal

import "parley/client/parley"

// FeedKind is the kind of an entry of an agent's feed. The number is stored.
type FeedKind byte

// Kinds of feed entries.
const (
	MessageEntry FeedKind = 1 // Ref is the message
	StatusEntry  FeedKind = 2 // Ref is the conversation, Note its new status
	CopyEntry    FeedKind = 3 // Ref is the agent's copy of a broadcast, see Copy
	GroupEntry   FeedKind = 4 // Ref is the group, Note the event
	ReceiptEntry FeedKind = 5 // Ref is a message that the agent sent, Note the ReceiptKinds that are new
	WebhookEntry FeedKind = 6 // Ref is a webhook of the agent that the server disabled, Note the reason
	// CredentialEntry: Ref is a credential of the agent's organization, Note when it ends.
	CredentialEntry FeedKind = 7
)

// BringsMessage reports whether an entry of this kind brings a message.
func (k FeedKind) BringsMessage() bool { return k == MessageEntry || k == CopyEntry }

// FeedEntry is one row of an agent's feed, which is append-only.
type FeedEntry struct {
	// Position grows along the feed, with holes.
	Position uint64
	Kind     FeedKind
	Ref      parley.AnyID
	// Note is a few bytes whose meaning depends on Kind: the TypeHash of a message,
	// the new status of a conversation.
	Note []byte
	// At is the arrival in Unix milliseconds. It never decreases along the feed and
	// is never before the message was created.
	At int64
	// Begins says that the message is the first of its conversation for the agent: the
	// agent's list of conversations has the conversation at the entry's position. The
	// row of the list is written later, see ListedTable.
	Begins bool
	// Record is the message's record if it was at hand, else nil. The record of a
	// copy is that of its broadcast.
	Record []byte
}

// TypeHash is the 4-byte hash of a message type that feed entries carry, so that a
// reader can skip messages of other types without reading them.
func TypeHash(messageType string) []byte {
	h := uint32(2166136261)
	for i := range len(messageType) {
		h = (h ^ uint32(messageType[i])) * 16777619
	}
	return []byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}
}

// Channel is the interface through which a message reached its recipient. The
// number is stored: channels are added, never renumbered.
type Channel byte

// Channels. // docs: delivery.md
const (
	InboxChannel  Channel = 1 // a page of the inbox, or the message itself
	StreamChannel Channel = 2
	SyncChannel   Channel = 3
	WaitChannel   Channel = 4
	BridgeChannel Channel = 5
	// TranscriptChannel is a page of the conversation.
	TranscriptChannel Channel = 6
)

// Receipts are the instants, in Unix milliseconds, at which a message was first
// transferred, announced and read; 0 means not yet.
type Receipts struct {
	// TransferredAt is when the message's body went out to its recipient, and
	// TransferredBy the channel that it took.
	TransferredAt int64
	TransferredBy Channel
	// AnnouncedAt is when a webhook's target accepted the event. That delivers the
	// message without transferring its body.
	AnnouncedAt int64
	ReadAt      int64
}

// ReceiptKinds are what the sender of a message is notified about its receipts.
type ReceiptKinds byte

// The kinds, as bits; they are the note of a ReceiptEntry.
const (
	DeliveredReceipt ReceiptKinds = 1 << iota
	ReadReceipt
)

// Kinds returns what the receipts say.
func (m Receipts) Kinds() (kinds ReceiptKinds) {
	if m.DeliveredAt() != 0 {
		kinds |= DeliveredReceipt
	}
	if m.ReadAt != 0 {
		kinds |= ReadReceipt
	}
	return kinds
}

// DeliveredAt is when the message was delivered: transferred or announced,
// whichever came first.
func (m Receipts) DeliveredAt() int64 {
	if m.TransferredAt == 0 || m.AnnouncedAt != 0 && m.AnnouncedAt < m.TransferredAt {
		return m.AnnouncedAt
	}
	return m.TransferredAt
}

// Earliest returns the earlier of each instant. Of two transfers in the same
// millisecond the one with the lower channel wins, so that the order of merging
// does not matter.
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

// Transferred reports whether the message's body went out to its recipient.
func (m Receipts) Transferred() bool { return m.TransferredAt != 0 || m.ReadAt != 0 }
