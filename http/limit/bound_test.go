package limit

import (
	"encoding/binary"
	"testing"
	"time"

	"parley/client/parley"
)

// TestMemoryIsBounded: clients without credentials choose keys and how often they send.
// Neither makes a limiter grow beyond its bounds.
func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	l, w := New(60, time.Minute, 60, clock), NewWindow(20, time.Minute, clock)
	for i := range uint64(3 * keysMax) {
		key := string(binary.BigEndian.AppendUint64(nil, i))
		l.Take(key)
		TakeAll(Draw{w, key})
	}
	l.arrivals.CleanUp()
	w.passed.CleanUp()
	if a, b := l.arrivals.EstimatedSize(), w.passed.EstimatedSize(); a > keysMax || b > keysMax {
		t.Errorf("%d and %d keys are kept, want at most %d", a, b, keysMax)
	}
	for range 1000 {
		TakeAll(Draw{w, "one"})
	}
	if cell := w.passed.of("one"); len(cell.at) != 20 || cap(cell.at) > 20 {
		t.Errorf("%d times, with capacity for %d, are kept for a key, want at most 20", len(cell.at), cap(cell.at))
	}
}

// TestConcurrencyIsForgotten: nodes that were started again and again, and told much, leave
// nothing behind.
func TestConcurrencyIsForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	c := NewShared(clock, parley.RandomEntropy).Concurrency("streams")
	most := 0
	for n := range uint64(3 * nodesMax) {
		node := append(binary.BigEndian.AppendUint64(nil, n), 0, 0)
		for i := range uint64(100) {
			c.receive(binary.BigEndian.AppendUint64(append(node[:10:10], make([]byte, 8)...), i), 1)
		}
		c.take("", nil)
		most, now = max(most, len(c.others)), now.Add(time.Second)
	}
	if most != nodesMax {
		t.Errorf("%d nodes are remembered, want %d", most, nodesMax)
	}
	for range 3 {
		c.take("", nil)
		now = now.Add(keepFor)
	}
	if len(c.others) != 0 {
		t.Errorf("%d nodes are never forgotten", len(c.others))
	}
}
