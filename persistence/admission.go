package persistence

import (
	"sync/atomic"
	"time"
)

const (
	// admissionLeast entries of clients may be under way in a journal however slow it
	// is: that many callers may wait for one answer each and are refused nothing.
	admissionLeast = 640
	// admissionFlood is the least where admissionFloodShare of those who come are refused
	// anyhow: no fewer callers would be refused by a longer queue.
	admissionFlood      = 128
	admissionFloodShare = 8
	// admissionWindow is how often the gate is set anew.
	admissionWindow = 50 * time.Millisecond
	// admissionGoal is how long an entry may be under way, on the mean: where it takes
	// longer, fewer are let in.
	admissionGoal = 20 * time.Millisecond
)

// admissionLimiter bounds what clients have under way in a journal. Bytes have a fixed
// bound. How many entries are let in follows from how long they take: a queue
// that stands makes nobody's answer come sooner, so what would only lengthen it
// is refused before anything happened, and what is let in is answered soon.
type admissionLimiter struct {
	entries, bytes       atomic.Int64
	entriesMax, bytesMax int64
	// limit of entries, between admissionLeast, or in a flood admissionFlood, and entriesMax.
	limit atomic.Int64
	// pressed tells that the limit was met in this window.
	pressed atomic.Bool
	began   atomic.Int64  // of the window, as an age, see disk.Monitor
	refused atomic.Int64  // entries that found no room within it
	left    atomic.Int64  // entries that left
	took    atomic.Int64  // nanoseconds that they were under way, together
	turned  atomic.Uint64 // entries that ever found no room
}

func newAdmissionLimiter(entriesMax, bytesMax int64) *admissionLimiter {
	g := &admissionLimiter{entriesMax: entriesMax, bytesMax: bytesMax}
	g.limit.Store(min(2*admissionLeast, entriesMax))
	return g
}

// admit takes room for one entry of size bytes, or refuses.
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

// leave gives the room of an entry back that came in at came, and sets the gate
// anew when the window is over. Both times are ages.
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

// set moves the limit: down where entries take too long, up where it was met
// and they do not.
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
