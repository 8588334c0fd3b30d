// Package replicatest orders batches for the replicas of a test in one process. It stands
// for a replicated log: what it has ordered is never lost.
package replicatest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"parley/client/parley"
	"parley/persistence"
)

// Group is an order of batches, and its members.
type Group struct {
	mu      sync.Mutex
	changed *sync.Cond
	order   []persistence.Committed
	ordered []time.Time // when each place was
	term    uint64
	leader  *Member
	// delay is how long after it was ordered a member that does not lead applies a place.
	delay func() time.Duration
	fatal func(error)
	clock parley.Clock
}

// Member is one replica's place in the group: the Sequencer of its store.
type Member struct {
	group   *Group
	replica *persistence.Replica
	applied uint64
	stopped bool
	loop    sync.WaitGroup
}

var errTermOver = errors.New("the term is over")

// NewGroup returns a group without members. fatal is called when a member cannot apply.
func NewGroup(clock parley.Clock, delay func() time.Duration, fatal func(error)) *Group {
	g := &Group{clock: clock, delay: delay, fatal: fatal}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Join adds a member, whose store is attached later.
func (g *Group) Join() *Member { return &Member{group: g} }

// Attach begins to apply the order to a store, from where that stands.
func (m *Member) Attach(r *persistence.Replica) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.replica, m.applied, m.stopped = r, r.Applied().Number, false
	m.loop.Go(m.follow)
}

// Detach stops applying, and ends the leadership if the member leads. The store may be
// closed then.
func (m *Member) Detach() {
	g := m.group
	g.mu.Lock()
	m.stopped = true
	if g.leader == m {
		g.leader, g.term = nil, g.term+1
	}
	g.changed.Broadcast()
	replica := m.replica
	g.mu.Unlock()
	if replica != nil {
		replica.StepDown(nil)
	}
	m.loop.Wait()
}

// follow applies the order until the member is detached.
func (m *Member) follow() {
	g := m.group
	for {
		g.mu.Lock()
		for !m.stopped && m.applied == uint64(len(g.order)) {
			g.changed.Wait()
		}
		if m.stopped {
			g.mu.Unlock()
			return
		}
		next, at, leads := g.order[m.applied], g.ordered[m.applied], g.leader == m
		g.mu.Unlock()
		if !leads && g.delay != nil {
			time.Sleep(g.delay() - g.clock().Sub(at))
		}
		if err := m.replica.Apply([]persistence.Committed{next}, nil); err != nil {
			g.fatal(err)
			return
		}
		g.mu.Lock()
		m.applied++
		g.changed.Broadcast()
		g.mu.Unlock()
	}
}

// Lead makes a member the leader of a new term: the former leader steps down, and the
// member applies everything that was ordered before.
func (g *Group) Lead(m *Member) error {
	g.mu.Lock()
	former := g.leader
	g.term++
	term := g.term
	g.leader = nil
	g.add(term, nil)
	g.mu.Unlock()
	if former != nil {
		former.replica.StepDown(nil)
	}
	g.mu.Lock()
	for m.applied < uint64(len(g.order)) {
		g.changed.Wait()
	}
	g.leader = m
	g.mu.Unlock()
	return m.replica.Lead(term)
}

// Propose implements persistence.Sequencer.
func (m *Member) Propose(term uint64, batch []byte) error {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term != term {
		return errTermOver
	}
	g.add(term, batch)
	return nil
}

// add adds a place. The caller holds mu.
func (g *Group) add(term uint64, batch []byte) {
	g.order = append(g.order, persistence.Committed{Index: uint64(len(g.order)) + 1, Term: term, Batch: bytes.Clone(batch)})
	g.ordered = append(g.ordered, g.clock())
	g.changed.Broadcast()
}

// Fence implements persistence.Sequencer.
func (m *Member) Fence(context.Context) (uint64, error) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return uint64(len(m.group.order)), nil
}

// Confirm implements persistence.Sequencer.
func (m *Member) Confirm(_ context.Context, term uint64) error {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.group.term != term {
		return errTermOver
	}
	return nil
}
