package export

import (
	"slices"
)

// ascend calls visit with each key that list adds, in ascending order and each once. It
// remembers at most capacity keys at a time, which are the smallest of those not visited yet,
// and calls list again until it has visited all. capacity is at least 2.
func ascend[K any](capacity int, compare func(a, b K) int, list func(add func(K)) error, visit func(K) error) error {
	s := smallest[K]{capacity: capacity, compare: compare}
	for {
		if err := list(s.add); err != nil {
			return err
		}
		s.settle()
		for _, k := range s.keys {
			if err := visit(k); err != nil {
				return err
			}
		}
		if !s.dropped {
			return nil
		}
		s.visited, s.after = true, s.keys[len(s.keys)-1]
		s.keys, s.dropped, s.bounded = s.keys[:0], false, false
	}
}

// smallest keeps the smallest keys beyond those that were visited.
type smallest[K any] struct {
	capacity int
	compare  func(a, b K) int
	keys     []K
	// after is the last key that was visited, if any was.
	after   K
	visited bool
	// bound is the largest key kept when others were dropped: larger ones are not added.
	bound            K
	bounded, dropped bool
}

func (s *smallest[K]) add(k K) {
	switch {
	case s.visited && s.compare(k, s.after) <= 0:
		return
	case s.bounded && s.compare(k, s.bound) > 0:
		s.dropped = true
		return
	case len(s.keys) == s.capacity:
		s.settle()
		if half := s.capacity / 2; len(s.keys) > half {
			s.keys = s.keys[:half]
			s.bound, s.bounded, s.dropped = s.keys[half-1], true, true
		}
		s.add(k)
		return
	}
	s.keys = append(s.keys, k)
}

// settle sorts the keys and drops those that are there twice.
func (s *smallest[K]) settle() {
	slices.SortFunc(s.keys, s.compare)
	s.keys = slices.CompactFunc(s.keys, func(a, b K) bool { return s.compare(a, b) == 0 })
}
