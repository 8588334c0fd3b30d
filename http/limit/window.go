package limit

import (
	"strings"
	"sync"
	"time"

	"parley/client/parley"
)

// Window is an exact sliding window: in any span of its length, it admits at most its
// limit of requests of a key, possibly all at once. Rejected requests do not count. It
// remembers when each request in the window was admitted, so it is meant for small
// limits. A nil Window admits everything. It is safe for concurrent use.
type Window struct {
	limit  int
	length int64 // nanoseconds
	clock  parley.Clock
	passed cells[instants]
	// note, if set, gets what is admitted and given back, see Shared.
	note func(key string, n int)
}

// instants are when requests of a key were admitted, in nanoseconds, oldest first: those
// in the window, never more than the limit, or twice of it with those of other nodes.
type instants struct {
	mu sync.Mutex
	at []int64
}

// NewWindow returns a window that admits limit requests of each key in any span of
// length. If limit is zero or less, there is no limit and the result is nil.
func NewWindow(limit int, length time.Duration, clock parley.Clock) *Window {
	if limit <= 0 {
		return nil
	}
	return &Window{limit: limit, length: int64(length), clock: clock, passed: newCells[instants](length, clock)}
}

// Draw is a request to one window to count under a key.
type Draw struct {
	Window *Window
	Key    string
}

// Standing is a caller's state in the window whose limit it reaches first, after a
// request was admitted or rejected.
type Standing struct {
	OK bool
	// Limit is the limit of the window. 0 means no limit.
	Limit int
	// Remaining is how many more requests would be admitted at this instant.
	Remaining int
	// RetryAfter is the time until a rejected request would be admitted.
	RetryAfter time.Duration
	// Reset is the time until the window is empty.
	Reset time.Duration
}

// TakeAll counts one request in several windows: either all admit it, or it counts in
// none. Callers that share windows must pass them in the same order, and no window twice.
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
		now = d.Window.clock().UnixNano() // the time under the last lock, so that no window sees an earlier one
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
			if d.Window.note != nil {
				d.Window.note(strings.Clone(d.Key), 1)
			}
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

// GiveBack undoes an admission of a key: the newest one, if there were several.
func (w *Window) GiveBack(key string) {
	w.Spend(key, -1)
	if w != nil && w.note != nil {
		w.note(strings.Clone(key), -1)
	}
}

// slide drops what has left the window.
func (w *Window) slide(cell *instants, now int64) {
	left := 0
	for left < len(cell.at) && now-cell.at[left] >= w.length {
		left++
	}
	cell.at = cell.at[:copy(cell.at, cell.at[left:])]
	if n := len(cell.at); n > 0 && cell.at[n-1]-now > int64(stepMin) {
		for i := range cell.at { // the clock was set back: the key must not wait for the difference
			cell.at[i] = min(cell.at[i], now)
		}
	}
}

// add records an admitted request. It allocates room as needed, and never for more than
// the limit.
func (w *Window) add(cell *instants, now int64) {
	n := len(cell.at)
	if n > 0 {
		now = max(now, cell.at[n-1])
	}
	if n == cap(cell.at) {
		room := make([]int64, n, min(max(w.limit, n+1), max(4, 2*n)))
		copy(room, cell.at)
		cell.at = room
	}
	cell.at = append(cell.at, now)
}

// standing returns the caller's state after a request that was admitted, or rejected by
// this window or another.
func (w *Window) standing(cell *instants, now int64, passed bool) Standing {
	s := Standing{OK: passed, Limit: w.limit, Remaining: max(0, w.limit-len(cell.at))}
	if n := len(cell.at); n > 0 {
		s.Reset = time.Duration(cell.at[n-1] + w.length - now)
		if s.Remaining == 0 && !passed {
			s.RetryAfter = time.Duration(cell.at[n-w.limit] + w.length - now)
		}
	}
	return s
}
