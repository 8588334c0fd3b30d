package layout

import (
	"encoding/binary"
	"math"

	"parley/client/parley"
	"parley/journal"
)

// Key layout. Every key begins with the slot it belongs to, big endian, and the
// letter of its family. Lower-case families are a journal's own rows: they have the
// first slot of the journal's range, so that all rows of a journal are one span of
// keys. Rows of the directory have the slot 0xFFFF, which no id carries.
//
//	slot E stream seq            event: tag, milliseconds, encoding
//	slot S stream                state: seq, encoding
//	slot B message               record: position, bytes
//	slot C copy                  copies of a broadcast, of one chunk: first position, seats
//	slot F agent position        feed entry that brings a message
//	slot N agent position        feed entry of another kind
//	slot M agent position        receipts, at the recipient's home
//	slot M message               receipts, at the conversation's home if that is another
//	slot T stream number         durable queue of an actor
//	slot R table key             member of a row-backed set
//	first a                      what the journal has applied
//	first o target number        outbox message, not yet applied by its target
//	first i source               outbox, last number applied
//	first t due stream           timer
//	first q org day              used quota
//	0000 g                       what a replica has applied of its group's order
//	FFFF m 0                     format of the directory
//	FFFF h 0 number              head of a commit
//
// Letters of families, see above.
const (
	EventFamily   = 'E'
	StateFamily   = 'S'
	RecordFamily  = 'B'
	CopiesFamily  = 'C'
	FeedFamily    = 'F'
	NoticeFamily  = 'N'
	ReceiptFamily = 'M'
	QueueFamily   = 'T'
	RowFamily     = 'R'

	AppliedFamily        = 'a'
	OutboxFamily         = 'o'
	OutboxReceivedFamily = 'i'
	TimerFamily          = 't'
	QuotaFamily          = 'q'
	GroupFamily          = 'g'

	FormatFamily = 'm'
	HeadFamily   = 'h'

	// StoreSlot is the slot of the rows of the directory.
	StoreSlot = 0xFFFF
)

// Key begins a key of a family, with room for size more bytes.
func Key(slot parley.Slot, family byte, size int) []byte {
	k := make([]byte, 3, 3+size)
	binary.BigEndian.PutUint16(k, uint16(slot))
	k[2] = family
	return k
}

// StoreKey begins a key of a row of the directory. The two zero bytes have been
// there since format 1, so that every release finds the format of a directory.
func StoreKey(family byte) []byte { return append(Key(StoreSlot, family, 4), 0, 0) }

// StreamKey begins a key of a stream, with room for size more bytes.
func StreamKey(family byte, s journal.Stream, size int) []byte {
	k := Key(s.Slot(), family, 17+size)
	return append(append(k, byte(s.Kind)), s.ID[:]...)
}

// EventKey is the key of event seq, counted from 1.
func EventKey(s journal.Stream, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(StreamKey(EventFamily, s, 8), seq)
}

// StateKey is the key of a stream's stored state.
func StateKey(s journal.Stream) []byte { return StreamKey(StateFamily, s, 0) }

// QueueKey is the key of a message in an actor's durable queue.
func QueueKey(s journal.Stream, number uint64) []byte {
	return binary.BigEndian.AppendUint64(StreamKey(QueueFamily, s, 8), number)
}

// FeedFamilyOf is the family of the entries of a kind. Those that bring no message have one of their
// own, so that however many there are, the messages are read without them.
func FeedFamilyOf(kind journal.FeedKind) byte {
	if kind.BringsMessage() {
		return FeedFamily
	}
	return NoticeFamily
}

// NoticeKey is the key in NoticeFamily that corresponds to one in FeedFamily.
func NoticeKey(k []byte) []byte {
	k = append([]byte(nil), k...)
	k[2] += NoticeFamily - FeedFamily
	return k
}

// FeedKeyBytes is the length of a FeedKey.
const FeedKeyBytes = 27

// FeedKey is the key of a row of a position in an agent's feed.
func FeedKey(family byte, agent parley.AgentID, position uint64) []byte {
	k := make([]byte, FeedKeyBytes)
	PutFeedKey(k, family, agent, position)
	return k
}

// PutFeedKey writes a FeedKey into k, which has FeedKeyBytes.
func PutFeedKey(k []byte, family byte, agent parley.AgentID, position uint64) {
	binary.BigEndian.PutUint16(k, uint16(agent.Slot()))
	k[2] = family
	copy(k[3:], agent[:])
	binary.BigEndian.PutUint64(k[19:], position)
}

// ReceiptKey is the key of receipts: at the recipient's home by feed position, so
// that a page of the feed finds all of them in one place; at the home of the
// conversation by message.
func ReceiptKey(m journal.RecordReceipt) []byte {
	if m.Recipient.Zero() {
		return MessageKey(ReceiptFamily, m.Message.Slot(), m.Message)
	}
	return FeedKey(ReceiptFamily, m.Recipient, m.Position)
}

// MessageKeyBytes is the length of a MessageKey.
const MessageKeyBytes = 19

// MessageKey is the key of a message's record or receipts, stored under slot. See
// Homes.Residence.
func MessageKey(family byte, slot parley.Slot, m parley.MessageID) []byte {
	return append(Key(slot, family, 16), m[:]...)
}

// RowKey is the key of a member of a row-backed set.
func RowKey(slot parley.Slot, table journal.Table, k []byte) []byte {
	return append(append(Key(slot, RowFamily, 1+len(k)), byte(table)), k...)
}

// After is the first key beyond every key that begins with prefix.
func After(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// Number is the big-endian number that b begins with, 0 if b is shorter.
func Number(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// FamilyOf is the slot and the letter that a key begins with; of a key too short
// to have one, parley.Slots and 0.
func FamilyOf(k []byte) (parley.Slot, byte) {
	if len(k) < 3 {
		return parley.Slots, 0
	}
	return parley.Slot(binary.BigEndian.Uint16(k)), k[2]
}

// StreamOf is the stream in the key of an event, a state or a queued message.
func StreamOf(k []byte) journal.Stream {
	return journal.Stream{Kind: journal.StreamKind(k[3]), ID: parley.IDFromBytes[parley.AnyID](k[4:20])}
}

// HeadsKept is how many of the newest commits have their head stored: many more
// than are committed between two writes of the witness.
const HeadsKept = 4096

// HeadKey is the key of the head of a commit. It is overwritten HeadsKept commits
// later.
func HeadKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(StoreKey(HeadFamily), uint16(number%HeadsKept))
}

// FloorKey is the key of the commit up to which heads may be missing, because the
// operator gave them up.
func FloorKey() []byte {
	return binary.BigEndian.AppendUint16(StoreKey(HeadFamily), math.MaxUint16)
}

// NumberAt is the big-endian number at an offset, 0 if b is shorter.
func NumberAt(b []byte, at int) uint64 {
	if len(b) < at+8 {
		return 0
	}
	return binary.BigEndian.Uint64(b[at:])
}

// EncodeNumber is the 8 bytes that Number reads.
func EncodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
