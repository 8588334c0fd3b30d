package keyring

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/client/parley"
)

// shard is one shard of an open keyring.
type shard struct {
	number byte

	// mu guards what follows, up to generation.
	mu sync.RWMutex
	// seen is what readers see: what is durable in both copies, and unsynced keys.
	seen table
	// wanted is what the files have to hold: all changes that were ever begun. It is another
	// table than seen after a rewrite failed: what a failed rewrite may have stored is never
	// taken back, because a crash could bring it to light.
	wanted table
	// ahead says that the files lack a part of wanted, unsynced that this part includes keys of
	// CarryUnsynced. changed counts the changes of wanted.
	ahead, unsynced bool
	changed         uint64
	// generation is that of the files. Only the holder of turn changes it.
	generation uint64

	// joining guards next, the changes that wait for the rewrite under way to end.
	joining sync.Mutex
	next    *batch

	// turn is held by the goroutine that rewrites the shard. It guards written, the last
	// generation that a rewrite used. It is never used twice by one process, because a failed
	// rewrite may have stored it.
	turn    sync.Mutex
	written uint64
}

// change is one change of a shard: a new key, or a tombstone.
type change struct {
	org parley.OrgID
	// key is the new one; zero stands for a random one.
	key     Key
	destroy bool
	at      time.Time
}

// batch is the changes that share one rewrite.
type batch struct {
	changes []change
	done    chan struct{}
	err     error
}

func (s *shard) open(number byte, t table, generation uint64) {
	s.number, s.seen, s.wanted, s.generation, s.written = number, t, t, generation, generation
}

// change makes a change and returns when it is durable. All changes of a shard that
// begin during a rewrite share the next one. The first of them does the work.
func (k *Keyring) change(c change) error {
	s := k.shard(c.org)
	s.joining.Lock()
	b := s.next
	leads := b == nil
	if leads {
		b = &batch{done: make(chan struct{})}
		s.next = b
	}
	b.changes = append(b.changes, c)
	s.joining.Unlock()
	if !leads {
		<-b.done
		return b.err
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.joining.Lock()
	s.next = nil // the batch is complete
	s.joining.Unlock()
	b.err = k.rewrite(s, b.changes)
	close(b.done)
	return b.err
}

// rewrite applies changes to a shard and writes it. The caller has the turn.
func (k *Keyring) rewrite(s *shard, changes []change) error {
	s.mu.Lock()
	err := k.apply(s, changes)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	t, err := k.store(s)
	clear(t)
	return err
}

// store writes what the files of a shard lack, and returns a copy of what they hold then. The
// caller has the turn.
func (k *Keyring) store(s *shard) (table, error) {
	s.mu.RLock()
	t, changed, ahead := bytes.Clone(s.wanted), s.changed, s.ahead
	s.mu.RUnlock()
	if !ahead {
		return t, nil
	}
	h := k.header
	s.written++
	h.shard, h.generation = s.number, s.written
	content, err := k.wrapper.seal(h, k.server, t)
	if err == nil {
		err = replaceShard(k.fs, k.dir, s.number, content)
	}
	if err != nil {
		return t, fmt.Errorf("shard %02x of the keyring cannot be written: %w", s.number, err)
	}
	s.publish(changed)
	k.note(s.number, s.written)
	return t, nil
}

// apply adds changes to the wanted table. Those that it has already change nothing. The caller
// holds mu.
func (k *Keyring) apply(s *shard, changes []change) error {
	t, changed, err := k.with(s.wanted, changes)
	if err != nil || !changed {
		clear(t)
		return err
	}
	if s.split() {
		clear(s.wanted) // nobody else has it
	}
	s.wanted, s.ahead = t, true
	s.changed++
	return nil
}

// with returns a table with changes, and whether there are any.
func (k *Keyring) with(was table, changes []change) (t table, changed bool, err error) {
	t = append(make(table, 0, len(was)+len(changes)*recordBytes), was...)
	for _, c := range changes {
		state, _ := t.state(c.org)
		if state == Erased || state == Live && !c.destroy {
			continue
		}
		if state == Unknown && t.records() == recordsMax {
			continue // its caller sees that the state is still Unknown
		}
		value := c.key
		if c.destroy {
			value = tombstone(c.at)
		} else if zero(value[:]) {
			if err := fill(value[:], k.random); err != nil {
				return t, false, err
			}
		}
		if state = Live; c.destroy {
			state = Erased
		}
		t, changed = t.set(c.org, state, value), true
	}
	return slices.Clip(t), changed, nil
}

// add adds new keys, which have values, without writing them.
func (k *Keyring) add(s *shard, changes []change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	split, was := s.split(), s.seen
	if err := k.apply(s, changes); err != nil {
		return err
	}
	next, changed := s.wanted, !same(was, s.wanted)
	if split { // wanted may have the keys already, of a rewrite that failed or is under way
		var err error
		if next, changed, err = k.with(was, changes); err != nil || !changed {
			clear(next)
			return err
		}
	}
	if changed {
		s.seen, s.unsynced = next, true
		clear(was)
	}
	return nil
}

// publish lets readers see what is wanted, after the state with that number of changes was written:
// changes since then are unsynced keys. It overwrites the former table, which may contain keys that
// are destroyed now.
func (s *shard) publish(changed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.split() {
		clear(s.seen)
	}
	s.seen, s.generation, s.ahead = s.wanted, s.written, s.changed != changed
	s.unsynced = s.unsynced && s.ahead
}

// split reports whether readers see another table than is wanted.
func (s *shard) split() bool { return !same(s.seen, s.wanted) }

// same reports whether two tables are one in memory.
func same(a, b table) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// snapshot returns a copy of what readers see.
func (s *shard) snapshot() table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.seen)
}
