package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/journal"
)

// The errors of changes of members.
var (
	ErrTokenUsed = errors.New("the join token was used before")
	ErrTooFew    = errors.New("without this node, too few of the others are up to decide anything")
)

// Group changes the members and the keys of the group while this node leads.
type Group struct {
	member *Member
	clock  parley.Clock
	// State says how this node is, but for its settings and its clock.
	State func() NodeState
	// Drain, if set, takes this node out of service and hands its leadership over. It returns
	// when clients had time to go elsewhere.
	Drain func(context.Context)
	// Met, if set, gets the members as of an index that this node does not have yet.
	Met func(members Table, upTo uint64)
	// Peer returns another node; required with Drain.
	Peer func(id uint64) Peer
	// Settings, as NAME=VALUE, should be the same on all nodes.
	Settings []string
	// changing serializes changes of members.
	changing  sync.Mutex
	id        uint64
	node      *Node
	standings atomic.Pointer[standings]
}

// NodeState is how a node is.
type NodeState = nodeState

// errDescription refuses a description that JoinServer would not have passed on.
var errDescription = parley.Refuse(parley.Unprocessable, "description", "A node cannot be described so.")

// errAddress refuses a node that would get what is sent to another one.
var errAddress = parley.Refuse(parley.Conflict, "address_taken", "A member of the cluster has this address already: remove that one, or join with a token of parley cluster replace.")

// errReplaced refuses a node that would come in beside one that has replaced the same node.
var errReplaced = parley.Refuse(parley.Conflict, "node_replaced", "The node that this token replaces is not a member of the cluster any more: to add a node, join with a token of parley cluster token.")

const (
	// descriptionBytesMax is more than a description of the longest name and address has.
	descriptionBytesMax = 4096
	// caughtUp is by how many entries a learner may lag when it becomes a voter.
	caughtUp = 64
	// promoteEvery is how often the leader looks for learners that have caught up.
	promoteEvery = 200 * time.Millisecond
	// changeTimeout bounds a change of members.
	changeTimeout = 5 * time.Second
	changePoll    = 10 * time.Millisecond
)

// NewGroup returns the group of a member, which has the id.
func NewGroup(m *Member, id uint64, clock parley.Clock, state func() NodeState, settings []string) *Group {
	return &Group{member: m, id: id, clock: clock, State: state, Settings: settings}
}

// answer answers a request that concerns the group.
func (g *Group) answer(ctx context.Context, request any) (any, error) {
	switch r := request.(type) {
	case changeKey:
		return nil, g.member.changeKey(ctx, r)
	case addMember:
		return nil, g.add(ctx, r)
	case removeMember:
		return nil, g.remove(ctx, r.ID)
	case drainNode:
		if g.Drain != nil {
			g.Drain(ctx)
		}
		return nil, nil
	case hand:
		return nil, g.hand(ctx, r.To)
	case askAcknowledged:
		return g.answerClaim(ctx, r, true)
	case askState:
		s := g.State()
		s.Settings, s.Now = g.Settings, g.clock()
		return s, nil
	}
	return nil, errNoRequest
}

// Table describes the members, as far as this node knows.
func (g *Group) Table() Table {
	r := g.member.roster.Load()
	if r == nil {
		return nil
	}
	return r.table
}

// Status is the loop's view of the group.
func (g *Group) Status(ctx context.Context) (s consensus.Status, err error) {
	r := g.member.Runner()
	if r == nil {
		return s, consensus.ErrStopped
	}
	err = r.Do(ctx, func(c *consensus.Core) error { s = c.Status(); return nil })
	if err != nil && ctx.Err() != nil {
		err = journal.ErrBehind
	}
	return s, err
}

// add takes a node in as a learner. A repeat for the same node changes nothing.
func (g *Group) add(ctx context.Context, r addMember) error {
	var d Description
	if err := json.Unmarshal([]byte(r.Described), &d); err != nil || r.ID == 0 || d.Check() != nil || len(r.Described) > descriptionBytesMax {
		return errDescription
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	if known := g.member.roster.Load(); known != nil {
		_, member := known.table[r.ID]
		if by := known.admitted(r.Token); by != 0 && (by != r.ID || !member) {
			return ErrTokenUsed // by another node, or by this one, which was removed since
		}
		if _, there := known.table[d.Replaces]; d.Replaces != 0 && !there && !member {
			return errReplaced
		}
		for id, other := range known.table {
			if other.Address == d.Address && id != r.ID && id != d.Replaces {
				return errAddress
			}
		}
	}
	learner := raftpb.ConfChangeAddLearnerNode
	change := &raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{{Type: &learner, NodeId: &r.ID}}, Context: []byte(r.Described),
	}
	return g.change(ctx, change, func(conf *raftpb.ConfState) bool {
		return slices.Contains(conf.GetLearners(), r.ID) || slices.Contains(conf.GetVoters(), r.ID)
	})
}

