package limit

import "sync"

// Small is how many bytes a Hold takes without being counted: small requests and
// answers cost no lock, and never wait for those who hold much. They are bounded
// by the number of connections.
const Small = 16 << 10

// shareOfFree is the part of what nobody holds that one caller may hold.
const shareOfFree = 8

// strangersPart is the part of all that strangers together may hold.
const strangersPart = 4

// Account is who bytes count for.
type Account struct {
	// Name is the key of an organization or an address.
	Name string
	// Stranger: it is an address. One client can have many addresses, so strangers
	// share a bound.
	Stranger bool
}

// manyTimes: a caller with so many times as many bytes as another one wants makes
// room for it.
const manyTimes = 2

// Budget bounds the bytes that callers have the server hold: bodies that arrive,
// answers that leave. A caller may hold an eighth of what nobody holds. So one
// caller alone gets a ninth of the total, and after twenty that take all they can
// get there is still room for the largest request of the next one. All strangers
// together hold a quarter of the total at most.
//
// Beyond that the caller that holds most makes room for one that holds and wants at
// most half as much: its oldest requests are ended that may be ended. So many
// callers together cannot keep all others out. What they hold is leaving from then
// on; at most an eighth of the total is, beside what is held.
//
// A nil Budget refuses nothing. It is safe for concurrent use.
type Budget struct {
	total int64

	mu      sync.Mutex
	held    int64
	public  int64 // of it, by strangers
	leaving int64 // beside it, of requests that were ended
	peak    int64
	refused uint64
	ended   uint64
	callers map[Account]*holdings
}

// holdings are the requests of one caller that hold something, the oldest first.
type holdings struct {
	bytes       int64
	first, last *holding
}

// holding is what one request holds.
type holding struct {
	caller Account
	bytes  int64 // written by the request alone, under mu of the budget
	// end ends the request if it may be ended now, and gives what is left to do for
	// that, else nil.
	end          func() (finish func())
	ended        bool // its bytes are leaving; under mu, as what follows
	older, newer *holding
}

// NewBudget bounds what all callers together hold. Nothing is bounded by a total
// of zero or less: the result is nil.
func NewBudget(total int64) *Budget {
	if total <= 0 {
		return nil
	}
	return &Budget{total: total, callers: map[Account]*holdings{}}
}

// take asks for n bytes more for a request. All of them are given, or none. finish
// is to be called in any case, without the lock.
func (b *Budget) take(h *holding, n int64) (given bool, finish []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := int64(0)
	if c := b.callers[h.caller]; c != nil {
		mine = c.bytes
	}
	given = !h.ended
	if given && (mine+n > (b.total-b.held)/shareOfFree || h.caller.Stranger && b.public+n > b.total/strangersPart) {
		given, finish = b.makeRoom(h.caller, mine+n, n)
	}
	if !given {
		b.refused++
		return false, finish
	}
	b.count(h, n)
	b.peak = max(b.peak, b.held)
	return true, finish
}

// makeRoom ends requests of the caller that holds most, until they held n bytes; of
// a stranger, for another one. want is what the caller for which it is would hold.
// The caller of makeRoom holds mu.
func (b *Budget) makeRoom(caller Account, want, n int64) (made bool, finish []func()) {
	var most *holdings
	for other, c := range b.callers {
		if other != caller && (other.Stranger || !caller.Stranger) && (most == nil || c.bytes > most.bytes) {
			most = c
		}
	}
	if most == nil || most.bytes < manyTimes*want || b.leaving+n > b.total/shareOfFree {
		return false, nil
	}
	ended := int64(0)
	for h := most.first; h != nil && ended < n; {
		next := h.newer
		if h.end != nil {
			if f := h.end(); f != nil {
				ended += h.bytes
				b.leave(h)
				finish = append(finish, f)
			}
		}
		h = next
	}
	return ended >= n, finish
}

