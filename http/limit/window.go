package limit

import (
	"sync"
	"time"

	"parley"
)

// Window is an exact sliding window: whatever span of its length one looks at, at
// most its limit of requests of a key were let through in it, all at once if they
// like. Refused requests do not count. It remembers of each key when the requests
// in the window were let through, so it is for small limits. A nil Window lets
// everything through. It is safe for concurrent use.
type Window struct {
	limit  int
	length int64 // nanoseconds
	clock  parley.Clock
	passed cells[instants]
}

// instants are when requests of a key were let through, in nanoseconds, oldest
// first: those in the window, never more than the limit.
type instants struct {
	mu sync.Mutex
	at []int64
}

// NewWindow lets limit requests of each key through in any span of length. A
// limit of zero or less lifts it: the result is nil.
func NewWindow(limit int, length time.Duration, clock parley.Clock) *Window {
	if limit <= 0 {
		return nil
	}
	return &Window{limit: limit, length: int64(length), clock: clock, passed: newCells[instants](length, clock)}
}

// Draw is what a request asks of one window: to count under a key.
type Draw struct {
	Window *Window
	Key    string
}

// Standing is how a caller stands with the window that it meets first, after a
// request was let through or refused.
type Standing struct {
	OK bool
	// Limit is that of the window; 0: there is none.
	Limit int
	// Remaining is how many more requests would be let through at this instant.
	Remaining int
	// RetryAfter is, of a refused request, how long until one would be let through.
	RetryAfter time.Duration
	// Reset is how long until nothing is left in the window.
	Reset time.Duration
}

// TakeAll asks several windows for one request: either all of them let it
// through, or it counts in none. Callers that share windows name them in one
// order, and no window twice.
func TakeAll(draws ...Draw) Standing {
	held := make([]*instants, len(draws))
	var now int64
	for i, d := range draws {
		if d.Window == nil {
			continue
		}
		held[i] = d.Window.passed.of(d.Key)
		held[i].mu.Lock()
		defer held[i].mu.Unlock()
		now = d.Window.clock().UnixNano() // the last lock's, so that none is held with an earlier one
	}
	met := Standing{OK: true}
	for i, d := range draws {
		if held[i] == nil {
			continue
		}
		d.Window.slide(held[i], now)
		if len(held[i].at) >= d.Window.limit {
			met.OK = false
		}
	}
	for i, d := range draws {
		if held[i] == nil {
			continue
		}
		if met.OK {
			d.Window.add(held[i], now)
		}
		if s := d.Window.standing(held[i], now, met.OK); met.Limit == 0 || s.sooner(met) {
			met = s
		}
	}
	return met
}

// sooner reports whether s stops the caller earlier than o, or for longer.
func (s Standing) sooner(o Standing) bool {
	if s.OK {
		return s.Remaining < o.Remaining
	}
	return s.RetryAfter > o.RetryAfter
}

// slide forgets what has left the window.
func (w *Window) slide(cell *instants, now int64) {
	left := 0
	for left < len(cell.at) && now-cell.at[left] >= w.length {
		left++
	}
	cell.at = cell.at[:copy(cell.at, cell.at[left:])]
	if n := len(cell.at); n > 0 && cell.at[n-1]-now > int64(stepMin) {
		for i := range cell.at { // the clock was set back: nobody waits for the difference
			cell.at[i] = min(cell.at[i], now)
		}
	}
}

// add notes a request that is let through. Room is made as it is needed, and
// never for more than the limit.
func (w *Window) add(cell *instants, now int64) {
	n := len(cell.at)
	if n > 0 {
		now = max(now, cell.at[n-1])
	}
	if n == cap(cell.at) {
		room := make([]int64, n, min(w.limit, max(4, 2*n)))
		copy(room, cell.at)
		cell.at = room
	}
	cell.at = append(cell.at, now)
}

// standing is how the caller stands after a request that passed, or was refused
// by this window or another.
func (w *Window) standing(cell *instants, now int64, passed bool) Standing {
	s := Standing{OK: passed, Limit: w.limit, Remaining: w.limit - len(cell.at)}
	if n := len(cell.at); n > 0 {
		s.Reset = time.Duration(cell.at[n-1] + w.length - now)
		if s.Remaining == 0 && !passed {
			s.RetryAfter = time.Duration(cell.at[0] + w.length - now)
		}
	}
	return s
}
