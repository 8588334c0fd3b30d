package record

import (
	"bytes"
	"encoding/binary"
	fmt "fmt"
	"strings"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// Quarantined is a message that an actor could not decode. It was stored unchanged and
// had no effect. // docs: operations.md
type Quarantined struct {
	// To is the recipient, Number the message's number in the recipient's queue.
	To     journal.Stream
	Number uint64
	// At is when it was quarantined.
	At   time.Time
	Word []byte
	// Why says why this release cannot decode it, or that it can.
	Why string
}

// Quarantine calls fn with every quarantined message until fn returns false.
func Quarantine(v interface {
	Table(table journal.Table, fn func(key, value []byte) bool) error
}, fn func(Quarantined) bool,
) error {
	return v.Table(journal.QuarantineTable, func(key, value []byte) bool {
		if !IsQuarantine(key, value) { // `parley verify` reports it
			return true
		}
		q := QuarantinedOf(key, value)
		q.Word = bytes.Clone(q.Word)
		return fn(q)
	})
}

// IsQuarantine reports whether a row of the quarantine is well-formed.
func IsQuarantine(key, value []byte) bool { return len(key) == 25 && len(value) >= 8 }

// QuarantinedOf decodes such a row. Word aliases value.
func QuarantinedOf(key, value []byte) Quarantined {
	q := Quarantined{
		To:     journal.Stream{Kind: journal.StreamKind(key[0]), ID: parley.IDFromBytes[parley.AnyID](key[1:17])},
		Number: binary.BigEndian.Uint64(key[17:]), At: time.UnixMilli(int64(binary.BigEndian.Uint64(value))).UTC(), Word: value[8:],
	}
	q.Why = "this release can decode it"
	if _, err := DecodeSagaMessage(q.To.Kind, q.Word); err != nil {
		q.Why = err.Error()
	}
	return q
}

// Actor returns the name of the recipient.
func (q *Quarantined) Actor() string { return StreamName(q.To) }

// Name returns the name by which an operator drops the row.
func (q *Quarantined) Name() string {
	return fmt.Sprintf("%s/%d", strings.ReplaceAll(q.Actor(), " ", "-"), q.Number)
}

// Drop returns the entry that deletes the row.
func (q *Quarantined) Drop(at time.Time, release func(error)) *journal.Entry {
	return &journal.Entry{Slot: q.To.Slot(), At: at, Release: release, Rows: []journal.Row{{
		Slot: q.To.Slot(), Table: journal.QuarantineTable, Key: QuarantineKey(q.To, q.Number), Delete: true,
	}}}
}

// QuarantineKey returns the key of a row of journal.QuarantineTable.
func QuarantineKey(s journal.Stream, number uint64) []byte {
	k := append(make([]byte, 0, 25), byte(s.Kind))
	return binary.BigEndian.AppendUint64(append(k, s.ID[:]...), number)
}

var streamKinds = map[journal.StreamKind]string{
	journal.OrgStream: "organization", journal.AgentStream: "agent",
	journal.ConversationStream: "conversation", journal.IssuerStream: "signing keys", journal.OperatorStream: "operator tokens", journal.SlugStream: "slug",
	journal.GroupStream: "group", journal.WebhookStream: "webhook", journal.WorkloadStream: "workload identity",
	journal.KeyLogStream: "key log",
}

// StreamName returns a readable name of a stream: the kind of its actor and its id.
func StreamName(s journal.Stream) string {
	if kind, ok := streamKinds[s.Kind]; ok {
		return kind + " " + s.ID.String()
	}
	return fmt.Sprintf("stream %d/%s", s.Kind, s.ID)
}

// QuarantineRow returns the row's value: the instant in milliseconds, then the message.
func QuarantineRow(at time.Time, word []byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(word)), uint64(at.UnixMilli()))
	return append(b, word...)
}
