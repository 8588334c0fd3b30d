package persistence

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"parley"
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
		case markFamily:
			m := &marksMerger{}
			return m, m.add(value)
		case quotaFamily:
			m := &sumMerger{}
			return m, m.add(value)
		}
		return nil, fmt.Errorf("no merge is defined for family %q", key[2])
	},
}

func encodeMarks(m parley.Marks) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint64(b, uint64(m.Delivered))
	binary.BigEndian.PutUint64(b[8:], uint64(m.Read))
	return b
}

func decodeMarks(b []byte) (parley.Marks, error) {
	if len(b) != 16 {
		return parley.Marks{}, fmt.Errorf("marks of %d bytes", len(b))
	}
	return parley.Marks{
		Delivered: int64(binary.BigEndian.Uint64(b)),
		Read:      int64(binary.BigEndian.Uint64(b[8:])),
	}, nil
}

func earliest(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

type marksMerger struct{ marks parley.Marks }

func (m *marksMerger) add(value []byte) error {
	marks, err := decodeMarks(value)
	m.marks.Delivered = earliest(m.marks.Delivered, marks.Delivered)
	m.marks.Read = earliest(m.marks.Read, marks.Read)
	return err
}

func (m *marksMerger) MergeNewer(value []byte) error { return m.add(value) }
func (m *marksMerger) MergeOlder(value []byte) error { return m.add(value) }

func (m *marksMerger) Finish(bool) ([]byte, io.Closer, error) { return encodeMarks(m.marks), nil, nil }

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
