package layout

import (
	"encoding/binary"
	"fmt"
	"math"

	"parley"
	"parley/journal"
)

// Key layout. Every key begins with the slot it belongs to, big endian, and
// the letter of its family; journal metadata has the slot 0xFFFF, which no id
// carries, and names its journal.
//
//	slot E stream seq            event: tag, milliseconds, encoding
//	slot S stream                state: seq, encoding
//	slot B message               record: position, bytes
//	slot C copy                  copies of a broadcast, of one chunk: first position, seats
//	slot F agent position        feed entry
//	slot U agent position        message, not a copy, not transferred to its recipient yet
//	slot M agent position        receipts, at the recipient's home
//	slot M message               receipts, at the conversation's home if that is another
//	slot T stream number         durable queue of an actor
//	slot R table key             member of a row-backed set
//	FFFF m                       format of the directory
//	FFFF h 0 number              head of a commit
//	FFFF c journal               counter
//	FFFF o source target number  outbox message, not yet applied by its target
//	FFFF i target source         outbox, last number applied
//	FFFF t journal due stream    timer
//	FFFF q journal org day       used quota
//
// Letters of families, see above.
const (
	EventFamily         = 'E'
	StateFamily         = 'S'
	RecordFamily        = 'B'
	CopiesFamily        = 'C'
	FeedFamily          = 'F'
	UntransferredFamily = 'U'
	ReceiptFamily       = 'M'
	QueueFamily         = 'T'
	RowFamily           = 'R'

	FormatFamily         = 'm'
	HeadFamily           = 'h'
	CounterFamily        = 'c'
	OutboxFamily         = 'o'
	OutboxReceivedFamily = 'i'
	TimerFamily          = 't'
	QuotaFamily          = 'q'

	MetaSlot = 0xFFFF
)

// Key begins a key of a family, with room for size more bytes.
func Key(slot parley.Slot, family byte, size int) []byte {
	k := make([]byte, 3, 3+size)
	binary.BigEndian.PutUint16(k, uint16(slot))
	k[2] = family
	return k
}

// MetaKey begins a key of journal metadata, with room for size more bytes.
func MetaKey(family byte, journal int, size int) []byte {
	k := make([]byte, 5, 5+size)
	binary.BigEndian.PutUint16(k, MetaSlot)
	k[2] = family
	binary.BigEndian.PutUint16(k[3:], uint16(journal))
	return k
}

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

// MessageKey is the key of a message's record or receipts, stored under slot. See
// Homes.Residence.
func MessageKey(family byte, slot parley.Slot, m parley.MessageID) []byte {
	return append(Key(slot, family, 16), m[:]...)
}

// RowKey is the key of a member of a row-backed set.
func RowKey(slot parley.Slot, table journal.Table, k []byte) []byte {
	return append(append(Key(slot, RowFamily, 1+len(k)), byte(table)), k...)
}

// OutboxKey is the key of an outbox message.
func OutboxKey(source, target int, number uint64) []byte {
	k := binary.BigEndian.AppendUint16(MetaKey(OutboxFamily, source, 10), uint16(target))
	return binary.BigEndian.AppendUint64(k, number)
}

// OutboxPrefix is what the keys of an outbox's messages begin with.
func OutboxPrefix(source, target int) []byte { return OutboxKey(source, target, 0)[:7] }

// OutboxReceivedKey is the key of the last number that target has applied of the
// outbox from source.
func OutboxReceivedKey(target, source int) []byte {
	return binary.BigEndian.AppendUint16(MetaKey(OutboxReceivedFamily, target, 2), uint16(source))
}

// TimerKey is the key of a timer that is due at a Unix millisecond.
func TimerKey(journal int, due uint64, s journal.Stream) []byte {
	k := binary.BigEndian.AppendUint64(MetaKey(TimerFamily, journal, 25), due)
	return append(append(k, byte(s.Kind)), s.ID[:]...)
}

// QuotaKey is the key of what an organization used on a day.
func QuotaKey(journal int, org parley.OrgID, day uint32) []byte {
	k := append(MetaKey(QuotaFamily, journal, 20), org[:]...)
	return binary.BigEndian.AppendUint32(k, day)
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

// Outbox names the outbox of journal Source for journal Target.
type Outbox struct{ Source, Target int }

func (l Outbox) String() string {
	return fmt.Sprintf("outbox from journal %d to %d", l.Source, l.Target)
}

// OutboxOf is the outbox in the key of an outbox message.
func OutboxOf(k []byte) (Outbox, bool) {
	if len(k) != 15 {
		return Outbox{}, false
	}
	return Outbox{Source: int(binary.BigEndian.Uint16(k[3:])), Target: int(binary.BigEndian.Uint16(k[5:]))}, true
}

// HeadsKept is how many of the newest commits have their head stored: many more
// than are committed between two writes of the witness.
const HeadsKept = 4096

// HeadKey is the key of the head of a commit. It is overwritten HeadsKept commits
// later.
func HeadKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(MetaKey(HeadFamily, 0, 2), uint16(number%HeadsKept))
}

// FloorKey is the key of the commit up to which heads may be missing, because the
// operator gave them up.
func FloorKey() []byte {
	return binary.BigEndian.AppendUint16(MetaKey(HeadFamily, 0, 2), math.MaxUint16)
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
