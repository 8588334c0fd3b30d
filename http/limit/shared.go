package limit

import (
	"sync"

	"parley/client/parley"
)

// sharedMax bounds how many keys of all limits wait to be told to other nodes. What further
// keys spend meanwhile counts on this node alone.
const sharedMax = 4096

// Shared has the limits of several nodes count together: it collects what callers have spent
// here, for the others, and counts what they have spent there. A caller can spend more than its
// limit only on several nodes at once, for as long as news takes between them.
type Shared struct {
	clock  parley.Clock
	self   nodeID
	mu     sync.Mutex
	limits map[string]Counter
	open   map[string]*Concurrency
	spent  map[spending]*int
}

// Spent is how many requests of a key were admitted by the limit of a name. Of a Concurrency it
// is how many are open on a node, and the key begins with the id of the node.
type Spent struct {
	Limit string `json:"limit"`
	Key   []byte `json:"key"`
	Count int    `json:"count"`
}

type spending struct{ limit, key string }

// Counter is a Limiter, a Window, or something else of which the other nodes are told.
type Counter interface {
	// Report sets what is called with what is admitted from now on.
	Report(func(key string, n int))
	// Spend counts requests that were admitted elsewhere; if n is negative, they are given back.
	Spend(key string, n int)
}

// NewShared returns a Shared without limits. Each node has another entropy.
func NewShared(clock parley.Clock, entropy parley.Entropy) *Shared {
	return &Shared{clock: clock, self: entropy(), limits: map[string]Counter{}, open: map[string]*Concurrency{}, spent: map[spending]*int{}}
}

// Add adds a limit, which has the same name on all nodes, before it is used. It may be nil.
func (s *Shared) Add(name string, c Counter) {
	s.limits[name] = c
	c.Report(func(key string, n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		count := s.spent[spending{name, key}]
		if count == nil {
			if len(s.spent) >= sharedMax {
				return
			}
			count = new(int)
			s.spent[spending{name, key}] = count
		}
		*count += n
	})
}

// Take returns what was spent here since the last call, and how many are open here where the
// other nodes have to be told.
func (s *Shared) Take() (all []Spent) {
	s.mu.Lock()
	spent := s.spent
	s.spent = make(map[spending]*int, len(spent))
	s.mu.Unlock()
	for which, n := range spent {
		if *n != 0 {
			all = append(all, Spent{which.limit, []byte(which.key), *n})
		}
	}
	for name, c := range s.open {
		all = c.take(name, all)
	}
	return all
}

// Spend counts what was spent on another node, and what is open there. Limits that this node
// does not have are ignored.
func (s *Shared) Spend(all []Spent) {
	for _, one := range all {
		if c, known := s.limits[one.Limit]; known {
			c.Spend(string(one.Key), one.Count)
		}
		if c, known := s.open[one.Limit]; known {
			c.receive(one.Key, one.Count)
		}
	}
}

// Report implements Counter.
func (l *Limiter) Report(note func(string, int)) {
	if l != nil {
		l.note = note
	}
}

// Spend moves the arrival time of a key, also beyond what this node would admit: of what comes
// back when a key is at its limit, each node admits a part before it knows of the others.
func (l *Limiter) Spend(key string, n int) {
	if l == nil {
		return
	}
	cell, moved := l.arrivals.of(key), l.interval*int64(max(min(n, l.limit), -l.limit))
	for {
		now, was := l.clock().UnixNano(), cell.Load()
		if cell.CompareAndSwap(was, min(max(was, now)+moved, now+l.most())) {
			return
		}
	}
}

// Report implements Counter.
func (w *Window) Report(note func(string, int)) {
	if w != nil {
		w.note = note
	}
}

// Spend adds requests to the window of a key, up to twice its limit. What is given back are the
// newest ones.
func (w *Window) Spend(key string, n int) {
	if w == nil {
		return
	}
	cell := w.passed.of(key)
	cell.mu.Lock()
	defer cell.mu.Unlock()
	now := w.clock().UnixNano()
	w.slide(cell, now)
	for range min(n, 2*w.limit-len(cell.at)) {
		w.add(cell, now)
	}
	cell.at = cell.at[:max(len(cell.at)+min(n, 0), 0)]
}
