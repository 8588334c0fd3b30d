package consensus

import (
	"sync/atomic"
	"time"
)

// Stats are the numbers of a node of a group.
type Stats struct {
	// Term is the newest one, Commit and Applied are indexes, and Voters and Learners how
	// many members the group has, all as of the last tick.
	Term, Commit, Applied uint64
	Voters, Learners      int
	// Diverged is how many members hold committed entries that the group does not have.
	Diverged int
	// SyncAge is for how long the oldest record that is not durable has been waiting for
	// that; 0 if there is none.
	SyncAge time.Duration
}

// stats returns what a Core knows of them.
func (c *Core) stats() *Stats {
	basic := c.node.BasicStatus()
	return &Stats{
		Diverged: len(c.diverged()),
		Term:     basic.GetTerm(), Commit: basic.GetCommit(), Applied: c.applied.Index,
		Voters: len(c.applied.Conf.GetVoters()), Learners: len(c.applied.Conf.GetLearners()),
	}
}

// meter keeps what Stats returns outside the loop, which may be busy or wait for a disk.
type meter struct {
	clock func() time.Time
	start time.Time
	tick  atomic.Pointer[Stats]
	// oldest is when the oldest record that is not durable was handed out, in ns since the
	// start and at least 1; 0 if there is none.
	oldest atomic.Int64
}

func newMeter(clock func() time.Time, first *Stats) *meter {
	m := &meter{clock: clock, start: clock()}
	m.tick.Store(first)
	return m
}

// waiting notes when the records that are not durable were handed out.
func (m *meter) waiting(begun []time.Time) {
	if len(begun) == 0 {
		m.oldest.Store(0)
		return
	}
	m.oldest.Store(max(1, begun[0].Sub(m.start).Nanoseconds()))
}

// Stats returns the numbers. It does not wait for the loop.
func (m *meter) Stats() Stats {
	s := *m.tick.Load()
	if oldest := m.oldest.Load(); oldest != 0 {
		s.SyncAge = max(0, m.clock().Sub(m.start)-time.Duration(oldest))
	}
	return s
}

// diverged returns the members that hold other committed entries than the group.
func (c *Core) diverged() (ids []uint64) {
	for _, s := range c.known {
		if s.Diverged && isMember(c.applied.Conf, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
