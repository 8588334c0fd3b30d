package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
)

// Marks and counters change by commutative merges, so that no turn has to read
// before it writes: of marks the earliest instant wins, counters add up.
var merger = &pebble.Merger{
	Name: "parley.v1",
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		if len(key) < 3 {
			return nil, fmt.Errorf("merge of a key of %d bytes", len(key))
		}
		switch key[2] {
		case receiptFamily:
			m := &marksMerger{}
			return m, m.add(value)
		case quotaFamily:
			m := &sumMerger{}
			return m, m.add(value)
		}
		return nil, fmt.Errorf("no merge is defined for family %q", key[2])
	},
}

// marksBytes are those of marks without, announcedBytes of marks with a webhook's.
const (
	marksBytes     = 16
	announcedBytes = 24
	// instantBits of a delivery's instant leave a byte for its channel above them.
	instantBits = 56
)

func encodeReceipts(m journal.Receipts) []byte {
	b := make([]byte, marksBytes, announcedBytes)
	binary.BigEndian.PutUint64(b, uint64(m.TransferredAt)|uint64(m.TransferredBy)<<instantBits)
	binary.BigEndian.PutUint64(b[8:], uint64(m.ReadAt))
	if m.AnnouncedAt != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(m.AnnouncedAt))
	}
	return b
}

func decodeReceipts(b []byte) (journal.Receipts, error) {
	if len(b) != marksBytes && len(b) != announcedBytes {
		return journal.Receipts{}, fmt.Errorf("marks of %d bytes", len(b))
	}
	delivered := number(b)
	m := journal.Receipts{
		TransferredAt: int64(delivered & (1<<instantBits - 1)), TransferredBy: journal.Channel(delivered >> instantBits), ReadAt: int64(number(b[8:16])),
	}
	if len(b) == announcedBytes {
		if m.AnnouncedAt = int64(number(b[16:])); m.AnnouncedAt == 0 {
			return journal.Receipts{}, errors.New("marks that say a webhook's was none")
		}
	}
	return m, nil
}

type marksMerger struct{ marks journal.Receipts }

func (m *marksMerger) add(value []byte) error {
	marks, err := decodeReceipts(value)
	m.marks = m.marks.Earliest(marks)
	return err
}

func (m *marksMerger) MergeNewer(value []byte) error { return m.add(value) }
func (m *marksMerger) MergeOlder(value []byte) error { return m.add(value) }

func (m *marksMerger) Finish(bool) ([]byte, io.Closer, error) {
	return encodeReceipts(m.marks), nil, nil
}

type sumMerger struct{ sum uint64 }

func (m *sumMerger) add(value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("counter of %d bytes", len(value))
	}
	m.sum += number(value)
	return nil
}

func (m *sumMerger) MergeNewer(value []byte) error { return m.add(value) }
func (m *sumMerger) MergeOlder(value []byte) error { return m.add(value) }

func (m *sumMerger) Finish(bool) ([]byte, io.Closer, error) {
	return binary.BigEndian.AppendUint64(nil, m.sum), nil, nil
}
