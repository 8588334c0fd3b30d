package cluster

import (
	"context"
	"time"

	"parley/client/parley"
)

// toLeader has the leader answer a request that changes nothing the second time. The error is
// parley.ErrOutcomeUnknown if it may have done so, or may do so later.
func (n *Node) toLeader(ctx context.Context, request any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := n.untilDecided(ctx, changesAgain, func() (any, error) {
		leader, err := n.Leader()
		switch {
		case err != nil:
			return nil, err
		case leader != nil:
			return n.forward(ctx, leader, request)
		}
		return n.Group.answer(ctx, request)
	})
	return err
}

// CreateKey gives an organization a key on all nodes. It returns when the key is durable on a
// majority and present here. If the organization has a key, it keeps that one. The error is
// ErrKeysFull if there is no room; if others take the last room meanwhile, there is no key, and
// no error.
func (n *Node) CreateKey(ctx context.Context, org parley.OrgID) error {
	return n.toLeader(ctx, changeKey{Org: org})
}

// DestroyKey destroys the key of an organization on all nodes. Here, and on a majority, that
// is done when it returns; a node that is down does it when it comes back.
func (n *Node) DestroyKey(ctx context.Context, org parley.OrgID, at time.Time) error {
	return n.toLeader(ctx, changeKey{Org: org, Destroy: true, At: at})
}

// AddMember takes a node into the group. It becomes a voter when it has caught up.
func (n *Node) AddMember(ctx context.Context, id uint64, d Description) error {
	return n.toLeader(ctx, addMember{ID: id, Described: d.Encode(), Token: d.Token})
}

// RemoveMember takes a node out of the group. If it is none, nothing is done. The error is ErrTooFew.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	return n.toLeader(ctx, removeMember{id})
}

// HandOver has the leader hand over to a member, or to the most advanced one if id is 0.
func (n *Node) HandOver(ctx context.Context, id uint64) error { return n.toLeader(ctx, hand{id}) }

// SettingsOf asks a peer for its settings.
func (n *Node) SettingsOf(ctx context.Context, peer Peer) ([]string, error) {
	s, err := n.StateOf(ctx, peer)
	return s.Settings, err
}

// StateOf asks a peer how it is.
func (n *Node) StateOf(ctx context.Context, peer Peer) (NodeState, error) {
	reply, err := n.call(ctx, peer, askState{})
	if err != nil {
		return nodeState{}, err
	}
	s, ok := reply.(nodeState)
	if !ok {
		return nodeState{}, errNoAnswer
	}
	return s, nil
}

// ClockOffset measures by how much the wall clock of a peer is ahead of this node's. ok is false
// if the peer does not answer soon enough to tell.
func (n *Node) ClockOffset(ctx context.Context, peer Peer) (ahead time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, roundTripMax)
	defer cancel()
	sent := n.Clock()
	s, err := n.StateOf(ctx, peer)
	took := n.Clock().Sub(sent)
	if err != nil || took > roundTripMax {
		return 0, false
	}
	return s.Now.Sub(sent.Add(took / 2)), true
}

// Gossip sends a peer something that may be lost.
func (n *Node) Gossip(ctx context.Context, peer Peer, content []byte) error {
	_, err := n.call(ctx, peer, gossip{content})
	return err
}
