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
	// Stranger: it is an address. Whoever has one has many, so strangers share a
	// bound.
	Stranger bool
}

// Budget bounds the bytes that callers have the server hold: bodies that arrive,
// answers that leave. A caller may hold an eighth of what nobody holds. So one
// caller alone gets a ninth of the total, and after twenty that take all they can
// get there is still room for the largest request of the next one. All strangers
// together hold a quarter of the total at most.
//
// A nil Budget refuses nothing. It is safe for concurrent use.
type Budget struct {
	total int64

	mu      sync.Mutex
	held    int64
	public  int64 // of it, by strangers
	peak    int64
	refused uint64
	callers map[Account]int64
}

// NewBudget bounds what all callers together hold. Nothing is bounded by a total
// of zero or less: the result is nil.
func NewBudget(total int64) *Budget {
	if total <= 0 {
		return nil
	}
	return &Budget{total: total, callers: map[Account]int64{}}
}

// take asks for n bytes more for a caller. All of them are given, or none.
func (b *Budget) take(caller Account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.callers[caller]
	if mine+n > (b.total-b.held)/shareOfFree || caller.Stranger && b.public+n > b.total/strangersPart {
		b.refused++
		return false
	}
	b.callers[caller] = mine + n
	b.count(caller, n)
	b.peak = max(b.peak, b.held)
	return true
}

// give takes n bytes back that a caller was given.
func (b *Budget) give(caller Account, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(caller, -n)
	if left := b.callers[caller] - n; left > 0 {
		b.callers[caller] = left
	} else {
		delete(b.callers, caller)
	}
}

// count notes that a caller holds n bytes more. The caller of count holds mu.
func (b *Budget) count(caller Account, n int64) {
	b.held += n
	if caller.Stranger {
		b.public += n
	}
}

// BudgetStats are the numbers of a Budget at one instant.
type BudgetStats struct {
	// Held is how many bytes are held, Peak how many were at most, Total how many
	// may be; Callers is how many callers hold them.
	Held, Peak, Total int64
	Callers           int
	// Refused is how often a caller was given none.
	Refused uint64
}

// Stats counts. All numbers of a nil Budget are zero.
func (b *Budget) Stats() BudgetStats {
	if b == nil {
		return BudgetStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{Held: b.held, Peak: b.peak, Total: b.total, Callers: len(b.callers), Refused: b.refused}
}

// Hold is what one request holds of a Budget. The zero Hold belongs to none, and
// refuses nothing. It is for one goroutine at a time.
type Hold struct {
	budget *Budget
	caller Account
	bytes  int64
}

// Hold begins to count for a caller. It holds nothing yet.
func (b *Budget) Hold(caller Account) Hold { return Hold{budget: b, caller: caller} }

// Bytes is how many it holds.
func (h *Hold) Bytes() int { return int(h.bytes) }

// Grow makes it hold at least so many bytes, and reports whether it may. If not, it
// holds what it held before.
func (h *Hold) Grow(to int) bool {
	if h.budget == nil || to <= Small || int64(to) <= h.bytes {
		return true
	}
	if !h.budget.take(h.caller, int64(to)-h.bytes) {
		return false
	}
	h.bytes = int64(to)
	return true
}

// Shrink gives back what is beyond so many bytes.
func (h *Hold) Shrink(to int) {
	if to <= Small {
		to = 0
	}
	if beyond := h.bytes - int64(to); beyond > 0 {
		h.budget.give(h.caller, beyond)
		h.bytes = int64(to)
	}
}

// Release gives everything back. It may be called again.
func (h *Hold) Release() { h.Shrink(0) }
