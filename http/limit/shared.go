package limit

import "sync"

// sharedMax bounds how many keys of all limits wait to be told to other nodes. What further
// keys spend meanwhile counts on this node alone.
const sharedMax = 4096

// Shared has the limits of several nodes count together: it collects what callers have spent
// here, for the others, and counts what they have spent there. A caller can spend more than its
// limit only on several nodes at once, for as long as news takes between them.
type Shared struct {
	mu     sync.Mutex
	limits map[string]counter
	spent  map[spending]*int
}

// Spent is how many requests of a key were admitted by the limit of a name.
type Spent struct {
	Limit string `json:"limit"`
	Key   []byte `json:"key"`
	Count int    `json:"count"`
}

type spending struct{ limit, key string }

// counter is a Limiter or a Window.
type counter interface {
	// report sets what is called with what is admitted from now on.
	report(func(key string, n int))
	// spend counts requests that were admitted elsewhere.
	spend(key string, n int)
}

// NewShared returns a Shared without limits.
func NewShared() *Shared {
	return &Shared{limits: map[string]counter{}, spent: map[spending]*int{}}
}

// Add adds a limit, which has the same name on all nodes, before it is used. It may be nil.
func (s *Shared) Add(name string, c counter) {
	s.limits[name] = c
	c.report(func(key string, n int) {
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

// Take returns what was spent here since the last call.
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
	return all
}

// Spend counts what was spent on another node. Limits that this node does not have are ignored.
func (s *Shared) Spend(all []Spent) {
	for _, one := range all {
		if c, known := s.limits[one.Limit]; known {
			c.spend(string(one.Key), one.Count)
		}
	}
}

func (l *Limiter) report(note func(string, int)) {
	if l != nil {
		l.note = note
	}
}

// spend moves the arrival time of a key, also beyond what this node would admit: of what comes
// back when a key is at its limit, each node admits a part before it knows of the others.
func (l *Limiter) spend(key string, n int) {
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

func (w *Window) report(note func(string, int)) {
	if w != nil {
		w.note = note
	}
}

// spend adds requests to the window of a key, up to twice its limit.
func (w *Window) spend(key string, n int) {
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
}
