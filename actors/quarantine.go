package actors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"parley"
	"parley/journal"
)

// Quarantined is a word that was stored for an actor and could not be decoded. It
// was put aside as it was and had no effect. // docs: operations.md
type Quarantined struct {
	// To is the actor that it was for, Number its place in that one's tray.
	To     journal.Stream
	Number uint64
	// At is when it was put aside.
	At   time.Time
	Word []byte
	// Why this release cannot decode it, or that it can.
	Why string
}

// Quarantine calls fn with all that is in quarantine, until fn returns false.
func Quarantine(v interface {
	Table(table journal.Table, fn func(key, value []byte) bool) error
}, fn func(Quarantined) bool,
) error {
	return v.Table(journal.QuarantineTable, func(key, value []byte) bool {
		if !isQuarantine(key, value) { // `parley verify` names it
			return true
		}
		q := quarantinedOf(key, value)
		q.Word = bytes.Clone(q.Word)
		return fn(q)
	})
}

// isQuarantine reports whether a row of the quarantine can be read.
func isQuarantine(key, value []byte) bool { return len(key) == 25 && len(value) >= 8 }

// quarantinedOf reads such a row; the word is that of the value.
func quarantinedOf(key, value []byte) Quarantined {
	q := Quarantined{
		To:     journal.Stream{Kind: journal.StreamKind(key[0]), ID: parley.IDFromBytes[parley.AnyID](key[1:17])},
		Number: binary.BigEndian.Uint64(key[17:]), At: time.UnixMilli(int64(binary.BigEndian.Uint64(value))).UTC(), Word: value[8:],
	}
	q.Why = "this release can decode it"
	if _, err := decodeWord(q.To.Kind, q.Word); err != nil {
		q.Why = err.Error()
	}
	return q
}

// Actor names whom the word was for.
func (q *Quarantined) Actor() string { return streamName(q.To) }

// Name is the row's own, by which an operator drops it.
func (q *Quarantined) Name() string {
	return fmt.Sprintf("%s/%d", strings.ReplaceAll(q.Actor(), " ", "-"), q.Number)
}

// Drop is the entry that deletes the row.
func (q *Quarantined) Drop(at time.Time, release func(error)) *journal.Entry {
	return &journal.Entry{Slot: q.To.Slot(), At: at, Release: release, Rows: []journal.Row{{
		Slot: q.To.Slot(), Table: journal.QuarantineTable, Key: quarantineKey(q.To, q.Number), Delete: true,
	}}}
}