// change asks for a change of members until it has taken effect. The error is
// consensus.ErrNoLearner if it would make a voter of a node that is no learner by now.
func (g *Group) change(ctx context.Context, change *raftpb.ConfChangeV2, met func(*raftpb.ConfState) bool) error {
	runner := g.member.Runner()
	if runner == nil {
		return journal.ErrNotLeader // it has not started
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for proposed := false; ; {
		var done bool // also by a leader that has thereby taken itself out
		err := runner.Do(ctx, func(c *consensus.Core) error {
			if done = met(c.Status().Applied.Conf); done {
				return nil
			}
			err := c.ChangeMembers(change)
			proposed = proposed || err == nil
			return err
		})
		switch {
		case done:
			return nil
		case errors.Is(err, consensus.ErrNoLearner):
			return err
		case errors.Is(err, consensus.ErrNotLeader), errors.Is(err, consensus.ErrStopped):
			if proposed { // a later leader decides
				return parley.ErrOutcomeUnknown
			}
			return journal.ErrNotLeader
		}
		select { // another change may be under way: then the loop has dropped this one
		case <-time.After(changePoll):
		case <-ctx.Done():
			return parley.ErrOutcomeUnknown
		}
	}
}

// drainTimeout bounds how long a member takes to drain that is to be taken out.
const drainTimeout = 4 * time.Second

// drain has a voter that is about to be taken out leave service first, if it is up, so that none
// of its clients is refused. This node does not lead any more if it was this one.
func (g *Group) drain(ctx context.Context, s consensus.Status, id uint64) {
	if g.Drain == nil || !slices.Contains(s.Applied.Conf.GetVoters(), id) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if id == g.id {
		g.Drain(ctx)
	} else if s.Active(id) {
		_, _ = g.node.call(ctx, g.Peer(id), drainNode{})
	}
}

// remove takes a node out, if a majority of the others is up. One that is up leaves service first.
func (g *Group) remove(ctx context.Context, id uint64) error {
	s, err := g.removable(ctx, id)
	if s == nil || err != nil {
		return err
	}
	g.drain(ctx, *s, id)
	g.changing.Lock()
	defer g.changing.Unlock()
	if s, err = g.removable(ctx, id); s == nil || err != nil {
		return err
	}
	gone := raftpb.ConfChangeRemoveNode
	change := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: &gone, NodeId: &id}}}
	return g.change(ctx, change, func(conf *raftpb.ConfState) bool {
		return !slices.Contains(conf.GetVoters(), id) && !slices.Contains(conf.GetLearners(), id)
	})
}

// removable returns the status of a leader that may take a node out, nil if that is no member. The
// error is ErrTooFew, or journal.ErrNotLeader.
func (g *Group) removable(ctx context.Context, id uint64) (*consensus.Status, error) {
	s, err := g.Status(ctx)
	if err != nil || s.Leads == 0 {
		return nil, journal.ErrNotLeader
	}
	conf := s.Applied.Conf
	voter := slices.Contains(conf.GetVoters(), id)
	if !voter && !slices.Contains(conf.GetLearners(), id) {
		return nil, nil // a repeat, such as after the answer of a leader that took itself out was lost
	}
	up, others := 0, 0
	for _, p := range s.Progress {
		if p.ID == id || p.Learner {
			continue
		}
		others++
		if p.ID == s.ID || p.Active {
			up++
		}
	}
	if voter && up <= others/2 {
		return nil, ErrTooFew
	}
	return &s, nil
}

// hand hands the leadership over, to the most advanced member if none is named.
func (g *Group) hand(ctx context.Context, to uint64) error {
	if g.member.term() == 0 {
		return journal.ErrNotLeader
	}
	err := g.member.Runner().Do(ctx, func(c *consensus.Core) error { return c.Transfer(to) })
	if errors.Is(err, consensus.ErrNotLeader) || errors.Is(err, consensus.ErrStopped) {
		return journal.ErrNotLeader
	}
	return err
}

// Lead makes voters of learners that have caught up, while this node leads, until ctx is done. A
// learner that replaces another member takes its place in the same change.
func (g *Group) Lead(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(promoteEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if g.member.term() == 0 {
			continue
		}
		s, err := g.Status(ctx)
		if err != nil || s.Leads == 0 {
			continue
		}
		for _, p := range s.Progress {
			if p.Learner && p.Active && p.Match > 0 && p.Match+caughtUp >= s.Commit { // it has answered, and is close
				if replaced := g.Table()[p.ID].Replaces; replaced != 0 {
					g.drain(ctx, s, replaced)
				}
				if err := g.promote(ctx, p.ID); err != nil && !errors.Is(err, journal.ErrNotLeader) {
					failed(fmt.Errorf("node %s does not become a voter yet: %w", nodeName(p.ID), err))
				}
			}
		}
	}
}

// promote makes a voter of a learner. It does nothing if the node is none any more.
func (g *Group) promote(ctx context.Context, id uint64) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	voter, gone := raftpb.ConfChangeAddNode, raftpb.ConfChangeRemoveNode
	change := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: &voter, NodeId: &id}}}
	table := g.Table()
	if replaced := table[id].Replaces; replaced != 0 {
		if _, member := table[replaced]; member {
			change.Changes = append(change.Changes, &raftpb.ConfChangeSingle{Type: &gone, NodeId: &replaced})
		}
	}
	err := g.change(ctx, change, func(conf *raftpb.ConfState) bool {
		return slices.Contains(conf.GetVoters(), id) && len(conf.GetVotersOutgoing()) == 0
	})
	if errors.Is(err, consensus.ErrNoLearner) {
		return nil // it was removed after the caller had looked
	}
	return err
}
