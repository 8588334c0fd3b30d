package persistence

import (
	"sync/atomic"
	"time"
)

const (
	// Entries of clients that a journal always admits at a time, however slow it
	// is: so many callers can wait for one answer each and none is refused.
	admissionLeast = 640
	// admissionFlood replaces admissionLeast while one part in admissionFloodShare
	// of the entries is refused anyway: a longer queue would not admit more
	// callers.
	admissionFlood      = 128
	admissionFloodShare = 8
	// admissionWindow is how often the limit is adjusted.
	admissionWindow = 50 * time.Millisecond
	// admissionGoal is how long an entry may take on average. If entries take
	// longer, fewer are admitted.
	admissionGoal = 20 * time.Millisecond
)

// admissionLimiter bounds the entries of clients that are under way in a journal.
// The bound on bytes is fixed. The bound on entries follows from how long entries
// take: a longer queue makes no answer come sooner, so entries that would only
// lengthen it are refused before anything has happened.
type admissionLimiter struct {
	entries, bytes       atomic.Int64
	entriesMax, bytesMax int64
	// limit of entries, between admissionLeast (admissionFlood in a flood) and
	// entriesMax.
	limit atomic.Int64
	// pressed: the limit was reached in this window.
	pressed atomic.Bool
	began   atomic.Int64  // of the window, as an age, see disk.Monitor
	refused atomic.Int64  // entries refused in the window
	left    atomic.Int64  // entries released in the window
	took    atomic.Int64  // nanoseconds that those were under way, in total
	turned  atomic.Uint64 // entries refused since the store was opened
}

func newAdmissionLimiter(entriesMax, bytesMax int64) *admissionLimiter {
	g := &admissionLimiter{entriesMax: entriesMax, bytesMax: bytesMax}
	g.limit.Store(min(2*admissionLeast, entriesMax))
	return g
}

// admit reserves room for one entry of size bytes, or refuses it.
func (g *admissionLimiter) admit(size int) bool {
	entries, bytes := g.entries.Add(1), g.bytes.Add(int64(size))
	if limit := g.limit.Load(); entries > limit || bytes > g.bytesMax {
		g.press()
		g.free(size)
		return false
	}
	return true
}

func (g *admissionLimiter) free(size int) {
	g.entries.Add(-1)
	g.bytes.Add(int64(-size))
}

func (g *admissionLimiter) press() {
	g.pressed.Store(true)
	g.refused.Add(1)
	g.turned.Add(1)
}

// full reports whether one more entry would be refused.
func (g *admissionLimiter) full() bool { return g.entries.Load() >= g.limit.Load() }

// leave returns the room of an entry that was admitted at came, and adjusts the
// limit when the window is over. Both times are ages.
func (g *admissionLimiter) leave(size int, came, now int64) {
	if g.entries.Load() >= g.limit.Load()*3/4 {
		g.pressed.Store(true)
	}
	g.free(size)
	g.took.Add(now - came)
	g.left.Add(1)
	began := g.began.Load()
	if now-began < int64(admissionWindow) || !g.began.CompareAndSwap(began, now) {
		return
	}
	left, took, refused := g.left.Swap(0), g.took.Swap(0), g.refused.Swap(0)
	g.set(time.Duration(took/max(left, 1)), g.pressed.Swap(false), refused > left/admissionFloodShare)
}

// set moves the limit: down if entries take too long, up if it was reached and they
// do not.
func (g *admissionLimiter) set(mean time.Duration, pressed, flooded bool) {
	limit, least := g.limit.Load(), int64(admissionLeast)
	if flooded {
		least = admissionFlood
	}
	switch {
	case mean > admissionGoal:
		limit -= limit / 8
	case pressed:
		limit += limit/16 + 1
	}
	g.limit.Store(min(max(limit, least), g.entriesMax))
}
