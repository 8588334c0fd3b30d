package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

var _ raft.Storage = (*Log)(nil)

// InitialState returns the last hard state that was appended, nil if there is none. Commit may
// lag what the replica has applied: the owner raises it before raft begins, and knows the
// members.
func (l *Log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	conf := &raftpb.ConfState{}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.state.hard
	if h == (hardState{}) {
		return nil, conf, nil
	}
	return &raftpb.HardState{Term: new(h.term), Vote: new(h.vote), Commit: new(h.commit)}, conf, nil
}

// Note returns the newest note that was appended, nil if there is none.
func (l *Log) Note() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.note == "" {
		return nil
	}
	return []byte(l.state.note)
}

// Term returns the term of entry i, also of the last one that was cut.
func (l *Log) Term(i uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case i < l.state.cut().Index:
		return 0, raft.ErrCompacted
	case i > l.state.last:
		return 0, raft.ErrUnavailable
	}
	return l.state.term(i), nil
}

// FirstIndex returns the index behind the cut.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.cut().Index + 1, nil
}

// LastIndex returns the index of the last entry, or of the cut if there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.last, nil
}

// Snapshot implements raft.Storage. The log knows none.
func (*Log) Snapshot() (*raftpb.Snapshot, error) { return nil, raft.ErrSnapshotTemporarilyUnavailable }

// Entries returns the entries from lo to hi-1, up to maxSize bytes of them but at least
// one. Those that are not in memory any more are read from the segments.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	c := collection{next: lo, max: maxSize}
	l.mu.Lock()
	defer l.mu.Unlock()
	for overrides := l.overrides; !c.full; {
		if overrides != l.overrides { // while entries were read
			c, overrides = collection{next: lo, max: maxSize}, l.overrides
		}
		switch {
		case c.next <= l.state.cut().Index:
			return nil, raft.ErrCompacted
		case hi > l.state.last+1, l.state.last == l.state.cut().Index:
			return nil, raft.ErrUnavailable
		case c.next >= hi:
			return c.entries, nil
		case c.next >= l.cache.first:
			for c.next < hi && c.add(l.cache.entries[c.next-l.cache.first]) {
			}
		default:
			if err := l.collect(&c, min(hi, l.cache.first)); err != nil {
				return nil, err
			}
		}
	}
	return c.entries, nil
}

// Visit calls visit with all entries, in order. Nothing may change the log meanwhile.
func (l *Log) Visit(visit func(*raftpb.Entry) error) error {
	_, err := l.visit(0, visit)
	return err
}

// visit calls visit with the entries behind an index, in order, and returns the first index that
// the log holds.
func (l *Log) visit(after uint64, visit func(*raftpb.Entry) error) (first uint64, err error) {
	l.mu.Lock()
	first, end := l.state.cut().Index+1, l.state.last+1
	l.mu.Unlock()
	for next := max(first, after+1); next < end; {
		entries, err := l.Entries(next, end, uint64(l.o.PendingBytes))
		if err != nil {
			return first, err
		}
		for _, e := range entries {
			if err := visit(e); err != nil {
				return first, err
			}
		}
		next += uint64(len(entries))
	}
	return first, nil
}

// collection gathers consecutive entries up to a size.
type collection struct {
	entries   []*raftpb.Entry
	next      uint64
	size, max uint64
	full      bool
}

// add reports whether there is space for e.
func (c *collection) add(e *raftpb.Entry) bool {
	c.size += sizeOf(e)
	if c.size > c.max && len(c.entries) > 0 {
		c.full = true
		return false
	}
	c.entries = append(c.entries, e)
	c.next++
	return true
}

// sizeOf is the size of an entry as raft counts it, in protobuf.
func sizeOf(e *raftpb.Entry) (n uint64) {
	number := func(v uint64) uint64 { return 1 + uint64(bits.Len64(v|1)+6)/7 }
	if e.Type != nil {
		n += number(uint64(e.GetType()))
	}
	if e.Term != nil {
		n += number(e.GetTerm())
	}
	if e.Index != nil {
		n += number(e.GetIndex())
	}
	if e.Data != nil {
		n += number(uint64(len(e.Data))) + uint64(len(e.Data))
	}
	return n
}

// collect reads entries below end from the segments. mu is held, but not while the disk
// works. If segments are removed meanwhile, the caller finds that the entries are cut.
func (l *Log) collect(c *collection, end uint64) error {
	terms := state{terms: slices.Clone(l.state.terms)}
	segments, from := l.segments, point{segment: l.segments[0].number}
	for _, p := range slices.Backward(l.points) {
		if p.first <= c.next {
			from = p
			break
		}
	}
	began := c.next
	l.mu.Unlock()
	err := l.scan(segments, from, func(t turn) bool {
		for _, e := range t.entries {
			// An entry whose term is another one was replaced later.
			if e.GetIndex() == c.next && c.next < end && e.GetTerm() == terms.term(c.next) && !c.add(e) {
				break
			}
		}
		return c.next < end && !c.full
	})
	l.mu.Lock()
	switch {
	case began <= l.state.cut().Index && (err == nil || errors.Is(err, fs.ErrNotExist)):
		return raft.ErrCompacted
	case err == nil && c.next == began && !c.full:
		return fmt.Errorf("%w: %s: entry %d is missing", disk.ErrDamaged, l.o.Dir, began)
	}
	return err
}

// scan passes the turns from a point on to visit, until that returns false.
func (l *Log) scan(segments []segment, from point, visit func(turn) bool) error {
	for _, s := range segments {
		if s.number < from.segment {
			continue
		}
		r, err := openReader(l.o.FS, s, l.o.ID)
		if err != nil {
			return err
		}
		if s.number == from.segment {
			r.at = from.at
		}
		more, err := r.visit(visit)
		if err := errors.Join(err, r.close()); err != nil || !more {
			return err
		}
	}
	return nil
}
