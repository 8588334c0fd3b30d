package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/persistence/disk"
)

// GroupPosition is how far a replica has applied the order of its group. Its row is part
// of every batch that is applied, so that rows and position never disagree.
//
// The number of the head is the index of the last place that was applied. Replicas with the
// same number have the same chain, or one of them is damaged.
type GroupPosition struct {
	disk.Head
	// Term is that of the leader who proposed the place.
	Term uint64
	// Note is what the sequencer keeps with the position.
	Note []byte
}

// groupPositionBytes is the size of the row's value without the note.
const groupPositionBytes = 24

// GroupKey is the key of the row. It lies in the span of the first journal: all rows of
// a group are one span of keys.
func GroupKey() []byte { return Key(0, GroupFamily, 0) }

// Next is the position after the next place, which holds a batch or nothing.
func (p GroupPosition) Next(term uint64, batch []byte) GroupPosition {
	return GroupPosition{Head: p.Head.Next(batch), Term: term, Note: p.Note}
}

// Encode is the value of the row.
func (p GroupPosition) Encode() []byte {
	b := binary.BigEndian.AppendUint64(p.Append(make([]byte, 0, groupPositionBytes+len(p.Note))), p.Term)
	return append(b, p.Note...)
}

// DecodeGroupPosition reads what Encode wrote.
func DecodeGroupPosition(b []byte) (p GroupPosition, err error) {
	if len(b) < groupPositionBytes {
		return p, fmt.Errorf("the row of what a replica has applied has %d bytes", len(b))
	}
	p.Term, p.Note = NumberAt(b, 16), append([]byte(nil), b[groupPositionBytes:]...)
	p.Head, err = disk.DecodeHead(b[:16])
	return p, err
}

// ReadGroupPosition reads the row: zero if there is none.
func ReadGroupPosition(r pebble.Reader) (GroupPosition, error) {
	value, found, err := Get(r, GroupKey())
	if err != nil || !found {
		return GroupPosition{}, err
	}
	return DecodeGroupPosition(value)
}

// AgentOf is the agent in a FeedKey.
func AgentOf(k []byte) parley.AgentID { return parley.AgentID(k[3:19]) }
