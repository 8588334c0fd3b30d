package simtest

import (
	"time"

	"parley/cluster/consensus"
)

// journal is the user of a leadership: it makes changes on top of each other.
type journal struct {
	node   *node
	term   uint64
	newest uint64
	open   int
	over   bool
}

// propose makes a change. It does not look whether the term is over: the loop has to.
func (j *journal) propose() {
	s := j.node.sim
	s.tag++
	change := Change{
		Tag: s.tag, After: j.newest, Op: byte(s.rng.IntN(int(ops))), Key: byte(s.rng.IntN(16)),
		Value: s.rng.Uint64(), Filler: s.rng.IntN(60),
	}
	if j.node.core.Propose(j.term, change.Encode(), s.tag) == nil {
		j.newest = s.tag
		j.open++
		s.check.proposed(s.tag)
	}
}

// client proposes and reads all the time.
func (s *sim) client() {
	busy := s.between(2*time.Millisecond, 30*time.Millisecond)
	var again func()
	again = func() {
		s.after(s.between(time.Millisecond, busy), again)
		for _, n := range s.all() {
			j := n.journal
			if !n.up || j == nil || j.open >= 6 || s.check.enough || s.rng.IntN(3) == 0 {
				continue
			}
			if !j.over || s.rng.IntN(20) == 0 {
				n.post(j.propose)
			}
		}
		if n := some(s, s.all()); n.up && s.rng.IntN(2) == 0 {
			n.post(func() { s.fence(n) })
		}
	}
	s.after(0, again)
}

func (s *sim) fence(n *node) {
	s.tag++
	n.fences[s.tag] = s.check.newest
	if s.Defect == FenceWithoutQuorum {
		s.check.fenced(n, s.tag, n.state.Applied().Index, nil)
		return
	}
	n.core.Fence(s.tag)
}

// faults make things fail in a simulation.
type faults struct{ *sim }

// start makes things fail. Every run has a selection of them.
func (s faults) start() {
	kinds := []func(){
		s.cutOne, s.isolate, s.split, s.crashOne, s.crashAll, s.stall, s.clock, s.pause, s.transfer, s.loseDisk, s.weather, s.elect, s.rollBack,
	}
	var chosen []func()
	for _, kind := range kinds {
		if s.rng.IntN(10) < 6 {
			chosen = append(chosen, kind)
		}
	}
	if s.Seed%8 == 0 {
		chosen = []func(){s.elect, s.weather} // two leaders in a term need many elections
	}
	if s.slowApplies = s.Seed%8 == 4; s.slowApplies {
		chosen = []func(){s.elect, s.transfer, s.cutOne} // a new leader has not applied what the former one had
	}
	pause := s.between(50*time.Millisecond, 600*time.Millisecond)
	var again func()
	again = func() {
		if s.quiet || len(chosen) == 0 {
			return
		}
		some(s.sim, chosen)()
		s.after(s.between(pause/4, pause), again)
	}
	s.after(s.between(0, time.Second), again)
	s.flushes()
}

// flushes makes states durable now and then.
func (s faults) flushes() {
	n := some(s.sim, s.all())
	if n.up {
		n.event(0, n.state.BeginFlush)
		n.event(s.between(5*time.Millisecond, 80*time.Millisecond), n.state.EndFlush)
		if _, found := s.copies[n.id]; !found || s.rng.IntN(4) == 0 {
			s.copies[n.id] = n.copyDisk()
		}
	}
	s.after(s.between(10*time.Millisecond, 200*time.Millisecond), s.flushes)
}

func (s faults) while() time.Duration { return s.between(20*time.Millisecond, 2*time.Second) }

func (s faults) cutOne() {
	a, b := some(s.sim, s.all()), some(s.sim, s.all())
	long := s.while()
	s.trace("nothing passes from %d to %d for %v", a.id, b.id, long)
	s.net.cut(a.id, b.id, long)
	if s.rng.IntN(2) == 0 {
		s.net.cut(b.id, a.id, long)
	}
}

func (s faults) isolate() {
	n, long, oneWay := some(s.sim, s.all()), s.while(), s.rng.IntN(4)
	s.trace("node %d is isolated (%d) for %v", n.id, oneWay, long)
	for _, other := range s.all() {
		if oneWay != 1 {
			s.net.cut(n.id, other.id, long)
		}
		if oneWay != 2 {
			s.net.cut(other.id, n.id, long)
		}
	}
}

func (s faults) split() {
	long, mask := s.while(), s.rng.IntN(64)
	s.trace("the nodes are split (%b) for %v", mask, long)
	for _, a := range s.all() {
		for _, b := range s.all() {
			if mask>>(a.id%6)&1 != mask>>(b.id%6)&1 {
				s.net.cut(a.id, b.id, long)
			}
		}
	}
}

