package record

import (
	"encoding/binary"
	"time"
)

// CreatedAt returns when the card was first published, UTC.
func (c *Card) CreatedAt() time.Time { return time.UnixMilli(c.GetCreatedMs()).UTC() }

// UpdatedAt returns when the card was last published, UTC.
func (c *Card) UpdatedAt() time.Time { return time.UnixMilli(c.GetUpdatedMs()).UTC() }

// CardSummary encodes what the events of an agent and the row of its card both say.
func CardSummary(createdMs, updatedMs int64, revision uint32, public, a2a bool) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(createdMs))
	b = binary.BigEndian.AppendUint64(b, uint64(updatedMs))
	b = binary.BigEndian.AppendUint32(b, revision)
	return append(b, flag(public)|flag(a2a)<<1)
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
