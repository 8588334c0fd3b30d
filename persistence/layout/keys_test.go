package layout

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley"
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
	s, longer := newStream(1), newStream(2)
	agent := parley.AgentID(s.ID)
	ranges := map[string][]byte{
		"events": StreamKey(EventFamily, s, 0), "queue": StreamKey(QueueFamily, s, 0),
		"feed": append(Key(7, FeedFamily, 0), agent[:]...), "rows": RowKey(7, journal.NameTable, nil),
		"outbox": OutboxPrefix(1, 2), "timers": MetaKey(TimerFamily, 1, 0),
	}
	keys := map[string][]byte{
		"events": EventKey(s, 1<<40), "queue": QueueKey(s, 9), "feed": FeedKey(FeedFamily, agent, 3),
		"rows": RowKey(7, journal.NameTable, []byte{0xFF, 0xFF}), "outbox": OutboxKey(1, 2, 1<<50), "timers": TimerKey(1, 1<<60, s),
		"another stream": EventKey(longer, 1), "state": StateKey(s), "untransferred": FeedKey(UntransferredFamily, agent, 3),
		"another table": RowKey(7, journal.RosterTable, nil), "another outbox": OutboxKey(1, 3, 1), "a outbox back": OutboxKey(2, 1, 1),
		"outbox in": OutboxReceivedKey(1, 2), "another journal's timers": TimerKey(2, 0, s), "quota": QuotaKey(1, parley.OrgID(s.ID), 1),
		"counter": MetaKey(CounterFamily, 1, 0), "format": MetaKey(FormatFamily, 0, 0),
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

// newStream makes the n-th stream of slot 7.
func newStream(n byte) journal.Stream {
	return journal.Stream{Kind: journal.ConversationStream, ID: parley.NewID[parley.AnyID](7, time.UnixMilli(1), [10]byte{n})}
}
