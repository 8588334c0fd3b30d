package consensus

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// splitTicks is how long a candidate that met another one waits for the votes of the others, 25
// to 50 ms, before it asks again.
const splitTicks = 2

// split is what a node knows of an election in which two candidates met, so that perhaps neither
// gets a majority. Raft has both wait for another election timeout, which doubles the time
// without a leader. So one of them asks again at once: the one with the newer log, of two with
// the same log the one with the lower id. The other one does not, and follows.
type split struct {
	// term is that of the election, 0 if there is none, and due the tick at which to ask again.
	term, due uint64
}

// meet takes note of another member's request for votes.
func (s *split) meet(c *Core, m *raftpb.Message) {
	now := c.node.BasicStatus()
	if now.RaftState != raft.StateCandidate || m.GetTerm() != now.GetTerm() || c.givesWay(m) {
		return
	}
	s.term, s.due = now.GetTerm(), c.fences.now+splitTicks
}

// givesWay reports whether the other candidate is to ask again. It is a guess: raft grants no
// vote to one whose log lacks something.
func (c *Core) givesWay(m *raftpb.Message) bool {
	last, err := c.log.LastIndex()
	if err != nil {
		return true
	}
	term, err := c.log.Term(last)
	switch {
	case err != nil:
		return true
	case m.GetLogTerm() != term:
		return m.GetLogTerm() > term
	case m.GetIndex() != last:
		return m.GetIndex() > last
	}
	return m.GetFrom() < c.id
}

// tick asks again if the election is not decided.
func (s *split) tick(c *Core) {
	if s.term == 0 || c.fences.now < s.due {
		return
	}
	now := c.node.BasicStatus()
	again := now.RaftState == raft.StateCandidate && now.GetTerm() == s.term
	s.term = 0
	if again {
		_ = c.node.Campaign() // an error means that this node must not: it is removed, or has members to apply
	}
}
