package persistence

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley"
	"parley/journal"
	"parley/persistence/layout"
)

func TestWatermark(t *testing.T) {
	w := &watermark{}
	w.raise(5)
	for _, level := range []uint64{0, 4, 5} {
		if !w.wait(t.Context(), level, 0) {
			t.Errorf("at 5, waiting for %d", level)
		}
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if w.wait(hurried, 6, time.Hour) || w.wait(t.Context(), 6, time.Millisecond) {
		t.Error("at 5, a wait for 6 is over")
	}
	w.raise(3)
	if got := w.level.Load(); got != 5 {
		t.Errorf("the mark fell to %d", got)
	}
}

func TestWatermarkWakesWhomItReached(t *testing.T) {
	w := &watermark{}
	var all sync.WaitGroup
	for level := uint64(1); level <= 40; level++ {
		for range 3 {
			all.Go(func() {
				if !w.wait(t.Context(), level, time.Minute) {
					t.Errorf("not woken at %d", level)
				}
				if got := w.level.Load(); got < level {
					t.Errorf("woken at %d, waiting for %d", got, level)
				}
			})
		}
	}
	for level := uint64(0); level <= 40; level += 5 {
		time.Sleep(time.Millisecond)
		w.raise(level)
	}
	all.Wait()
	if len(w.waiters) != 0 {
		t.Errorf("%d waiters are kept", len(w.waiters))
	}
}

func TestQueueTakesWithinBounds(t *testing.T) {
	q := newQueue()
	costs := []int{10, 10, 70, 10, 200, 10, 10, 10, 10}
	for _, c := range costs {
		if !q.push(&item{cost: c}) {
			t.Fatal("an open queue refuses")
		}
	}
	var got [][]int
	for range 5 {
		taken, more := q.take(nil, 3, 80)
		if !more {
			t.Fatal("closed")
		}
		var batch []int
		for _, it := range taken {
			batch = append(batch, it.cost)
		}
		got = append(got, batch)
	}
	want := [][]int{{10, 10}, {70, 10}, {200}, {10, 10, 10}, {10}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("took %v, want %v", got, want)
	}
	q.push(&item{cost: 1})
	q.close()
	if q.push(&item{}) {
		t.Error("a closed queue takes")
	}
	if taken, more := q.take(nil, 3, 80); len(taken) != 1 || !more {
		t.Errorf("a closed queue gives %d of what it had", len(taken))
	}
	if taken, more := q.take(nil, 3, 80); len(taken) != 0 || more {
		t.Errorf("an empty closed queue gives %d, more %v", len(taken), more)
	}
}

func TestQueueLosesNothing(t *testing.T) {
	q := newQueue()
	const pushers, each = 8, 500
	var pushing sync.WaitGroup
	for p := range pushers {
		pushing.Go(func() {
			for i := range each {
				q.push(&item{cost: p*each + i})
			}
		})
	}
	go func() { pushing.Wait(); q.close() }()
	last := make([]int, pushers)
	total := 0
	for {
		taken, more := q.take(nil, 7, 1<<30)
		if !more {
			break
		}
		for _, it := range taken {
			p, i := it.cost/each, it.cost%each
			if i+1 <= last[p] {
				t.Fatalf("item %d of pusher %d comes after %d", i, p, last[p])
			}
			last[p], total = i+1, total+1
		}
	}
	if total != pushers*each {
		t.Errorf("%d came out of %d", total, pushers*each)
	}
}

func TestGateHasRoom(t *testing.T) {
	b := newAdmissionLimiter(2, 100)
	steps := []struct {
		size  int
		admit bool
	}{{40, true}, {61, false}, {60, true}, {0, false}}
	for _, s := range steps {
		if got := b.admit(s.size); got != s.admit {
			t.Errorf("%d bytes: admitted %v", s.size, got)
		}
	}
	b.free(40)
	b.free(60)
	if b.entries.Load() != 0 || b.bytes.Load() != 0 || b.admit(101) || !b.admit(100) {
		t.Errorf("left over: %d entries, %d bytes", b.entries.Load(), b.bytes.Load())
	}
}

// TestGateFollowsHowLongEntriesTake: down to the least where they take long, up
// to the bound where the limit is met and they do not, still where nobody presses.
func TestGateFollowsHowLongEntriesTake(t *testing.T) {
	const most = 5000
	turn := func(g *admissionLimiter, mean time.Duration, pressed, flooded bool) int64 {
		for range 200 {
			g.set(mean, pressed, flooded)
		}
		return g.limit.Load()
	}
	g := newAdmissionLimiter(most, 1)
	start := g.limit.Load()
	for _, step := range []struct {
		why     string
		mean    time.Duration
		pressed bool
		flooded bool
		want    int64
	}{
		{"quick and nobody presses", time.Millisecond, false, false, start},
		{"quick and pressed", time.Millisecond, true, false, most},
		{"slow", 2 * admissionGoal, true, false, admissionLeast},
		{"slow in a flood", 2 * admissionGoal, true, true, admissionFlood},
		{"the flood is over", 2 * admissionGoal, false, false, admissionLeast},
	} {
		if got := turn(g, step.mean, step.pressed, step.flooded); got != step.want {
			t.Errorf("%s: %d are let in, want %d", step.why, got, step.want)
		}
	}
}

// TestGateSetsItselfAnew lets entries come and go: windows end by their leaving.
func TestGateSetsItselfAnew(t *testing.T) {
	g, now := newAdmissionLimiter(5000, 1<<40), int64(1)
	for range 400 {
		came := now
		for g.admit(1) {
			now++
		}
		g.refused.Store(0) // few come
		if now += int64(admissionGoal) * 3; !g.full() {
			t.Fatal("not full, and yet nobody more is let in")
		}
		for g.entries.Load() > 0 {
			g.leave(1, came, now)
		}
	}
	if got := g.limit.Load(); got != admissionLeast {
		t.Errorf("entries take three times the goal, and %d are let in", got)
	}
}

// TestMergeOrder folds operands in any order and grouping, as compactions do.
func TestMergeOrder(t *testing.T) {
	receiptsKey := layout.MessageKey(layout.ReceiptFamily, 3, parley.MessageID{})
	sumKey := layout.QuotaKey(2, parley.OrgID{}, 9)
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
			receipts = append(receipts, layout.EncodeReceipts(m))
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
			sums = append(sums, layout.EncodeNumber(uint64(n)))
		}
		if got := fold(t, receiptsKey, receipts); !bytes.Equal(got, layout.EncodeReceipts(want)) {
			t.Errorf("receipts: got %x, want %v", got, want)
		}
		if got := fold(t, sumKey, sums); layout.Number(got) != sum {
			t.Errorf("sum: got %d, want %d", layout.Number(got), sum)
		}
	})
}

