package simtest

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// group is the operator of the cluster: it replaces nodes that lost their disk, and
// adds and removes others.
type group struct {
	sim *sim
}

// leader returns the node that leads in the newest term, or nil.
func (g *group) leader() *node {
	var found *node
	for _, n := range g.sim.all() {
		if n.up && n.leads != 0 && (found == nil || n.leads > found.leads) {
			found = n
		}
	}
	return found
}

// alive returns the members that the leader knows and that have a disk.
func (g *group) alive(leader *node) []*node {
	var list []*node
	conf := leader.members()
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetLearners()) {
		if n := g.sim.nodes[id]; !n.gone {
			list = append(list, n)
		}
	}
	return list
}

// canLose reports whether the cluster survives another lost disk: no other is lost, and
// no change of members is under way.
func (g *group) canLose() bool {
	leader := g.leader()
	if leader == nil || leader.paused > g.sim.now || slices.ContainsFunc(g.sim.all(), func(n *node) bool { return n.older && !n.gone }) {
		return false
	}
	conf := leader.members()
	if len(conf.GetVotersOutgoing()) > 0 || len(conf.GetVoters()) < 3 || leader.core.Status().Applied.Index != g.sim.check.last() {
		return false
	}
	return len(g.alive(leader)) == len(conf.GetVoters())+len(conf.GetLearners())
}

// operate looks after the members from time to time.
func (g *group) operate() {
	s := g.sim
	s.after(s.between(100*time.Millisecond, 800*time.Millisecond), g.operate)
	leader := g.leader()
	if leader == nil || leader.paused > s.now || s.check.enough {
		return
	}
	conf := leader.members()
	if len(conf.GetVotersOutgoing()) > 0 {
		return
	}
	voters, learners := conf.GetVoters(), conf.GetLearners()
	lost := g.gone(voters)
	switch {
	case g.gone(learners) != 0:
		g.change(leader, remove(g.gone(learners)))
	case len(learners) > 0:
		g.promote(leader, learners[0], lost)
	case lost != 0:
		g.change(leader, learner(g.create()))
	case s.quiet || s.rng.IntN(4) > 0:
	case len(voters) < 5 && s.rng.IntN(2) == 0:
		g.change(leader, learner(g.create()))
	case len(voters) > 3:
		g.change(leader, remove(some(s, voters)))
	}
}

// gone returns the first of the nodes that lost its disk.
func (g *group) gone(ids []uint64) uint64 {
	for _, id := range ids {
		if g.sim.nodes[id].gone {
			return id
		}
	}
	return 0
}

// promote makes a learner that has caught up a voter, in the place of a lost one if
// there is one.
func (g *group) promote(leader *node, id, lost uint64) {
	n := g.sim.nodes[id]
	switch caught := n.up && n.state.Applied().Index+10 > g.sim.check.last(); {
	case !caught:
	case lost != 0:
		g.change(leader, voter(id), remove(lost))
	default:
		g.change(leader, voter(id))
	}
}

// create starts a node with an empty disk and a new id.
func (g *group) create() uint64 {
	s := g.sim
	n := s.add(s.nextID)
	s.nextID++
	n.joins = true
	n.open()
	return n.id
}

func (g *group) change(leader *node, changes ...*raftpb.ConfChangeSingle) {
	g.sim.trace("node %d is asked to change members: %s", leader.id, raftpb.ConfChangesToString(changes))
	leader.event(0, func() {
		_ = leader.core.ChangeMembers(&raftpb.ConfChangeV2{Changes: changes})
		leader.turn()
	})
}

func voter(id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(id)}
}

func learner(id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(id)}
}

func remove(id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(id)}
}
