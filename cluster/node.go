package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"parley/actors/host"
	"parley/actors/wire"
	"parley/client/parley"
	"parley/cluster/link"
	"parley/journal"
	"parley/persistence"
)

// A Peer is another node, as this one reaches it.
type Peer interface {
	// Call has the peer answer a request. ErrUnreached means that it did not get it; after
	// any other error it may have.
	Call(ctx context.Context, request []byte) (answer []byte, err error)
	// Malformed says that an answer of the peer cannot be read: it is disconnected.
	Malformed(err error)
}

// ErrUnreached is the error of a call that did not reach its peer.
var ErrUnreached = link.ErrUnreached

// Options of a Node. All are required but Group.
type Options struct {
	Store *persistence.Store
	// Types are what may be asked and answered, see RegisterTypes.
	Types *wire.Types
	// Leader is the node that leads, as far as this one knows: nil if that is this node
	// itself. The error is journal.ErrNotLeader if none is known.
	Leader func() (Peer, error)
	Clock  parley.Clock
	// Group, if set, changes the group and its keys while this node leads.
	Group *Group
	// Gossiped, if set, receives the gossip of other nodes. An error means that it is malformed.
	Gossiped func(content []byte) error
}

// Node is this node's part of a cluster. It is a host.Router, and makes the journal that
// the node's actors and queries use.
type Node struct {
	Options
	replica *persistence.Replica
	decide  atomic.Pointer[func(host.Request) (any, error)]
	window  window
	// forwarded counts what this node sends to the leader.
	forwarded forwarded
}

const (
	// retryFirst is the pause before a request is sent again while no node leads. It
	// doubles with each attempt, up to retryMax.
	retryFirst, retryMax = 5 * time.Millisecond, 80 * time.Millisecond
	// callTimeout bounds a call: the leader gives up waiting for an actor before. An answer that
	// comes later, because other actors had to do something after the turn, is an unknown outcome.
	callTimeout = host.AnswerTimeout + time.Second
	// encodedSpare is room for what encoding adds. Many answers repeat their request, of which
	// few have more than answerLikely bytes.
	encodedSpare, answerLikely = 512, 4096
)

// NewNode returns the part of a node whose store has a Sequencer.
func NewNode(o Options) (*Node, error) {
	replica, err := o.Store.Replica()
	n := &Node{Options: o, replica: replica}
	if o.Group != nil {
		o.Group.node = n
	}
	return n, err
}

// Serve sets what decides the requests of peers: Decide of the node's engine, or nil while
// this node does not lead.
func (n *Node) Serve(decide func(host.Request) (any, error)) {
	if decide == nil {
		n.decide.Store(nil)
		return
	}
	n.decide.Store(&decide)
}

// Ask implements host.Router. A request that no node has decided is sent again, to the
// node that leads by then.
func (n *Node) Ask(r host.Request, here func(host.Request) (any, error)) (any, error) {
	again := changesOnce
	if _, query := r.Content.(host.ReadOnly); query {
		again = changesNothing
	}
	if leader, _ := n.Leader(); leader != nil {
		room, err := n.window.take(host.EntryBytes + r.Size)
		if err != nil {
			return nil, err
		}
		defer room()
	}
	began := n.Clock()
	return n.untilDecided(context.Background(), again, func() (any, error) {
		leader, err := n.Leader()
		switch {
		case err != nil:
			return nil, err
		case leader == nil:
			return here(r)
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout-n.Clock().Sub(began))
		defer cancel()
		return n.forward(ctx, leader, ask{r.Stream, r.Size, r.Content, r.Payer})
	})
}

// repetition says what a request does when it is decided twice.
type repetition int

const (
	// changesOnce must not be decided twice.
	changesOnce repetition = iota
	// changesAgain changes nothing the second time.
	changesAgain
	// changesNothing only reads.
	changesNothing
)

// decided reports whether a request was decided, as far as its repetition matters.
func (again repetition) decided(err error) bool {
	return err == nil || !errors.Is(err, journal.ErrNotLeader) && (again == changesOnce || !errors.Is(err, parley.ErrOutcomeUnknown))
}

// untilDecided tries until a node has decided, or ctx is done. What may be decided twice is also
// tried again if nobody knows what became of the last try.
func (n *Node) untilDecided(ctx context.Context, again repetition, try func() (any, error)) (any, error) {
	deadline, unknown := n.Clock().Add(host.AnswerTimeout), false
	for pause := retryFirst; ; pause = min(2*pause, retryMax) {
		reply, err := try()
		if again.decided(err) {
			return reply, err
		}
		unknown = unknown || again == changesAgain && errors.Is(err, parley.ErrOutcomeUnknown)
		over := n.Clock().Add(pause).After(deadline) || ctx.Err() != nil
		if !over {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				over = true
			}
		}
		if over {
			switch {
			case unknown:
				err = parley.ErrOutcomeUnknown
			case again != changesOnce:
				err = journal.ErrBehind // nothing was done
			}
			return reply, err
		}
	}
}

