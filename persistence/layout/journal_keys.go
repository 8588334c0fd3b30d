package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
)

// Lengths of the keys of a journal's own rows.
const (
	journalKeyBytes  = 3
	outboxKeyBytes   = journalKeyBytes + 10
	receivedKeyBytes = journalKeyBytes + 2
	timerKeyBytes    = journalKeyBytes + 25
	quotaKeyBytes    = journalKeyBytes + 20
)

// JournalKey begins a key of a journal's own rows, with room for size more bytes.
func (h Homes) JournalKey(family byte, journal, size int) []byte {
	return Key(h.First(journal), family, size)
}

// OutboxKey is the key of an outbox message.
func (h Homes) OutboxKey(source, target int, number uint64) []byte {
	k := binary.BigEndian.AppendUint16(h.JournalKey(OutboxFamily, source, 10), uint16(target))
	return binary.BigEndian.AppendUint64(k, number)
}

// OutboxPrefix is what the keys of an outbox's messages begin with.
func (h Homes) OutboxPrefix(source, target int) []byte {
	return h.OutboxKey(source, target, 0)[:journalKeyBytes+2]
}

// OutboxReceivedKey is the key of the last number that target has applied of the
// outbox from source.
func (h Homes) OutboxReceivedKey(target, source int) []byte {
	return binary.BigEndian.AppendUint16(h.JournalKey(OutboxReceivedFamily, target, 2), uint16(source))
}

// TimerKey is the key of a timer that is due at a Unix millisecond.
func (h Homes) TimerKey(journal int, due uint64, s journal.Stream) []byte {
	k := binary.BigEndian.AppendUint64(h.JournalKey(TimerFamily, journal, 25), due)
	return append(append(k, byte(s.Kind)), s.ID[:]...)
}

// QuotaKey is the key of what an organization used on a day.
func (h Homes) QuotaKey(journal int, q Quota) []byte {
	return binary.BigEndian.AppendUint32(h.QuotasKey(journal, q.Org), uint32(q.Of)<<28|uint32(q.Part&0xfff)<<16|q.Day&0xffff)
}

// QuotasKey begins the keys of what an organization used.
func (h Homes) QuotasKey(journal int, org parley.OrgID) []byte {
	return append(h.JournalKey(QuotaFamily, journal, 20), org[:]...)
}

// Quota names the row of what an organization used on a day. Day has 16 bits, Part 12 and Of 4.
type Quota struct {
	Org  parley.OrgID
	Day  uint32
	Of   journal.Counted
	Part uint16
}

// countBits is how many bits of a row have the messages. The bytes are above them, in steps, and
// may be negative: more may have been removed on a day than was stored.
const countBits = 30

// EncodeCount returns what a count adds to the row of its day. Sums of rows are rows of the sums.
func EncodeCount(n, bytes int64) uint64 {
	return uint64(n + bytes/journal.StoredStep<<countBits)
}

// DecodeCount returns what the row of a day counts.
func DecodeCount(of journal.Counted, row uint64) (n, bytes int64) {
	if of != journal.CountedMessages {
		return int64(row), 0
	}
	return int64(row & (1<<countBits - 1)), int64(row) >> countBits * journal.StoredStep
}

// Outbox names the outbox of journal Source for journal Target.
type Outbox struct{ Source, Target int }

func (l Outbox) String() string {
	return fmt.Sprintf("outbox from journal %d to %d", l.Source, l.Target)
}

// OutboxOf is the outbox, and the number of the message, in the key of an outbox
// message; false for a key of another length.
func (h Homes) OutboxOf(k []byte) (l Outbox, number uint64, ok bool) {
	if len(k) != outboxKeyBytes {
		return Outbox{}, 0, false
	}
	slot, _ := FamilyOf(k)
	return Outbox{Source: h.Of(slot), Target: int(binary.BigEndian.Uint16(k[journalKeyBytes:]))}, Number(k[journalKeyBytes+2:]), true
}

// SourceOf is the source in an OutboxReceivedKey; false for a key of another length.
func SourceOf(k []byte) (source int, ok bool) {
	if len(k) != receivedKeyBytes {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(k[journalKeyBytes:])), true
}

// TimerOf is the stream and the instant in a TimerKey; false for a key of another
// length.
func TimerOf(k []byte) (s journal.Stream, due time.Time, ok bool) {
	if len(k) != timerKeyBytes {
		return journal.Stream{}, time.Time{}, false
	}
	at := k[journalKeyBytes:]
	s = journal.Stream{Kind: journal.StreamKind(at[8]), ID: parley.IDFromBytes[parley.AnyID](at[9:])}
	return s, time.UnixMilli(int64(Number(at))).UTC(), true
}

// QuotaOf is what a QuotaKey names; false for a key of another length.
func QuotaOf(k []byte) (q Quota, ok bool) {
	if len(k) != quotaKeyBytes {
		return Quota{}, false
	}
	at := k[journalKeyBytes:]
	what := binary.BigEndian.Uint32(at[16:])
	return Quota{
		Org: parley.IDFromBytes[parley.OrgID](at[:16]), Day: what & 0xffff, Part: uint16(what >> 16 & 0xfff), Of: journal.Counted(what >> 28),
	}, true
}

// Applied is the row that says what a journal has applied.
type Applied struct {
	// Entries is how many entries and outbox messages the journal has applied since
	// the directory was made. Refused entries do not count. It says where whatever
	// follows the journal's entries goes on.
	Entries uint64
	// Position is the last position assigned.
	Position uint64
	// Arrival is the last arrival stamped, in Unix milliseconds.
	Arrival int64
}

// AppliedBytes is the size of the row's value.
const AppliedBytes = 24

// Encode is the value of the row.
func (a Applied) Encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, AppliedBytes), a.Entries)
	b = binary.BigEndian.AppendUint64(b, a.Position)
	return binary.BigEndian.AppendUint64(b, uint64(a.Arrival))
}

// DecodeApplied reads what Encode wrote.
func DecodeApplied(b []byte) (Applied, error) {
	if len(b) != AppliedBytes {
		return Applied{}, fmt.Errorf("the row of what a journal has applied has %d bytes", len(b))
	}
	return Applied{Number(b), NumberAt(b, 8), int64(NumberAt(b, 16))}, nil
}

// ReadApplied reads what a journal has applied: zero if it has no such row yet.
func (h Homes) ReadApplied(r pebble.Reader, journal int) (Applied, error) {
	value, found, err := Get(r, h.JournalKey(AppliedFamily, journal, 0))
	if err != nil || !found {
		return Applied{}, err
	}
	return DecodeApplied(value)
}
