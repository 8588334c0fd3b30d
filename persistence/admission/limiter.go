// Package admission decides how many entries of clients a journal takes at a time. It knows
// nothing of what they hold: only their sizes, and how long they take.
package admission

import (
	"sync/atomic"
	"time"
)

const (
	// Entries of clients that a journal always admits at a time, however slow it
	// is: so many callers can wait for one answer each and none is refused.
	least = 640
	// flood replaces least while one part in floodShare
	// of the entries is refused anyway: a longer queue would not admit more
	// callers.
	flood      = 128
	floodShare = 8
	// window is how often the limit is adjusted.
	window = 50 * time.Millisecond
	// goal is how long an entry may take on average. If entries take
	// longer, fewer are admitted.
	goal = 20 * time.Millisecond
)

// Limiter bounds the entries of clients that are under way in a journal.
// The bound on bytes is fixed. The bound on entries follows from how long entries
// take: a longer queue makes no answer come sooner, so entries that would only
// lengthen it are refused before anything has happened.
type Limiter struct {
	entries, bytes       atomic.Int64
	entriesMax, bytesMax int64
	// limit of entries, between least (flood in a flood) and
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

// New returns a limiter that admits at most so many entries and bytes.
func New(entriesMax, bytesMax int64) *Limiter {
	g := &Limiter{entriesMax: entriesMax, bytesMax: bytesMax}
	g.limit.Store(min(2*least, entriesMax))
	return g
}

// Admit reserves room for one entry of size bytes, or refuses it.
func (g *Limiter) Admit(size int) bool {
	entries, bytes := g.entries.Add(1), g.bytes.Add(int64(size))
	if limit := g.limit.Load(); entries > limit || bytes > g.bytesMax {
		g.Press()
		g.free(size)
		return false
	}
	return true
}

func (g *Limiter) free(size int) {
	g.entries.Add(-1)
	g.bytes.Add(int64(-size))
}

// Press notes that an entry was refused.
func (g *Limiter) Press() {
	g.pressed.Store(true)
	g.refused.Add(1)
	g.turned.Add(1)
}

// Full reports whether one more entry would be refused.
func (g *Limiter) Full() bool { return g.entries.Load() >= g.limit.Load() }

// Leave returns the room of an entry that was admitted at came, and adjusts the
// limit when the window is over. Both times are ages.
func (g *Limiter) Leave(size int, came, now int64) {
	if g.entries.Load() >= g.limit.Load()*3/4 {
		g.pressed.Store(true)
	}
	g.free(size)
	g.took.Add(now - came)
	g.left.Add(1)
	began := g.began.Load()
	if now-began < int64(window) || !g.began.CompareAndSwap(began, now) {
		return
	}
	left, took, refused := g.left.Swap(0), g.took.Swap(0), g.refused.Swap(0)
	g.set(time.Duration(took/max(left, 1)), g.pressed.Swap(false), refused > left/floodShare)
}

// set moves the limit: down if entries take too long, up if it was reached and they
// do not.
func (g *Limiter) set(mean time.Duration, pressed, flooded bool) {
	limit, lowest := g.limit.Load(), int64(least)
	if flooded {
		lowest = flood
	}
	switch {
	case mean > goal:
		limit -= limit / 8
	case pressed:
		limit += limit/16 + 1
	}
	g.limit.Store(min(max(limit, lowest), g.entriesMax))
}

// Load is what a Limiter has admitted, its limits, and how many entries it has refused.
type Load struct {
	Entries, EntriesMax int
	Bytes, BytesMax     int64
	Refused             uint64
}

// Load returns what is admitted now.
func (g *Limiter) Load() Load {
	return Load{int(g.entries.Load()), int(g.limit.Load()), g.bytes.Load(), g.bytesMax, g.turned.Load()}
}
