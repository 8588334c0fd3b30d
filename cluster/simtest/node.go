package simtest

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
)

// node is one process and its disk. It drives a Core as a Runner does, with simulated
// goroutines for the disk and for the state.
type node struct {
	sim   *sim
	id    uint64
	log   *Log
	state *State
	core  *consensus.Core

	up     bool
	life   int  // counts starts
	joins  bool // the node began without a disk
	gone   bool // it never comes back
	paused time.Duration
	// settled says that the node once had all that was committed, so that from then on
	// the log alone must be enough, unless it lags too much.
	settled bool
	// older says that the disk is an older copy.
	older bool
	// checked is what was known when the checker looked last.
	checked consensus.Known

	rate      float64
	due       time.Duration
	stalled   time.Duration // the disk does not sync until then
	diskFree  time.Duration
	applyFree time.Duration
	inboxFree time.Duration
	begun     []time.Duration // when the records in flight were written
	journal   *journal
	fences    map[uint64]uint64 // by tag: the newest index acknowledged before
	leads     uint64
	receiving []func(ok bool) // reports about snapshots to their senders
}

func (s *sim) add(id uint64) *node {
	n := &node{sim: s, id: id, rate: 1}
	n.blank()
	s.nodes[id] = n
	return n
}

// blank gives the node an empty disk.
func (n *node) blank() {
	n.log = &Log{cutsAll: n.sim.Defect == CutWithoutFloor}
	n.state = NewState(consensus.Applied{})
}

// diskCopy is a copy of a node's disk.
type diskCopy struct {
	log   image
	state content
}

func (n *node) copyDisk() diskCopy { return diskCopy{n.log.copy(), n.state.copy()} }

func (n *node) restoreDisk(c diskCopy) {
	n.log = &Log{cutsAll: n.log.cutsAll, disk: c.log, view: c.log}
	n.state = &State{now: c.state.clone(), flushed: c.state}
}

// admitted has all nodes that this one reaches judge whether it may take part, as a node that
// starts does. One that starts from an older copy waits for a majority.
func (n *node) admitted() bool {
	s := n.sim
	known, _ := n.log.Known()
	self, heard := known.Of(n.id), 1
	var unfit error
	for _, y := range s.all() {
		if y == n || !y.up || y.paused > s.now || s.net.cuts[[2]uint64{n.id, y.id}]+s.net.cuts[[2]uint64{y.id, n.id}] > 0 {
			continue
		}
		heard++
		claim := y.core.Known().ClaimOf(y.log, y.core.Status().Applied.Conf, y.id, n.id, self.Index)
		unfit = cmp.Or(unfit, consensus.Judge(n.log, self, claim))
	}
	switch {
	case !n.older:
		if unfit != nil {
			s.violate("node %d is refused: %v", n.id, unfit)
		}
		return unfit == nil
	case s.Defect == AcceptsOlderCopy:
		n.older = false
		return true
	case unfit == nil && heard <= len(n.members().GetVoters())/2 && !s.quiet:
		s.after(50*time.Millisecond, n.reopen)
		return false
	case unfit != nil:
		s.Refused++
	default:
		s.Unnoticed++
	}
	s.trace("node %d does not take part: %v", n.id, unfit)
	n.gone = true
	return false
}

func (n *node) open() {
	s := n.sim
	d := s.Defect
	if !n.admitted() {
		return
	}
	n.state.OnApply = n.applied
	n.state.indexApart, n.state.overlays = d == IndexApart, d == SnapshotOverlays
	n.life++
	n.up, n.journal, n.begun, n.fences, n.leads = true, nil, nil, map[uint64]uint64{}, 0
	n.diskFree, n.applyFree, n.inboxFree, n.due = s.now, s.now, s.now, s.now
	at := n.state.Applied()
	err := consensus.Prepare(n.log, at)
	if err == nil {
		known, _ := n.log.Known()
		o := consensus.Options{ID: n.id, Log: n.log, Applied: at, Known: known, Joining: n.joins, Nonce: s.rng.Uint64(), Limits: limits, Logger: s.logger}
		n.core, err = consensus.New(o.Planted(d.planted()))
	}
	if err != nil {
		s.violate("node %d does not open: %v", n.id, err)
		return
	}
	s.trace("node %d opens at index %d", n.id, at.Index)
	n.event(s.between(0, tick), n.tick)
	n.turn()
}

// event schedules something that this start of the node does.
func (n *node) event(wait time.Duration, do func()) {
	life := n.life
	var run func()
	run = func() {
		switch {
		case !n.up || n.life != life:
		case n.paused > n.sim.now:
			n.sim.at(n.paused, run)
		default:
			n.guard(do)
		}
	}
	n.sim.after(wait, run)
}

// guard turns a panic of raft into a violation.
func (n *node) guard(do func()) {
	defer func() {
		if p := recover(); p != nil {
			n.sim.violate("node %d fails: %v\n%s", n.id, p, debug.Stack())
		}
	}()
	do()
}

func (n *node) tick() {
	s := n.sim
	delay := s.now - n.due
	if len(n.begun) > 0 {
		delay = max(delay, s.now-n.begun[0])
	}
	durable := n.state.Durable()
	if s.Defect == CutAtApplied {
		durable = n.state.Applied().Index
	}
	n.core.Durable(durable)
	floor := n.core.Status().Floor
	n.core.Tick(delay)
	s.check.cuts(n, floor)
	n.turn()
	wait := time.Duration(float64(tick) / n.rate)
	n.due = s.now + wait
	n.event(wait, n.tick)
}