func (s faults) crashOne() { s.restart(some(s.sim, s.all())) }

func (s faults) crashAll() {
	for _, n := range s.all() {
		s.restart(n)
	}
}

func (s faults) restart(n *node) {
	if !n.up {
		return
	}
	n.crash()
	s.after(s.while(), n.reopen)
}

// reopen starts a node that crashed, unless something else did or nothing will.
func (n *node) reopen() {
	if !n.up && !n.gone {
		n.open()
	}
}

// flicker crashes a node and starts it again at once.
func (n *node) flicker() {
	n.crash()
	n.sim.after(n.sim.between(time.Millisecond, 10*time.Millisecond), n.reopen)
}

// elect makes an election in which several nodes stand, and voters crash.
func (s faults) elect() {
	if leader := s.group.leader(); leader != nil {
		leader.flicker()
	}
	s.trace("voters crash for a while")
	s.votersCrash = s.now + s.while()
	s.net.slow = s.between(5*time.Millisecond, 60*time.Millisecond)
	jump := electionTicks + s.rng.IntN(electionTicks)
	for _, n := range s.all() {
		n.event(0, func() { n.jump(jump) })
	}
}

// electionTicks is how long a follower at least waits for a leader.
const electionTicks = 12

func (n *node) jump(ticks int) {
	for range ticks {
		n.core.Tick(0)
		n.turn()
	}
}

func (s faults) stall() {
	n := some(s.sim, s.all())
	n.stalled = s.now + s.while()
	s.trace("the disk of node %d stalls until %v", n.id, n.stalled)
}

func (s faults) clock() {
	n := some(s.sim, s.all())
	if s.rng.IntN(2) == 0 {
		n.rate = 0.5 + 1.5*s.rng.Float64()
		s.trace("the clock of node %d has the rate %.2f", n.id, n.rate)
		return
	}
	if n.up && n.paused <= s.now {
		s.trace("the clock of node %d jumps", n.id)
		n.event(0, func() { n.jump(s.rng.IntN(30)) })
	}
}

func (s faults) pause() {
	n := some(s.sim, s.all())
	n.paused = max(n.paused, s.now+s.while())
	s.trace("node %d is paused until %v", n.id, n.paused)
}

func (s faults) transfer() {
	if n := s.group.leader(); n != nil && n.paused <= s.now {
		to := some(s.sim, s.all()).id
		s.trace("node %d is asked to hand over to node %d", n.id, to)
		n.event(0, func() { _ = n.core.Transfer(to); n.turn() })
	}
}

// loseDisk destroys a disk. The node never returns: another one takes its place, under
// a new id.
func (s faults) loseDisk() {
	if s.rng.IntN(3) > 0 || !s.group.canLose() {
		return
	}
	n := some(s.sim, s.group.alive(s.group.leader()))
	n.crash()
	s.trace("node %d loses its disk", n.id)
	if s.Defect == ReusedID {
		n.blank()
		n.joins, n.settled = true, false
		s.after(s.between(time.Millisecond, 500*time.Millisecond), n.reopen)
		return
	}
	n.gone = true
}

// rollBack puts an older copy of its disk in the place of a node's disk. The other nodes go on
// meanwhile.
func (s faults) rollBack() {
	n := some(s.sim, s.all())
	older, found := s.copies[n.id]
	if !found || !n.up || !n.settled || !s.group.canLose() {
		return
	}
	delete(s.copies, n.id)
	n.crash()
	had, last := n.holds(), n.log.disk.last()
	n.restoreDisk(older)
	if n.holds() >= had && n.log.disk.last() >= last { // an entry may be acknowledged and not committed yet
		s.after(s.while(), n.reopen)
		return
	}
	s.trace("node %d comes back with an older copy: %d instead of %d", n.id, n.holds(), had)
	n.older = true
	s.after(s.between(time.Millisecond, 300*time.Millisecond), n.reopen)
}

// weather changes how well the network works.
func (s faults) weather() {
	s.net.loss, s.net.double = s.rng.IntN(30)*s.rng.IntN(2), s.rng.IntN(30)*s.rng.IntN(2)
	s.net.slow = time.Duration(s.rng.IntN(2)) * s.between(time.Millisecond, 80*time.Millisecond)
	s.trace("the network loses %d%%, doubles %d%%, delays by up to %v", s.net.loss, s.net.double, s.net.slow)
}

// heal ends all faults.
func (s faults) heal() {
	if s.Violation != nil {
		return
	}
	s.now = troubled
	s.trace("all faults end")
	s.quiet = true
	s.net = network{sim: s.sim, cuts: map[[2]uint64]int{}}
	s.check.healed = s.check.last()
	for _, n := range s.all() {
		n.stalled, n.rate = 0, 1
		n.reopen()
	}
}

var _ consensus.State = (*State)(nil)