// leave notes that a request was ended. The caller of leave holds mu.
func (b *Budget) leave(h *holding) {
	h.ended = true
	b.leaving += h.bytes
	b.ended++
	b.callers[h.caller].remove(h)
	b.add(h.caller, -h.bytes)
}

// give takes n bytes back that a request was given.
func (b *Budget) give(h *holding, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.ended {
		b.leaving -= n
		h.bytes -= n
		return
	}
	b.count(h, -n)
}

// count notes that a request holds n bytes more. The caller of count holds mu.
func (b *Budget) count(h *holding, n int64) {
	if b.callers[h.caller] == nil {
		b.callers[h.caller] = &holdings{}
	}
	had := h.bytes
	h.bytes += n
	switch {
	case had == 0 && n > 0:
		b.callers[h.caller].add(h)
	case had > 0 && h.bytes == 0:
		b.callers[h.caller].remove(h)
	}
	b.add(h.caller, n)
}

// add counts n bytes more for a caller. The caller of add holds mu.
func (b *Budget) add(caller Account, n int64) {
	c := b.callers[caller]
	c.bytes += n
	b.held += n
	if caller.Stranger {
		b.public += n
	}
	if c.first == nil {
		delete(b.callers, caller)
	}
}

func (c *holdings) add(h *holding) {
	h.older, h.newer = c.last, nil
	if c.last == nil {
		c.first = h
	} else {
		c.last.newer = h
	}
	c.last = h
}

func (c *holdings) remove(h *holding) {
	if h.older == nil {
		c.first = h.newer
	} else {
		h.older.newer = h.newer
	}
	if h.newer == nil {
		c.last = h.older
	} else {
		h.newer.older = h.older
	}
	h.older, h.newer = nil, nil
}

// BudgetStats are the numbers of a Budget at one instant.
type BudgetStats struct {
	// Held is how many bytes are held, Peak how many were at most, Total how many
	// may be; Callers is how many callers hold them. Leaving is how many requests
	// hold, beside these, that were ended.
	Held, Peak, Total, Leaving int64
	Callers                    int
	// Refused is how often a caller was given none, Ended how many requests were
	// ended for others.
	Refused, Ended uint64
}

// Stats counts. All numbers of a nil Budget are zero.
func (b *Budget) Stats() BudgetStats {
	if b == nil {
		return BudgetStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{
		Held: b.held, Peak: b.peak, Total: b.total, Leaving: b.leaving, Callers: len(b.callers), Refused: b.refused, Ended: b.ended,
	}
}

// Hold is what one request holds of a Budget. The zero Hold belongs to none, and
// refuses nothing. It is for one goroutine at a time.
type Hold struct {
	budget *Budget
	on     *holding
}

// Hold begins to count for a caller. It holds nothing yet. end, if not nil, ends the
// request for another caller, if it may be ended now: then it gives what is left to
// do for that, which may wait. It is called from any goroutine, many times perhaps,
// and must not wait nor call the Budget.
func (b *Budget) Hold(caller Account, end func() (finish func())) Hold {
	if b == nil {
		return Hold{}
	}
	return Hold{budget: b, on: &holding{caller: caller, end: end}}
}

// Bytes is how many it holds.
func (h *Hold) Bytes() int {
	if h.on == nil {
		return 0
	}
	return int(h.on.bytes)
}

// Grow makes it hold at least so many bytes, and reports whether it may. If not, it
// holds what it held before.
func (h *Hold) Grow(to int) bool {
	if h.budget == nil || to <= Small || to <= h.Bytes() {
		return true
	}
	given, finish := h.budget.take(h.on, int64(to)-h.on.bytes)
	for _, f := range finish {
		f()
	}
	return given
}

// Shrink gives back what is beyond so many bytes.
func (h *Hold) Shrink(to int) {
	if to <= Small {
		to = 0
	}
	if beyond := h.Bytes() - to; beyond > 0 {
		h.budget.give(h.on, int64(beyond))
	}
}

// Release gives everything back. It may be called again.
func (h *Hold) Release() { h.Shrink(0) }
