package limit

import "sync"

// Small is how many bytes a Hold takes without counting them: small requests and answers
// need no lock, and never wait for callers that hold much. The number of connections
// bounds them.
const Small = 16 << 10

// shareOfFree is the divisor of the free bytes that gives what one caller may hold.
const shareOfFree = 8

// anonymousPart is the divisor of the total that gives what all anonymous callers together may
// hold.
const anonymousPart = 4

// Account identifies the caller that bytes count against.
type Account struct {
	// Name is the key of an organization or an address.
	Name string
	// Anonymous: the account is an address. One client can have many addresses, so
	// anonymous callers share a bound.
	Anonymous bool
}

// manyTimes: a caller makes room for another one if it holds this many times as many
// bytes as the other wants.
const manyTimes = 2

// Budget bounds the bytes that the server holds for callers: bodies that arrive and
// answers that leave. A caller may hold an eighth of what is free. So one caller alone
// gets a ninth of the total, and after twenty callers that take all they can there is
// still room for the largest request of the next one. All anonymous callers together hold a
// quarter of the total at most.
//
// Beyond that, the caller that holds most makes room for a caller that holds and wants at
// most half as much: those of its oldest requests that may be ended are ended. So many
// callers together cannot lock out all others. The bytes of ended requests count as
// leaving, which are at most an eighth of the total, in addition to what is held.
//
// A nil Budget refuses nothing. It is safe for concurrent use.
type Budget struct {
	total int64

	mu      sync.Mutex
	held    int64
	public  int64 // of it, held by anonymous callers
	leaving int64 // in addition to it, of requests that were ended
	peak    int64
	refused uint64
	ended   uint64
	callers map[Account]*holdings
}

// holdings are the requests of one caller that hold bytes, the oldest first.
type holdings struct {
	bytes       int64
	first, last *holding
}

// holding is the bytes that one request holds.
type holding struct {
	caller Account
	bytes  int64 // written by the request alone, under mu of the budget
	// end ends the request if it may be ended now, and returns the remaining work, else
	// nil.
	end          func() (finish func())
	ended        bool // its bytes are leaving; guarded by mu, like the fields below
	older, newer *holding
}

// NewBudget returns a budget that bounds what all callers together hold, in bytes. If
// total is zero or less, nothing is bounded and the result is nil.
func NewBudget(total int64) *Budget {
	if total <= 0 {
		return nil
	}
	return &Budget{total: total, callers: map[Account]*holdings{}}
}

// take requests n more bytes for a request. It gets all of them or none. If there are too few and
// needed is set, others make room. finish must be called in either case, without the lock.
func (b *Budget) take(h *holding, n int64, needed bool) (given bool, finish []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := int64(0)
	if c := b.callers[h.caller]; c != nil {
		mine = c.bytes
	}
	given = !h.ended
	if given && (mine+n > (b.total-b.held)/shareOfFree || h.caller.Anonymous && b.public+n > b.total/anonymousPart) {
		if !needed {
			return false, nil
		}
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

// makeRoom ends requests of the caller that holds most, until they have released n bytes;
// for an anonymous caller, of the anonymous one that holds most. want is what the requesting caller
// would hold. The caller of makeRoom holds mu.
func (b *Budget) makeRoom(caller Account, want, n int64) (made bool, finish []func()) {
	var most *holdings
	for other, c := range b.callers {
		if other != caller && (other.Anonymous || !caller.Anonymous) && (most == nil || c.bytes > most.bytes) {
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

// leave records that a request was ended. The caller of leave holds mu.
func (b *Budget) leave(h *holding) {
	h.ended = true
	b.leaving += h.bytes
	b.ended++
	b.callers[h.caller].remove(h)
	b.add(h.caller, -h.bytes)
}

// give returns n bytes that a request was given.
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

// count records that a request holds n more bytes. The caller of count holds mu.
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

// add counts n more bytes for a caller. The caller of add holds mu.
func (b *Budget) add(caller Account, n int64) {
	c := b.callers[caller]
	c.bytes += n
	b.held += n
	if caller.Anonymous {
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
	// Held is how many bytes are held, Peak the most that were held, Total how many may
	// be held. Callers is how many callers hold them. Leaving is how many bytes requests
	// that were ended still hold, in addition.
	Held, Peak, Total, Leaving int64
	Callers                    int
	// Refused is how often a caller got no bytes, Ended how many requests were ended for
	// others.
	Refused, Ended uint64
}

// Stats returns the current numbers. All numbers of a nil Budget are zero.
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

// Hold is what one request holds of a Budget. The zero Hold belongs to no budget and
// refuses nothing. It is for one goroutine at a time.
type Hold struct {
	budget *Budget
	on     *holding
}

// Hold returns an empty Hold of a caller. end, if not nil, ends the request in favour of
// another caller, if it may be ended now; it then returns the remaining work, which may
// block. It is called from any goroutine, possibly many times, and must neither block nor
// call the Budget.
func (b *Budget) Hold(caller Account, end func() (finish func())) Hold {
	if b == nil {
		return Hold{}
	}
	return Hold{budget: b, on: &holding{caller: caller, end: end}}
}

// Bytes returns how many bytes it holds.
func (h *Hold) Bytes() int {
	if h.on == nil {
		return 0
	}
	return int(h.on.bytes)
}

// Grow raises the hold to at least the given bytes, and reports whether that is allowed.
// If not, the hold is unchanged.
func (h *Hold) Grow(to int) bool { return h.grow(to, true) }

// GrowIfFree is Grow for what the request can do without: nobody has to make room for it.
func (h *Hold) GrowIfFree(to int) bool { return h.grow(to, false) }

func (h *Hold) grow(to int, needed bool) bool {
	if h.budget == nil || to <= Small || to <= h.Bytes() {
		return true
	}
	given, finish := h.budget.take(h.on, int64(to)-h.on.bytes, needed)
	for _, f := range finish {
		f()
	}
	return given
}

// Shrink releases all but the given bytes.
func (h *Hold) Shrink(to int) {
	if to <= Small {
		to = 0
	}
	if beyond := h.Bytes() - to; beyond > 0 {
		h.budget.give(h.on, int64(beyond))
	}
}

// Release releases everything. It may be called again.
func (h *Hold) Release() { h.Shrink(0) }