// turn carries out what the Core decided.
func (n *node) turn() {
	s := n.sim
	turn, err := n.core.Ready()
	if err != nil {
		s.violate("node %d: %v", n.id, err)
		return
	}
	for _, m := range turn.Messages {
		s.net.send(n, m)
	}
	for {
		record, ok := n.core.NextRecord()
		if !ok {
			break
		}
		n.write(record)
	}
	if turn.Batch != nil {
		n.apply(turn.Batch)
	}
	if turn.Restore != nil {
		n.restore(turn.Restore)
	}
	for _, m := range turn.Closed {
		m.Closed()
	}
	for _, e := range turn.Events {
		n.handle(e)
	}
	s.check.step(n)
}

func (n *node) write(r consensus.Record) {
	s := n.sim
	number, err := n.log.Append(r)
	if err != nil {
		s.violate("node %d: %v", n.id, err)
	}
	if s.Defect == AckBeforeSync || s.Defect == VoteNotSynced && len(r.Entries) == 0 && r.HardState != nil {
		n.event(0, func() { n.core.Synced(); n.turn() })
		return
	}
	n.begun = append(n.begun, s.now)
	n.diskFree = max(n.diskFree, s.now+s.between(200*time.Microsecond, 3*time.Millisecond), n.stalled)
	n.event(n.diskFree-s.now, func() {
		if err := n.log.Sync(number); err != nil {
			s.violate("node %d: %v", n.id, err)
		}
		n.begun = n.begun[1:]
		n.core.Synced()
		n.turn()
	})
}

func (n *node) apply(b *consensus.Batch) {
	s := n.sim
	for _, e := range b.Entries {
		s.check.committed(n, e)
	}
	if s.Defect == PublishesUnapplied {
		n.event(0, func() { n.core.Applied(); n.turn() })
	}
	n.work(func() {
		if err := n.state.Apply(b.Entries, b.After); err != nil {
			s.violate("node %d at index %d: %v", n.id, b.After.Index, err)
			return
		}
		if s.Defect != PublishesUnapplied {
			n.core.Applied()
			n.turn()
		}
	})
}

func (n *node) restore(from consensus.Snapshot) {
	n.work(func() {
		if err := n.state.Restore(from); err != nil {
			n.sim.violate("node %d: %v", n.id, err)
			return
		}
		at := n.state.Applied()
		n.sim.Snapshots++
		n.sim.trace("node %d restores index %d", n.id, at.Index)
		n.sim.check.restored(n)
		n.core.Restored(at)
		n.turn()
	})
}

// work schedules what the goroutine of the state does, in order.
func (n *node) work(do func()) {
	n.applyFree = max(n.applyFree, n.sim.now) + n.sim.between(50*time.Microsecond, 2*time.Millisecond)
	if n.sim.slowApplies && n.sim.rng.IntN(4) == 0 {
		n.applyFree += n.sim.between(5*time.Millisecond, 80*time.Millisecond)
	}
	n.event(n.applyFree-n.sim.now, do)
}

func (n *node) applied(e consensus.Committed, chain, digest uint64) {
	n.sim.check.applied(n, e.Index, chain, digest)
}

// post schedules what a user of the node asks for. Requests keep their order.
func (n *node) post(do func()) {
	n.inboxFree = max(n.inboxFree, n.sim.now+n.sim.between(0, 2*time.Millisecond))
	n.event(n.inboxFree-n.sim.now, func() { do(); n.turn() })
}

func (n *node) receive(m consensus.Message) {
	if err := n.core.Step(m); err != nil {
		n.sim.violate("node %d refuses a message of node %d: %v", n.id, m.Raft.GetFrom(), err)
		return
	}
	n.turn()
	if s := n.sim; m.Raft.GetType() == raftpb.MsgVote && s.now < s.votersCrash && s.rng.IntN(2) == 0 {
		n.event(s.between(0, 4*time.Millisecond), n.flicker)
	}
}

func (n *node) handle(e consensus.Event) {
	s := n.sim
	switch e.Kind {
	case consensus.Led:
		s.trace("node %d leads in term %d from index %d", n.id, e.Term, e.Index)
		s.Terms++
		n.leads = e.Term
		s.check.led(n, e)
		if n.journal != nil && !n.journal.over {
			s.violate("%v leads in term %d, and was not told that it lost term %d", n, e.Term, n.journal.term)
		}
		_, tag, _, _ := n.state.Sums()
		n.journal = &journal{node: n, term: e.Term, newest: tag}
	case consensus.Lost:
		s.trace("node %d lost term %d", n.id, e.Term)
		n.leads = 0
		n.journal.over = true
	case consensus.Resolved:
		s.check.resolved(n, e)
		if n.journal != nil {
			n.journal.open--
		}
	case consensus.Fenced:
		s.check.fenced(n, e.Tag, e.Index, e.Err)
	case consensus.Members:
		s.trace("node %d: members %v", n.id, e.Conf)
		s.Changes++
	}
}

// crash ends the process. Its disk keeps what was durable, and perhaps more.
func (n *node) crash() {
	if !n.up {
		return
	}
	s := n.sim
	n.up = false
	s.Crashes++
	s.trace("node %d crashes", n.id)
	for _, report := range n.receiving {
		report(false)
	}
	n.receiving = nil
	n.log.Crash(s.rng.IntN(4) * s.rng.IntN(2))
	n.state.Crash(s.rng.IntN(2) == 0)
}

// members returns who the node believes to be in the group.
func (n *node) members() *raftpb.ConfState {
	return n.state.Applied().Conf
}

func (n *node) String() string { return fmt.Sprintf("node %d", n.id) }

// isSnapshot reports whether a message announces a snapshot.
func isSnapshot(m consensus.Message) bool {
	return m.Raft.GetType() == raftpb.MsgSnap && !raft.IsEmptySnap(m.Raft.GetSnapshot())
}
