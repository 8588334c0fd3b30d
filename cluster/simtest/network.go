package simtest

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
)

// network delays, loses, doubles, reorders and cuts.
type network struct {
	sim *sim
	// cuts counts, by sender and receiver, the reasons why nothing passes.
	cuts map[[2]uint64]int
	// loss and double are probabilities in percent; slow is the longest delay.
	loss, double int
	slow         time.Duration
}

func (w *network) lost(from, to uint64) bool {
	return w.cuts[[2]uint64{from, to}] > 0 || w.sim.rng.IntN(100) < w.loss
}

func (w *network) send(from *node, m consensus.Message) {
	s := w.sim
	to := m.Raft.GetTo()
	if isSnapshot(m) {
		w.transfer(from, m)
		return
	}
	copies := 1
	if s.rng.IntN(100) < w.double {
		copies = 2
	}
	for range copies {
		if w.lost(from.id, to) {
			continue
		}
		sent := consensus.Message{Raft: shallow(m.Raft), Floor: m.Floor, Known: m.Known}
		s.after(s.between(100*time.Microsecond, 2*time.Millisecond+w.slow), func() {
			if n := s.nodes[to]; n != nil && n.up {
				n.event(0, func() { n.receive(sent) })
			}
		})
	}
}

// transfer sends a snapshot and reports what became of it.
func (w *network) transfer(from *node, m consensus.Message) {
	s := w.sim
	to := m.Raft.GetTo()
	content, err := from.state.Snapshot()
	if err != nil {
		s.violate("node %d: %v", from.id, err)
		return
	}
	consensus.Attach(&m, content)
	s.trace("node %d sends node %d a snapshot of index %d", from.id, to, content.Applied().Index)
	life, reported := from.life, false
	report := func(ok bool) {
		if reported {
			return
		}
		reported = true
		s.after(latest, func() {
			if from.up && from.life == life {
				from.event(0, func() { from.core.ReportSnapshot(to, ok); from.turn() })
			}
		})
	}
	m.Closed = func() { report(true) }
	s.after(s.between(5*time.Millisecond, 150*time.Millisecond), func() {
		target := s.nodes[to]
		if target == nil || !target.up || w.lost(from.id, to) {
			report(false)
			return
		}
		target.receiving = append(target.receiving, report)
		target.event(0, func() { target.receive(m) })
	})
}

// latest is the longest time for which a message is under way.
const latest = 100 * time.Millisecond

// shallow copies a message. Entries are shared, so a loop that changed one would be
// caught.
func shallow(m *raftpb.Message) *raftpb.Message {
	return &raftpb.Message{
		Type: m.Type, To: m.To, From: m.From, Term: m.Term, LogTerm: m.LogTerm, Index: m.Index,
		Entries: slices.Clone(m.Entries), Commit: m.Commit, Reject: m.Reject, RejectHint: m.RejectHint, Context: m.Context,
	}
}

// cut stops what passes from one node to another for a while.
func (w *network) cut(from, to uint64, long time.Duration) {
	pair := [2]uint64{from, to}
	w.cuts[pair]++
	w.sim.after(long, func() {
		if w.cuts[pair] > 0 {
			w.cuts[pair]--
		}
	})
}
