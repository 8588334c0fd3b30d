package layout

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
)

// Merger merges receipts and counters. Both merges are commutative, so no turn has
// to read before it writes: of receipts the earliest instant wins, counters add up.
var Merger = &pebble.Merger{
	Name: "parley.v1",
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		if len(key) < 3 {
			return nil, fmt.Errorf("merge of a key of %d bytes", len(key))
		}
		switch key[2] {
		case ReceiptFamily:
			m := &receiptsMerger{}
			return m, m.add(value)
		case QuotaFamily:
			m := &sumMerger{}
			return m, m.add(value)
		}
		return nil, fmt.Errorf("no merge is defined for family %q", key[2])
	},
}

type receiptsMerger struct{ receipts journal.Receipts }

func (m *receiptsMerger) add(value []byte) error {
	receipts, err := DecodeReceipts(value)
	m.receipts = m.receipts.Earliest(receipts)
	return err
}

func (m *receiptsMerger) MergeNewer(value []byte) error { return m.add(value) }
func (m *receiptsMerger) MergeOlder(value []byte) error { return m.add(value) }

func (m *receiptsMerger) Finish(bool) ([]byte, io.Closer, error) {
	return EncodeReceipts(m.receipts), nil, nil
}

type sumMerger struct{ sum uint64 }

func (m *sumMerger) add(value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("counter of %d bytes", len(value))
	}
	m.sum += Number(value)
	return nil
}

func (m *sumMerger) MergeNewer(value []byte) error { return m.add(value) }
func (m *sumMerger) MergeOlder(value []byte) error { return m.add(value) }

func (m *sumMerger) Finish(bool) ([]byte, io.Closer, error) {
	return binary.BigEndian.AppendUint64(nil, m.sum), nil, nil
}