// errNoAnswer means that a peer answered something else than was asked for.
var errNoAnswer = errors.New("cluster: a peer's answer does not fit the request")

// call sends a request to a peer. What the peer did is visible here when it returns.
func (n *Node) call(ctx context.Context, to Peer, request any) (any, error) {
	size := 0
	if r, is := request.(ask); is {
		size = r.Size
	}
	encoded, err := n.Types.Append(make([]byte, 0, size+encodedSpare), request)
	if err != nil {
		return nil, err
	}
	raw, err := to.Call(ctx, encoded)
	switch {
	case errors.Is(err, ErrUnreached):
		return nil, journal.ErrNotLeader
	case err != nil:
		return nil, parley.ErrOutcomeUnknown
	}
	decoded, err := n.Types.Value(raw)
	a, ok := decoded.(answer)
	if err != nil || !ok { // it may have done it
		if err != nil && !errors.Is(err, wire.ErrUnregistered) {
			to.Malformed(err)
		}
		return nil, parley.ErrOutcomeUnknown
	}
	if a.Failure != nil {
		return nil, a.Failure
	}
	if err := n.replica.Await(ctx, a.Visible); err != nil {
		return nil, parley.ErrOutcomeUnknown
	}
	return a.Content, nil
}

// claimBytesMax is more than an askAcknowledged takes.
const claimBytesMax = 8 << 10

// Answer answers a request of a peer. One that is no member, as far as this node knows, may say
// what it knows of both. The error is link.ErrFrame if the request is malformed.
func (n *Node) Answer(ctx context.Context, from uint64, member bool, request []byte) ([]byte, error) {
	if !member && len(request) > claimBytesMax {
		return nil, link.ErrNoMember
	}
	decoded, err := n.Types.Value(request)
	claim, claims := decoded.(askAcknowledged)
	switch {
	case !claims && !member:
		return nil, link.ErrNoMember
	case err != nil && !errors.Is(err, wire.ErrUnregistered):
		return nil, fmt.Errorf("%w: %w", link.ErrFrame, err)
	case err != nil: // of a node of another version
		return nil, err
	}
	a := answer{}
	switch r := decoded.(type) {
	case askAcknowledged:
		if claim.ID = from; n.Group == nil {
			return nil, errNoRequest
		}
		a.Content, a.Failure = n.Group.answerClaim(ctx, claim, member)
	case ask:
		decide := n.decide.Load()
		if decide == nil {
			a.Failure = journal.ErrNotLeader
			break
		}
		a.Content, a.Failure = (*decide)(host.Request{Stream: r.Stream, Size: r.Size, Content: r.Content, Payer: r.Payer})
	case appendEntry:
		if !r.valid() {
			return nil, fmt.Errorf("%w: %w", link.ErrFrame, errNoRequest)
		}
		a.Failure = n.append(ctx, r, len(request))
	case settle:
		a.Failure = n.Store.Settle(ctx)
	case gossip:
		if n.Gossiped == nil {
			break
		}
		if err := n.Gossiped(r.Content); err != nil {
			return nil, fmt.Errorf("%w: %w", link.ErrFrame, err)
		}
	default:
		if n.Group == nil {
			return nil, errNoRequest
		}
		a.Content, a.Failure = n.Group.answer(ctx, decoded)
	}
	switch r := decoded.(type) {
	case askState, askAcknowledged, gossip: // a node that starts shows nothing yet
	case removeMember:
		if r.ID != from { // one that had itself removed shows nothing new any more
			a.Visible = n.replica.Visible()
		}
	default:
		a.Visible = n.replica.Visible()
	}
	return n.Types.Append(make([]byte, 0, min(len(request), answerLikely)+encodedSpare), a)
}

// append appends an entry of a peer, of size bytes, and waits for its release.
func (n *Node) append(ctx context.Context, r appendEntry, size int) error {
	room, err := n.Store.Admit(r.Slot, host.EntryBytes+size)
	if err != nil {
		return err
	}
	released := make(chan error, 1)
	n.Store.Append(r.entry(n.Clock(), func(err error) { room(); released <- err }))
	select {
	case err := <-released:
		return err
	case <-ctx.Done():
		return parley.ErrOutcomeUnknown
	}
}