// fold merges operands (oldest first) as an engine may: any run of neighbours
// at any time, from either side.
func fold(t *rapid.T, key []byte, operands [][]byte) []byte {
	for len(operands) > 1 {
		from := rapid.IntRange(0, len(operands)-2).Draw(t, "from")
		to := rapid.IntRange(from+2, len(operands)).Draw(t, "to")
		start := rapid.IntRange(from, to-1).Draw(t, "start")
		m, err := layout.Merger.Merge(key, operands[start])
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
		"receipts of 8 bytes": {layout.MessageKey(layout.ReceiptFamily, 1, parley.MessageID{}), make([]byte, 8)},
		"a sum of 16 bytes":   {layout.QuotaKey(1, parley.OrgID{}, 1), make([]byte, 16)},
		"a family of others":  {layout.MessageKey(layout.RecordFamily, 1, parley.MessageID{}), make([]byte, 16)},
		"a key of no family":  {[]byte{0}, make([]byte, 16)},
	} {
		if _, err := layout.Merger.Merge(c.key, c.value); err == nil {
			t.Errorf("%s: merged", name)
		}
	}
}

func TestAfter(t *testing.T) {
	if got := layout.After([]byte{0xFF, 0xFF}); got != nil {
		t.Errorf("beyond the last prefix is %x", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0xFE, 0xFF}), 1, 6).Draw(t, "prefix")
		other := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0xFE, 0xFF}), 0, 9).Draw(t, "other")
		kept := slices.Clone(prefix)
		end := layout.After(prefix)
		if !bytes.Equal(kept, prefix) {
			t.Fatalf("the prefix was changed to %x", prefix)
		}
		within := bytes.Compare(other, prefix) >= 0 && (end == nil || bytes.Compare(other, end) < 0)
		if within != bytes.HasPrefix(other, prefix) {
			t.Errorf("%x is within [%x, %x): %v", other, prefix, end, within)
		}
	})
}

// TestKeysAreApart: no range that one reader scans holds a key of another sort.
func TestKeysAreApart(t *testing.T) {
	s, longer := newStream(7), newStream(7)
	agent := parley.AgentID(s.ID)
	ranges := map[string][]byte{
		"events": layout.StreamKey(layout.EventFamily, s, 0), "queue": layout.StreamKey(layout.QueueFamily, s, 0),
		"feed": append(layout.Key(7, layout.FeedFamily, 0), agent[:]...), "rows": layout.RowKey(7, journal.NameTable, nil),
		"outbox": layout.OutboxPrefix(1, 2), "timers": layout.MetaKey(layout.TimerFamily, 1, 0),
	}
	keys := map[string][]byte{
		"events": layout.EventKey(s, 1<<40), "queue": layout.QueueKey(s, 9), "feed": layout.FeedKey(layout.FeedFamily, agent, 3),
		"rows": layout.RowKey(7, journal.NameTable, []byte{0xFF, 0xFF}), "outbox": layout.OutboxKey(1, 2, 1<<50), "timers": layout.TimerKey(1, 1<<60, s),
		"another stream": layout.EventKey(longer, 1), "state": layout.StateKey(s), "untransferred": layout.FeedKey(layout.UntransferredFamily, agent, 3),
		"another table": layout.RowKey(7, journal.RosterTable, nil), "another outbox": layout.OutboxKey(1, 3, 1), "a outbox back": layout.OutboxKey(2, 1, 1),
		"outbox in": layout.OutboxReceivedKey(1, 2), "another journal's timers": layout.TimerKey(2, 0, s), "quota": layout.QuotaKey(1, parley.OrgID(s.ID), 1),
		"counter": layout.MetaKey(layout.CounterFamily, 1, 0), "format": layout.MetaKey(layout.FormatFamily, 0, 0),
		"copies": layout.MessageKey(layout.CopiesFamily, 7, parley.MessageID(s.ID)),
		"record": layout.MessageKey(layout.RecordFamily, 7, parley.MessageID(s.ID)), "receipts": layout.MessageKey(layout.ReceiptFamily, 7, parley.MessageID(s.ID)),
	}
	for scan, low := range ranges {
		for name, k := range keys {
			in := bytes.Compare(k, low) >= 0 && bytes.Compare(k, layout.After(low)) < 0
			if in != (name == scan) {
				t.Errorf("%s lies in the range of %s: %v", name, scan, in)
			}
		}
	}
}
