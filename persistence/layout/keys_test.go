package layout

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/journal"
)

func TestAfter(t *testing.T) {
	if got := After([]byte{0xFF, 0xFF}); got != nil {
		t.Errorf("beyond the last prefix is %x", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0xFE, 0xFF}), 1, 6).Draw(t, "prefix")
		other := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0xFE, 0xFF}), 0, 9).Draw(t, "other")
		kept := slices.Clone(prefix)
		end := After(prefix)
		if !bytes.Equal(kept, prefix) {
			t.Fatalf("the prefix was changed to %x", prefix)
		}
		within := bytes.Compare(other, prefix) >= 0 && (end == nil || bytes.Compare(other, end) < 0)
		if within != bytes.HasPrefix(other, prefix) {
			t.Errorf("%x is within [%x, %x): %v", other, prefix, end, within)
		}
	})
}

// TestKeysAreApart: no range that a reader scans contains a key of another kind.
func TestKeysAreApart(t *testing.T) {
	s, longer, h := newStream(1), newStream(2), Homes(3)
	agent := parley.AgentID(s.ID)
	ranges := map[string][]byte{
		"events": StreamKey(EventFamily, s, 0), "queue": StreamKey(QueueFamily, s, 0),
		"feed": append(Key(7, FeedFamily, 0), agent[:]...), "rows": RowKey(7, journal.NameTable, nil),
		"outbox": h.OutboxPrefix(1, 2), "timers": h.JournalKey(TimerFamily, 1, 0),
	}
	keys := map[string][]byte{
		"events": EventKey(s, 1<<40), "queue": QueueKey(s, 9), "feed": FeedKey(FeedFamily, agent, 3),
		"rows": RowKey(7, journal.NameTable, []byte{0xFF, 0xFF}), "outbox": h.OutboxKey(1, 2, 1<<50), "timers": h.TimerKey(1, 1<<60, s),
		"another stream": EventKey(longer, 1), "state": StateKey(s), "feed receipts": FeedKey(ReceiptFamily, agent, 3),
		"another table": RowKey(7, journal.RosterTable, nil), "another outbox": h.OutboxKey(1, 3, 1), "a outbox back": h.OutboxKey(2, 1, 1),
		"outbox in": h.OutboxReceivedKey(1, 2), "another journal's timers": h.TimerKey(2, 0, s), "quota": h.QuotaKey(1, Quota{Org: parley.OrgID(s.ID), Day: 1}),
		"applied": h.JournalKey(AppliedFamily, 1, 0), "format": StoreKey(FormatFamily), "head": HeadKey(7),
		"copies": MessageKey(CopiesFamily, 7, parley.MessageID(s.ID)),
		"record": MessageKey(RecordFamily, 7, parley.MessageID(s.ID)), "receipts": MessageKey(ReceiptFamily, 7, parley.MessageID(s.ID)),
	}
	for scan, low := range ranges {
		for name, k := range keys {
			in := bytes.Compare(k, low) >= 0 && bytes.Compare(k, After(low)) < 0
			if in != (name == scan) {
				t.Errorf("%s lies in the range of %s: %v", name, scan, in)
			}
		}
	}
}

// TestHomesAreRanges: each slot has one home, the homes are contiguous ranges whose
// sizes differ by at most one, and every key of a journal lies in its span.
func TestHomesAreRanges(t *testing.T) {
	s := newStream(1)
	for _, h := range []Homes{1, 2, 3, 4, 7, 64, parley.Slots} {
		if h.First(0) != 0 || h.First(int(h)) != parley.Slots {
			t.Errorf("%d journals: the ranges begin at %d and end at %d", h, h.First(0), h.First(int(h)))
		}
		for n := range int(h) {
			low, high := h.First(n), h.First(n+1)
			if size := int(high - low); size < parley.Slots/int(h) || size > parley.Slots/int(h)+1 {
				t.Fatalf("%d journals: journal %d has %d slots", h, n, size)
			}
			for slot := low; slot < high; slot++ {
				if h.Of(slot) != n {
					t.Fatalf("%d journals: slot %d has home %d, not %d", h, slot, h.Of(slot), n)
				}
			}
			for _, k := range [][]byte{
				h.JournalKey(AppliedFamily, n, 0), h.OutboxKey(n, 1, 1<<50), h.OutboxReceivedKey(n, 1),
				h.TimerKey(n, 1<<60, s), h.QuotaKey(n, Quota{Org: parley.OrgID(s.ID), Day: 1 << 15, Of: 3, Part: 1<<12 - 1}),
			} {
				if bytes.Compare(k, Key(low, 0, 0)) < 0 || bytes.Compare(k, Key(high, 0, 0)[:2]) >= 0 {
					t.Errorf("%d journals: key %x of journal %d lies outside its span", h, k, n)
				}
			}
		}
	}
}

// newStream makes the n-th stream of slot 7.
func newStream(n byte) journal.Stream {
	return journal.Stream{Kind: journal.ConversationStream, ID: parley.NewID[parley.AnyID](7, time.UnixMilli(1), [10]byte{n})}
}
