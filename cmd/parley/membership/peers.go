package membership

import (
	"context"
	"slices"
	"sync"

	"parley/client/parley"
	"parley/cluster"
	"parley/cluster/identity"
)

// peers are the other nodes, as this one asks them.
type peers struct {
	identity  *identity.Identity
	group     *cluster.Group
	node      *cluster.Node
	transport *cluster.Transport
	// state is how this node is.
	state func() cluster.NodeState
	// levels are those that other nodes had when they last answered, by id. A node that is down
	// counts with what is remembered; an operator who starts an older program there has been
	// told not to.
	levels sync.Map
}

// errLevel refuses what a node of the cluster might take for something else.
var errLevel = parley.Refuse(parley.Unavailable, "overloaded", "This needs every node of the cluster to run a release that knows it, and one of them does not or does not answer. Try again when all nodes are ready.")

// ScopesKnown returns a refusal unless all nodes know credentials of other scopes than org.
func (p *peers) ScopesKnown(ctx context.Context) error { return p.understand(ctx, cluster.LevelScopes) }

// understand returns a refusal unless all nodes have a level or a higher one.
func (p *peers) understand(ctx context.Context, level uint64) error {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for id := range p.group.Table() {
		if identity.NodeID(id) == p.identity.ID {
			continue
		}
		asking.Go(func() {
			if said, err := p.node.StateOf(ctx, p.transport.Peer(id)); err == nil {
				p.levels.Store(id, said.Level)
			}
		})
	}
	asking.Wait()
	for id := range p.group.Table() {
		if known, ok := p.levels.Load(id); identity.NodeID(id) != p.identity.ID && (!ok || known.(uint64) < level) {
			return errLevel
		}
	}
	return nil
}

// otherReady reports whether another node is ready.
func (p *peers) otherReady(ctx context.Context) bool {
	s, err := p.Status(ctx)
	return err == nil && slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return !n.Self && n.State == "ready" })
}

// readyOther returns a node that may lead instead of the one that does, 0 if none is ready.
func (p *peers) readyOther(ctx context.Context) (identity.NodeID, error) {
	s, err := p.Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range s.Nodes {
		if len(n.Leads) == 0 && n.State == "ready" {
			return n.ID, nil
		}
	}
	return 0, nil
}
