package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/cluster/consensus"
)

// Leading is what a node does only while it leads.
type Leading interface {
	// Begin is called when the store takes entries.
	Begin() error
	// End is called when it takes no more.
	End()
}

// following is whom a member follows.
type following struct {
	// term is that of the leader, which is 0 if none is known.
	term, leader uint64
	// takes says that this member leads and its store takes entries.
	takes bool
	// over ends when the member follows another leader, and cut is closed leaderPatience later.
	over context.Context
	end  context.CancelFunc
	cut  chan struct{}
}

// allegiance is whom a member follows, and whether it is its own leader.
type allegiance struct {
	id      uint64
	follows atomic.Pointer[following]
}

func (a *allegiance) follow(term, leader uint64) {
	f := &following{term: term, leader: leader, cut: make(chan struct{})}
	f.over, f.end = context.WithCancel(context.Background())
	if former := a.follows.Swap(f); former != nil {
		former.end()
		time.AfterFunc(leaderPatience, func() { close(former.cut) })
	}
}

// term is that in which this member leads and its store takes entries, or 0.
func (a *allegiance) term() uint64 {
	if f := a.follows.Load(); f.takes {
		return f.term
	}
	return 0
}

// Term is that of a leader that this member is, or 0. The store may not take entries yet.
func (a *allegiance) Term() uint64 {
	if f := a.follows.Load(); f.leader == a.id {
		return f.term
	}
	return 0
}

// Leads reports whether this member leads and its store takes entries.
func (a *allegiance) Leads() bool { return a.term() != 0 }

// Led implements consensus.Handler.
func (m *Member) Led(term uint64) {
	m.changes <- func() error {
		if err := m.replica.Lead(term); err != nil {
			return err
		}
		if m.leading != nil {
			if err := m.leading.Begin(); err != nil {
				return err
			}
		}
		if f := m.follows.Load(); f.leader == m.id && f.term == term {
			m.follows.CompareAndSwap(f, &following{term, f.leader, true, f.over, f.end, f.cut})
		}
		return nil
	}
}

// Lost implements consensus.Handler.
func (m *Member) Lost(term uint64) {
	m.changes <- func() error {
		m.replica.StepDown(func() int { return unproposedOf(m, term) })
		if m.leading != nil {
			m.leading.End()
		}
		return nil
	}
}

// unproposedOf returns how many batches of a term that is over the loop took and did not propose.
// The store proposes no more of them, but some may be on their way to the loop, which reports that
// it does not propose them at the end of its turn. If the loop does not come to that, fewer are
// counted: their outcome is unknown then.
func unproposedOf(m *Member, term uint64) (count int) {
	ctx, cancel := context.WithTimeout(context.Background(), unproposedWait)
	defer cancel()
	for range 2 { // in two turns
		err := m.Runner().Do(ctx, func(*consensus.Core) error {
			if m.unproposedIn == term {
				count = m.unproposed
			}
			return nil
		})
		if errors.Is(err, consensus.ErrStopped) && m.unproposedIn == term {
			count = m.unproposed // the loop has ended
		}
	}
	return count
}

// Follows implements consensus.Handler.
func (m *Member) Follows(term, leader uint64) {
	m.leaderships.note(term, leader)
	m.follow(term, leader)
}
