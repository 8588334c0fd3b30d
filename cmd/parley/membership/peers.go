package membership

import (
	"context"
	"slices"

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
