package limit

import (
	"encoding/binary"
	"testing"
	"time"
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
