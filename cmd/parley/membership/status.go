package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"parley/cluster"
	"parley/cluster/consensus"
	"parley/cluster/identity"
)

// Status is the cluster as one node sees it.
type Status struct {
	Cluster identity.ClusterID `json:"cluster_id"`
	Nodes   []NodeStatus       `json:"nodes"`
	Groups  []GroupStatus      `json:"groups"`
}

// NodeStatus is a member of the cluster.
type NodeStatus struct {
	ID      identity.NodeID `json:"id"`
	Name    string          `json:"name"`
	Address string          `json:"address"`
	// State is ready, unready, joining, draining or down.
	State string `json:"state"`
	// Reason says why it is unready, or what is wrong with a member; else nil.
	Reason *string `json:"reason"`
	// Version is that of its program; nil if it is down, as are the numbers below.
	Version *string `json:"version"`
	// LagEntries is how many entries that are committed its content lacks.
	LagEntries *uint64 `json:"lag_entries"`
	// DiskFreeBytes is what is left on the disk of its data directory.
	DiskFreeBytes *int64 `json:"disk_free_bytes"`
	// LastContactAt is when the node that answers last received something from it, in UTC; nil
	// if it has not since it started, and for itself.
	LastContactAt *time.Time `json:"last_contact_at"`
	// Leads are the groups that the node leads.
	Leads []int `json:"leads"`
	// Self marks the node that answers.
	Self bool `json:"self"`
}

// GroupStatus is a group of replicas. There is one.
type GroupStatus struct {
	Group int `json:"group"`
	// Leader is nil if this node knows none.
	Leader   *identity.NodeID  `json:"leader"`
	Term     uint64            `json:"term"`
	Voters   []identity.NodeID `json:"voters"`
	Learners []identity.NodeID `json:"learners"`
	// Applied and Committed are indexes of the order, as of the node that answers.
	Applied   uint64 `json:"applied"`
	Committed uint64 `json:"committed"`
}

// stateTimeout bounds how long nodes may take to say how they are.
const stateTimeout = time.Second

// Status asks all nodes how they are.
func (p *peers) Status(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	g, err := p.group.Status(ctx)
	if err != nil {
		return s, err
	}
	s = Status{Cluster: p.identity.Cluster, Nodes: []NodeStatus{}, Groups: []GroupStatus{{
		Term: g.Term, Voters: ids(g.Applied.Conf.GetVoters()), Learners: ids(g.Applied.Conf.GetLearners()),
		Applied: g.Applied.Index, Committed: g.Commit,
	}}}
	if g.Leader != 0 {
		s.Groups[0].Leader = new(identity.NodeID(g.Leader))
	}
	for id, d := range p.group.Table() {
		n := NodeStatus{ID: identity.NodeID(id), Name: d.Name, Address: d.Address, Leads: []int{}, Self: identity.NodeID(id) == p.identity.ID}
		if id == g.Leader {
			n.Leads = append(n.Leads, 0)
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	var asking sync.WaitGroup
	for i := range s.Nodes {
		asking.Go(func() { p.ask(ctx, &s.Nodes[i], g) })
	}
	asking.Wait()
	return s, nil
}

// divergedReason is why a member has to be replaced that has diverged.
const divergedReason = "This node holds entries that were acknowledged and that the others do not have: parley verify --diverged lists its messages, parley cluster replace puts another node in its place."

// ask learns the state of a node. One that is a learner still joins, whatever it says.
func (p *peers) ask(ctx context.Context, n *NodeStatus, g consensus.Status) {
	said := p.state()
	if !n.Self {
		var err error
		if said, err = p.node.StateOf(ctx, p.transport.Peer(uint64(n.ID))); err != nil {
			said.State = "down"
		}
		if at := p.transport.LastContact(uint64(n.ID)); !at.IsZero() {
			n.LastContactAt = new(at.UTC())
		}
	}
	if said.State == "ready" && slices.Contains(g.Applied.Conf.GetLearners(), uint64(n.ID)) {
		said.State = "joining"
	}
	if slices.Contains(g.Diverged, uint64(n.ID)) {
		said.Reason = divergedReason
	}
	if n.State = said.State; said.Reason != "" {
		n.Reason = &said.Reason
	}
	if said.State != "down" {
		n.Version, n.DiskFreeBytes = &said.Version, &said.FreeBytes
		n.LagEntries = new(g.Commit - min(g.Commit, said.Applied))
	}
}

// Stats returns what reads the numbers of a node, nil for a server on its own.
func Stats(p *Part) func() (s cluster.Stats, started bool) {
	if p == nil {
		return nil
	}
	return func() (cluster.Stats, bool) {
		s, started := p.transport.Stats()
		s.ClockOffsets = p.clocks.Offsets()
		return s, started
	}
}

func ids(of []uint64) []identity.NodeID {
	all := make([]identity.NodeID, len(of))
	for i, id := range of {
		all[i] = identity.NodeID(id)
	}
	return all
}
