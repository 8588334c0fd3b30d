package keyring

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley"
)

// shard is one shard of an open keyring.
type shard struct {
	number byte

	// mu guards what readers see: the table that is durable in both copies, and its
	// generation.
	mu         sync.RWMutex
	durable    table
	generation uint64

	// joining guards next, the changes that wait for the rewrite under way to end.
	joining sync.Mutex
	next    *batch

	// turn is held by the goroutine that rewrites the shard. It guards the rest.
	turn sync.Mutex
	// wanted is the table with all changes that were ever begun. It differs from durable
	// after a rewrite failed: what a failed rewrite may have stored is never taken back,
	// because a crash could bring it to light.
	wanted table
	ahead  bool
	// written is the last generation that a rewrite used. It is never used twice by one
	// process, because a failed rewrite may have stored it.
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
	s.number, s.durable, s.wanted, s.generation, s.written = number, t, t, generation, generation
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

// rewrite applies changes to a shard and writes it.
func (k *Keyring) rewrite(s *shard, changes []change) error {
	if err := k.apply(s, changes); err != nil || !s.ahead {
		return err
	}
	h := k.header
	s.written++
	h.shard, h.generation = s.number, s.written
	content, err := k.wrapper.seal(h, k.server, s.wanted)
	if err == nil {
		err = replaceShard(k.fs, k.dir, s.number, content)
	}
	if err != nil {
		return fmt.Errorf("shard %02x of the keyring cannot be written: %w", s.number, err)
	}
	s.publish()
	k.note(s.number, s.written)
	return nil
}

// apply adds changes to the wanted table. Those that it has already change nothing.
func (k *Keyring) apply(s *shard, changes []change) error {
	t := append(make(table, 0, len(s.wanted)+len(changes)*recordBytes), s.wanted...)
	changed := false
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
				return err
			}
		}
		if state = Live; c.destroy {
			state = Erased
		}
		t, changed = t.set(c.org, state, value), true
	}
	if !changed {
		return nil
	}
	if s.ahead {
		clear(s.wanted) // nobody else has it
	}
	s.wanted, s.ahead = slices.Clip(t), true
	return nil
}

// publish makes the wanted table the one that readers see. It overwrites the former
// one, which may contain keys that are destroyed now.
func (s *shard) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.durable)
	s.durable, s.generation, s.ahead = s.wanted, s.written, false
}

// snapshot returns a copy of what is durable.
func (s *shard) snapshot() (t table, generation uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.durable), s.generation
}
