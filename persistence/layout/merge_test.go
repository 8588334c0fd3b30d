package layout

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/journal"
)

// TestMergeOrder folds operands in any order and grouping, as compactions do.
func TestMergeOrder(t *testing.T) {
	receiptsKey := MessageKey(ReceiptFamily, 3, parley.MessageID{})
	sumKey := Homes(3).QuotaKey(2, Quota{Day: 9})
	rapid.Check(t, func(t *rapid.T) {
		var receipts, sums [][]byte
		want, sum := journal.Receipts{}, uint64(0)
		for range rapid.IntRange(1, 12).Draw(t, "operands") {
			m := journal.Receipts{
				TransferredAt: rapid.Int64Range(0, 9).Draw(t, "delivered"), ReadAt: rapid.Int64Range(0, 9).Draw(t, "read"),
				AnnouncedAt: rapid.Int64Range(0, 9).Draw(t, "announced"),
			}
			if m.TransferredAt != 0 {
				m.TransferredBy = journal.Channel(rapid.IntRange(0, 2).Draw(t, "channel"))
			}
			receipts = append(receipts, EncodeReceipts(m))
			if m.TransferredAt != 0 && (want.TransferredAt == 0 || m.TransferredAt < want.TransferredAt) {
				want.TransferredAt, want.TransferredBy = m.TransferredAt, m.TransferredBy
			}
			if m.TransferredAt != 0 && m.TransferredAt == want.TransferredAt {
				want.TransferredBy = min(want.TransferredBy, m.TransferredBy)
			}
			if m.AnnouncedAt != 0 && (want.AnnouncedAt == 0 || m.AnnouncedAt < want.AnnouncedAt) {
				want.AnnouncedAt = m.AnnouncedAt
			}
			if m.ReadAt != 0 && (want.ReadAt == 0 || m.ReadAt < want.ReadAt) {
				want.ReadAt = m.ReadAt
			}
			n := rapid.Int64Range(-5, 5).Draw(t, "count")
			sum += uint64(n)
			sums = append(sums, EncodeNumber(uint64(n)))
		}
		if got := fold(t, receiptsKey, receipts); !bytes.Equal(got, EncodeReceipts(want)) {
			t.Errorf("receipts: got %x, want %v", got, want)
		}
		if got := fold(t, sumKey, sums); Number(got) != sum {
			t.Errorf("sum: got %d, want %d", Number(got), sum)
		}
	})
}

// fold merges operands, oldest first, in any grouping that an engine may use.
func fold(t *rapid.T, key []byte, operands [][]byte) []byte {
	for len(operands) > 1 {
		from := rapid.IntRange(0, len(operands)-2).Draw(t, "from")
		to := rapid.IntRange(from+2, len(operands)).Draw(t, "to")
		start := rapid.IntRange(from, to-1).Draw(t, "start")
		m, err := Merger.Merge(key, operands[start])
		for low, high := start-1, start+1; err == nil && (low >= from || high < to); {
			if high < to && (low < from || rapid.Bool().Draw(t, "newer")) {
				err = m.MergeNewer(operands[high])
				high++
			} else {
				err = m.MergeOlder(operands[low])
				low--
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		merged, closer, err := m.Finish(false)
		if err != nil || closer != io.Closer(nil) {
			t.Fatal(err)
		}
		operands = slices.Replace(operands, from, to, merged)
	}
	return operands[0]
}

func TestMergeRefusesDamage(t *testing.T) {
	for name, c := range map[string]struct{ key, value []byte }{
		"receipts of 8 bytes": {MessageKey(ReceiptFamily, 1, parley.MessageID{}), make([]byte, 8)},
		"a sum of 16 bytes":   {Homes(3).QuotaKey(1, Quota{Day: 1}), make([]byte, 16)},
		"a family of others":  {MessageKey(RecordFamily, 1, parley.MessageID{}), make([]byte, 16)},
		"a key of no family":  {[]byte{0}, make([]byte, 16)},
	} {
		if _, err := Merger.Merge(c.key, c.value); err == nil {
			t.Errorf("%s: merged", name)
		}
	}
}
